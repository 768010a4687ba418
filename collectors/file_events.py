"""Files of sysfs that announce changes: `sysfs_notify` wakes those who poll for POLLPRI | POLLERR.

The inner epoll is edge-triggered: an announcement wakes once, even if the file cannot be read. The
loop watches that epoll: it cannot watch the files themselves, because they are always readable.
"""

import asyncio
import os
import select
from collections.abc import Callable, Collection

MASK = select.EPOLLPRI | select.EPOLLERR | select.EPOLLET
MAX_FILES = 256
PAGE = 4096


class FileEvents:
    """Waits for announcements of changes in files; use it on one event loop.

    Args:
        paths: the files to watch, called before each wait; those that cannot be opened are
            tried again at the next.
        rest: seconds between two announcements that are passed on.
    """

    def __init__(self, paths: Callable[[], Collection[str]], rest: float = 0.5) -> None:
        self._paths = paths
        self._rest = rest
        self._epoll: select.epoll | None = None
        self._files: dict[str, int] = {}
        self._woken = asyncio.Event()
        self._last = -rest

    async def wait(self, seconds: float) -> bool:
        """Whether a change was announced within `seconds`, or since the last wait."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        self._watch(self._paths(), loop)
        try:
            async with asyncio.timeout_at(deadline):
                await self._woken.wait()
                await asyncio.sleep(self._last + self._rest - loop.time())
        except TimeoutError:
            return False
        self._woken.clear()
        self._last = loop.time()
        return True

    def close(self) -> None:
        """Releases the files; the loop must still run."""
        if self._epoll is not None:
            asyncio.get_running_loop().remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._epoll = None
        for path in list(self._files):
            os.close(self._files.pop(path))

    def _watch(self, paths: Collection[str], loop: asyncio.AbstractEventLoop) -> None:
        for path in self._files.keys() - set(paths):
            os.close(self._files.pop(path))  # which also removes it from the epoll
        for path in list(paths)[:MAX_FILES]:
            if path in self._files:
                continue
            try:
                file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                continue
            try:
                os.pread(file, PAGE, 0)  # only changes after a read are announced
                if self._epoll is None:
                    self._epoll = select.epoll()
                    loop.add_reader(self._epoll.fileno(), self._announced)
                self._epoll.register(file, MASK)
            except OSError:
                os.close(file)
                continue
            self._files[path] = file

    def _announced(self) -> None:
        assert self._epoll is not None
        by_file = {file: path for path, file in self._files.items()}
        for file, _ in self._epoll.poll(0):
            try:
                os.pread(file, PAGE, 0)
            except OSError:
                # Its device is lost, or was replaced: it is opened again before the next wait.
                os.close(self._files.pop(by_file[file]))
        self._woken.set()
