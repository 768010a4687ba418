"""Standard error of ssh: answers of the script on the node, and whatever else is said there.

A login shell may greet, a server may show a banner and ssh itself may complain, so that only what
stands behind the connection's own tag counts. A dump lies between `TAG begin SOURCE NUMBER` and
`TAG end SOURCE NUMBER`.
"""

from collections import deque
from collections.abc import Callable, Sequence

from trntop.core.text import clean

from ..child import LastLine

MAX_DUMP = 16 << 20
"""Longest dump, bytes; one of a trn2.48xlarge has half a million."""
MAX_LINE = 64 << 10
"""Longest line outside of dumps; the rest of it is dropped."""
MAX_WORDS = 64
"""Lines kept of what else is said."""


class Answers(LastLine):
    """Cuts the stream.

    Args:
        tag: what begins a line of the script.
        tell: takes the words of a line behind its tag, and the dump that it begins, if any.
    """

    def __init__(self, tag: str, tell: Callable[[Sequence[str], bytes], None]) -> None:
        super().__init__()
        self.broken = ""
        """Why nothing more is taken."""
        self.noise: deque[str] = deque(maxlen=MAX_WORDS)
        """What else was said, cleaned."""
        self._tag = f"{tag} ".encode()
        self._mark = b"\n" + self._tag
        self._tell = tell
        self._buffer = bytearray()
        self._begun: list[str] = []
        """The words that the dump under way began with."""
        self._sought = 0
        """How much of the buffer holds no end."""

    def feed(self, chunk: bytes) -> None:
        """Takes the next bytes."""
        if self.broken:
            return
        self._buffer += chunk
        while self._dump() if self._begun else self._line():
            pass

    def text(self, limit: int = 160) -> str:
        """The last line that is no answer."""
        return clean(self.noise[-1], limit) if self.noise else ""

    def _line(self) -> bool:
        """Takes one line; whether there was one."""
        end = self._buffer.find(b"\n")
        if end < 0:
            if len(self._buffer) > MAX_LINE:
                del self._buffer[MAX_LINE // 2 :]
            return False
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        # What a shell said before without an end of line stands before the tag.
        _, found, rest = line.rpartition(self._tag)
        if not found:
            self.note(line)
            return True
        words = [clean(word) for word in rest.decode(errors="replace").split()]
        if words[:1] == ["begin"] and len(words) == 3:
            self._begun = words
            self._sought = 0
        elif words:
            self._tell(words, b"")
        return True

    def _dump(self) -> bool:
        """Takes the dump under way, which the next line of the script ends."""
        start = self._buffer.find(self._mark, self._sought)
        end = -1 if start < 0 else self._buffer.find(b"\n", start + 1)
        if (len(self._buffer) if start < 0 else start) > MAX_DUMP:
            self.broken = f"its answer {self._begun[1]} is longer than {MAX_DUMP >> 20} MiB"
            self._buffer.clear()
            return False
        if end < 0:
            self._sought = max(0, len(self._buffer) - len(self._mark)) if start < 0 else start
            return False
        begun, self._begun = self._begun, []
        words = self._buffer[start + len(self._mark) : end].decode(errors="replace").split()
        if words == ["end", *begun[1:]]:
            payload = bytes(self._buffer[:start])
            del self._buffer[: end + 1]
            self._tell(begun, payload)
        else:  # its folder is full, say
            self.note(f"answer {begun[1]} was cut short".encode())
            del self._buffer[: start + 1]
        return True

    def note(self, chunk: bytes) -> None:
        """Keeps what is no answer."""
        for line in chunk[:MAX_LINE].decode(errors="replace").splitlines():
            if text := clean(line.strip()):
                self.lines += 1
                self.noise.append(text)
