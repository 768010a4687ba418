"""Cuts a byte stream into JSON objects.

Sources write one object a line, most of the time. A source that was killed leaves half a line,
a person who pretty-printed a report leaves an object over many lines, a pipe cuts anywhere.
What is handed on is balanced, not necessarily valid: judging it is the decoder's business.
"""

import re
from collections.abc import Callable

import msgspec

MAX_BYTES = 8 << 20
"""Default limit of the size of an object, bytes."""

_BOM = b"\xef\xbb\xbf"
_OPENING = re.compile(rb'\{\s*(?:["}]|$)')
# A string (unterminated if group 1 is empty: JSON strings never span lines), or a brace.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+("?)|[{}]')
_WHOLE = msgspec.json.Decoder(msgspec.Raw)


class Framer:
    """Finds the JSON objects of a byte stream, however it is chunked.

    A line that is one object costs one search for the newline and one pass in C. Everything
    else (several objects in a line, an object over several lines, garbage between objects) is
    cut by counting braces outside strings. An object that never balances ends where a line
    begins with `{"` in the first column and ends with `}`: that line is the next object.

    Args:
        max_bytes: longest object, and longest line, in bytes. Longer ones are dropped while
            they come in, so memory stays bounded.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.max_bytes = max_bytes
        self.whole: Callable[[bytes], bool] = is_object
        """Says whether a line is one object; whoever parses each anyway may do so here."""
        self.skipped = 0
        """Pieces between objects that held none, and objects given up as unbalanced."""
        self.oversize = 0
        """Lines and objects longer than `max_bytes`."""
        self.lost_bytes = 0
        """Bytes of what was skipped or too long."""
        self.partial = 0
        """Bytes of the unfinished object at the end of the stream, known after `close`."""
        self._tail = bytearray()
        self._overflowing = False
        self._open = bytearray()
        self._depth = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Takes the next bytes and returns the objects they complete, without newline."""
        frames: list[bytes] = []
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            self._end_line(chunk[start:end], frames)
            start = end + 1
        self._keep(chunk[start:] if start else chunk)
        return frames

    def close(self) -> list[bytes]:
        """Ends the stream and returns what its last line completes without a newline."""
        frames: list[bytes] = []
        skipped, lost = self.skipped, self.lost_bytes
        cut = self._tail.lstrip().startswith(b"{")
        self._end_line(b"", frames)
        if self._depth:
            self.partial = len(self._open)
            self._reset()
        elif cut and self.skipped > skipped:
            # Cut inside a string, which looks broken: without its newline it is unfinished.
            self.partial = self.lost_bytes - lost
            self.skipped, self.lost_bytes = skipped, lost
        return frames

    def _keep(self, piece: bytes) -> None:
        """Holds the beginning of a line until its newline comes."""
        if self._overflowing:
            self.lost_bytes += len(piece)
        else:
            self._tail += piece
            if len(self._tail) > self.max_bytes:
                self._overflowing = True
                self.oversize += 1
                self.lost_bytes += len(self._tail)
                self._tail.clear()

    def _end_line(self, piece: bytes, frames: list[bytes]) -> None:
        """Handles one line, of which `piece` is what came after the kept beginning."""
        line = piece
        if self._tail or self._overflowing or len(piece) > self.max_bytes:
            self._keep(piece)
            line = bytes(self._tail)
            self._tail.clear()
            self._overflowing = False
        line = line.removeprefix(_BOM)
        text = line.strip()
        if not text:
            return
        if self._depth:
            if not (line.startswith(b'{"') and text.endswith(b"}")):
                self._scan(line, frames)
                return
            self._skip(len(self._open))
            self._reset()
        if self.whole(text):
            frames.append(text)
        else:
            self._scan(line, frames)

    def _scan(self, line: bytes, frames: list[bytes]) -> None:
        """Cuts a line at its balanced braces; an open object goes on in the next line."""
        position = 0
        junk = False
        while True:
            if not self._depth:
                opening = _OPENING.search(line, position)
                rest = line[position : opening.start() if opening else None].strip()
                if rest:
                    self._skip(len(rest), again=junk)
                    junk = True
                if not opening:
                    return
                position = opening.start()
            end = self._balance(line, position)
            if end is None:
                self._skip(len(self._open) + len(line) - position, again=junk)
                self._reset()
                return
            if self._open:
                self._open += b"\n"
            self._open += line[position:end]
            if len(self._open) > self.max_bytes:
                self.oversize += 1
                self.lost_bytes += len(self._open)
                self._reset()
                return
            if self._depth:
                return
            frames.append(bytes(self._open))
            self._reset()
            position = end

    def _balance(self, line: bytes, position: int) -> int | None:
        """End of the object in this line, the line's end if it goes on, None if it is broken."""
        for token in _TOKEN.finditer(line, position):
            match token[0]:
                case b"{":
                    self._depth += 1
                case b"}":
                    self._depth -= 1
                    if not self._depth:
                        return token.end()
                case _ if not token[1]:
                    return None
        return len(line)

    def _skip(self, count: int, *, again: bool = False) -> None:
        self.lost_bytes += count
        self.skipped += not again

    def _reset(self) -> None:
        self._open.clear()
        self._depth = 0


def is_object(text: bytes) -> bool:
    """Whether `text` is exactly one valid object; a no says only that a closer look is due."""
    if not text.startswith(b"{"):
        return False
    try:
        _WHOLE.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True
