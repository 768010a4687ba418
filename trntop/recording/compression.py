"""Compressed streams, piece by piece: gzip and Zstandard.

Detected by the first bytes when read, chosen by the file name's suffix when written. Input is
expanded in small pieces, so that even a decompression bomb fills tens of megabytes at most before
the reader can stop.
"""

import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, BinaryIO, Protocol

BLOCK = 256 << 10
"""Bytes read from a file at once."""

_ZSTD_WINDOW = 128 << 20
_PIECE = 1 << 20
"""Bytes of content delivered at once: a reader may stop after each."""


class BrokenStreamError(Exception):
    """The compressed data is damaged or truncated; the message is part of a sentence."""


class Encoder(Protocol):
    """A compressed stream that is being written."""

    def compress(self, data: bytes) -> bytes:
        """Adds content; returns the output that is ready, often none."""
        ...

    def flush(self, mode: int = ..., /) -> bytes:
        """Returns what makes everything so far readable (`Codec.sync`), or ends it all."""
        ...


@dataclass(frozen=True, slots=True)
class Codec:
    """One way to compress a stream."""

    name: str
    suffix: str
    magic: bytes
    piece: int
    """Bytes of input expanded at once: at most 32 MiB of content, whatever the ratio."""
    sync: int
    """Mode of `Encoder.flush` after which everything so far can be read back."""
    finish: int
    """Mode of `Encoder.flush` that ends the stream."""
    encoder: Callable[[], Encoder]
    decoder: Callable[[], tuple[Any, type[Exception]]]
    """A new decompression object, and what it raises on damage."""


def _zstd_encoder() -> Encoder:
    import zstandard

    encoder: Encoder = zstandard.ZstdCompressor(level=3, write_checksum=True).compressobj()
    return encoder


def _zstd_decoder() -> tuple[Any, type[Exception]]:
    import zstandard

    decoder = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).decompressobj()
    return decoder, zstandard.ZstdError


# The modes of zstandard are COMPRESSOBJ_FLUSH_BLOCK and COMPRESSOBJ_FLUSH_FINISH, spelled
# out because the library is loaded only for files that need it.
CODECS = (
    Codec(
        "gzip",
        ".gz",
        b"\x1f\x8b",
        4 << 10,
        zlib.Z_SYNC_FLUSH,
        zlib.Z_FINISH,
        lambda: zlib.compressobj(6, zlib.DEFLATED, 31),
        lambda: (zlib.decompressobj(31), zlib.error),
    ),
    Codec("Zstandard", ".zst", b"\x28\xb5\x2f\xfd", 1 << 10, 1, 0, _zstd_encoder, _zstd_decoder),
)


def detect(head: bytes) -> Codec | None:
    """The codec of a stream that begins with `head`, None if it is not compressed by one."""
    return next((codec for codec in CODECS if head.startswith(codec.magic)), None)


def by_suffix(path: PurePath) -> Codec | None:
    """The codec a new file of this name is written with."""
    return next((codec for codec in CODECS if codec.suffix == path.suffix.lower()), None)


def blocks(file: BinaryIO, codec: Codec | None, size: int | None = None) -> Iterator[bytes]:
    """The content of `file` from its position, or of its next `size` bytes, expanded.

    Concatenated streams are read as one, as `gzip` and `zstd` do.

    Raises:
        BrokenStreamError: after the content was delivered, up to the piece with the damage.
        OSError: reading failed.
    """
    if codec is None:
        yield from _pieces(file, BLOCK, size)
        return
    decoder, failure = codec.decoder()
    for piece in _pieces(file, codec.piece, size):
        block = piece
        while block:
            if decoder.eof:
                decoder, _ = codec.decoder()
            try:
                content = decoder.decompress(block)
            except failure as error:
                raise BrokenStreamError(f"damaged {codec.name} file") from error
            for start in range(0, len(content), _PIECE):
                yield content[start : start + _PIECE]
            block = decoder.unused_data
    if not decoder.eof:
        raise BrokenStreamError(f"truncated {codec.name} file: cut off, or still being written")


def _pieces(file: BinaryIO, length: int, size: int | None) -> Iterator[bytes]:
    """The next `size` bytes of `file`, or all of them, in pieces of at most `length`."""
    left = sys.maxsize if size is None else size
    # Many at once: each read of a file costs more than a slice.
    while left > 0 and (block := file.read(min(max(length, BLOCK), left))):
        if len(block) <= length:
            yield block
        else:
            yield from (block[start : start + length] for start in range(0, len(block), length))
        left -= len(block)
