"""Cuts a byte stream into JSON objects, usually one per line.

Objects printed over several lines are accepted if they end with a `}` at the start of a line, as
`json.dumps` and `jq` print them. The result only looks like objects; the decoder decides whether
they are valid.
"""

MAX_BYTES = 8 << 20
"""Default size limit of an object."""

_BOM = b"\xef\xbb\xbf"


class Framer:
    """Finds the JSON objects in a byte stream that arrives in any chunks.

    Args:
        max_bytes: limit of an object and of a line. Longer ones are dropped while they arrive, so
            memory stays bounded.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.max_bytes = max_bytes
        self.skipped = 0
        """Lines that are not objects, and unfinished objects in the middle of the stream."""
        self.oversize = 0
        """Lines and objects longer than `max_bytes`."""
        self.partial = 0
        """Bytes of the unfinished object at the end of the stream, known after `close`."""
        self._tail = bytearray()
        self._overflowing = False
        self._open = bytearray()
        """The first lines of an object that is not complete yet."""

    def feed(self, chunk: bytes) -> list[bytes]:
        """Adds bytes; returns the objects that they complete, without newlines around them."""
        objects: list[bytes] = []
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            self._end_line(line, objects)
        self._keep(rest)
        return objects

    def close(self) -> list[bytes]:
        """Ends the stream; returns the object that its last line completes without a newline."""
        objects: list[bytes] = []
        if self._tail or self._overflowing:
            self._end_line(b"", objects)
        self.partial = len(self._open)
        self._open.clear()
        return objects

    def _keep(self, piece: bytes) -> None:
        """Keeps the beginning of a line until its newline arrives."""
        if self._overflowing:
            return
        self._tail += piece
        if len(self._tail) > self.max_bytes:
            self._overflowing = True
            self.oversize += 1
            self._tail.clear()

    def _end_line(self, piece: bytes, objects: list[bytes]) -> None:
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
        if self._open and line.startswith(b'{"'):  # the open object was cut off
            self.skipped += 1
            self._open.clear()
        if self._open:
            self._continue(line, objects)
        elif not text.startswith(b"{"):
            self.skipped += 1
        elif text.endswith(b"}"):
            objects.append(text)
        else:
            self._open += line

    def _continue(self, line: bytes, objects: list[bytes]) -> None:
        self._open += b"\n" + line
        if len(self._open) > self.max_bytes:
            self.oversize += 1
            self._open.clear()
        elif line.startswith(b"}"):
            objects.append(bytes(self._open).strip())
            self._open.clear()
