"""Standard error of ssh: answers of the script on the node, and all other text.

A login shell, a server's banner and ssh itself write there, too, so that only text after the
connection's own tag counts. A dump is between `TAG begin SOURCE NUMBER` and `TAG end …`.
"""

from collections import deque
from collections.abc import Callable, Sequence

from trntop.core.text import clean

from ..child import LastLine

MAX_DUMP = 16 << 20
"""Longest dump, bytes; one of a trn2.48xlarge has half a million."""
MAX_LINE = 64 << 10
"""Longest line outside of dumps; its rest is dropped."""
MAX_NOISE = 64
"""Other lines that are kept."""


class Answers(LastLine):
    """Splits the stream.

    Args:
        tag: begins a line of the script.
        on_answer: receives the words of a line after its tag, and its dump, if any.
    """

    def __init__(self, tag: str, on_answer: Callable[[Sequence[str], bytes], None]) -> None:
        super().__init__()
        self.broken = ""
        """Why the rest of the stream is ignored."""
        self.noise: deque[str] = deque(maxlen=MAX_NOISE)
        """Other lines, cleaned."""
        self._tag = f"{tag} ".encode()
        self._mark = b"\n" + self._tag
        self._on_answer = on_answer
        self._buffer = bytearray()
        self._begun: list[str] = []
        """The first line of a dump that has not ended."""
        self._searched = 0
        """Bytes of the buffer without an end."""

    def feed(self, chunk: bytes) -> None:
        """Adds the next bytes."""
        if self.broken:
            return
        self._buffer += chunk
        while self._dump() if self._begun else self._line():
            pass

    def text(self, limit: int = 160) -> str:
        """The last line that is not an answer."""
        return clean(self.noise[-1], limit) if self.noise else ""

    def _line(self) -> bool:
        """Handles one line; whether there was one."""
        end = self._buffer.find(b"\n")
        if end < 0:
            if len(self._buffer) > MAX_LINE:
                del self._buffer[MAX_LINE // 2 :]
            return False
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        # Text of a shell without an end of line precedes the tag.
        _, found, rest = line.rpartition(self._tag)
        if not found:
            self.keep_text(line)
            return True
        words = [clean(word) for word in rest.decode(errors="replace").split()]
        if words[:1] == ["begin"] and len(words) == 3:
            self._begun = words
            self._searched = 0
        elif words:
            self._on_answer(words, b"")
        return True

    def _dump(self) -> bool:
        """Handles the dump, which the next line of the script ends; whether it ended."""
        start = self._buffer.find(self._mark, self._searched)
        end = -1 if start < 0 else self._buffer.find(b"\n", start + 1)
        if (len(self._buffer) if start < 0 else start) > MAX_DUMP:
            self.broken = f"its answer {self._begun[1]} is longer than {MAX_DUMP >> 20} MiB"
            self._buffer.clear()
            return False
        if end < 0:
            self._searched = max(0, len(self._buffer) - len(self._mark)) if start < 0 else start
            return False
        begun, self._begun = self._begun, []
        words = self._buffer[start + len(self._mark) : end].decode(errors="replace").split()
        if words == ["end", *begun[1:]]:
            payload = bytes(self._buffer[:start])
            del self._buffer[: end + 1]
            self._on_answer(begun, payload)
        else:  # the node's directory is full, for example
            self.keep_text(f"answer {begun[1]} was cut off".encode())
            del self._buffer[: start + 1]
        return True

    def keep_text(self, chunk: bytes) -> None:
        """Keeps other text."""
        for line in chunk[:MAX_LINE].decode(errors="replace").splitlines():
            if text := clean(line.strip()):
                self.lines += 1
                self.noise.append(text)
