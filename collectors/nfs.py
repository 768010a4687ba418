"""NFS traffic of this machine, EFS included.

Format: `mountstats` of procfs, per mount a line `device SERVER:/PATH mounted on FOLDER with fstype
nfs4 statvers=1.1` and indented statistics. Of `bytes:`, the fifth and sixth number are bytes read
from and written to the server (Linux, include/linux/nfs_iostat.h).
"""

import re
from pathlib import Path

from .sysfs import reason

FILES = ("proc/1/mountstats", "proc/self/mountstats")
"""Of the host, for root only; of this process, for every user."""
MAX_BYTES = 4 << 20

_MOUNT = re.compile(rb"device (\S+) mounted on (\S+) with fstype nfs4? statvers=")
_BYTES = re.compile(rb"bytes:" + rb"\s+(\d+)" * 6 + rb"\b")
_SERVER = slice(4, 6)


def client_bytes(root: Path) -> tuple[dict[str, dict[str, int]], list[str]]:
    """Bytes read from and written to the server of each file system, and errors.

    A file system that is mounted at several places has one set of statistics: it is counted once.
    """
    statistics = b""
    for name in FILES:
        try:
            with (root / name).open("rb") as file:
                statistics = file.read(MAX_BYTES + 1)
            break
        except PermissionError:
            continue
        except OSError as error:
            return {}, [] if isinstance(error, FileNotFoundError) else [f"NFS: {reason(error)}"]
    if len(statistics) > MAX_BYTES:
        return {}, [f"NFS: {name} is larger than {MAX_BYTES >> 20} MiB"]
    volumes: dict[tuple[bytes, tuple[int, ...]], str] = {}
    mount: re.Match[bytes] | None = None
    for line in statistics.splitlines():
        if line.startswith(b"device "):
            mount = _MOUNT.match(line)
        elif mount is not None and (found := _BYTES.match(line.strip())):
            volumes.setdefault(
                (mount[1], tuple(map(int, found.groups()))), mount[2].decode(errors="replace")
            )
    return {
        folder: dict(zip(("read_bytes", "written_bytes"), counts[_SERVER], strict=True))
        for (_, counts), folder in volumes.items()
    }, []
