"""Blocks of a backfill: the messages of one node, compressed, as `/v1/history` serves them.

A block begins with its node's schema and keyframe, so each can be decoded alone. It has the
quantities that rules and charts read; the others are absent in a backfill.
"""

from collections.abc import Iterator, Sequence

import msgspec

from trntop.core.errors import DecodeError
from trntop.core.model import Time
from trntop.core.text import clean
from trntop.remote import wire

SECONDS = 900.0
"""Length of a backfill."""
DENSE_SECONDS = 120.0
"""The newest part of it, with a frame for each tick."""
STEP = 4
"""Seconds between two frames of the rest. They are the first ones after multiples of it, so that
those of several nodes are of the same time.
"""
DENSE_NODES = 32
"""With more nodes, the whole backfill has a frame each `STEP`."""
CONTENT_TYPE = "application/vnd.trntop.history"
CLOCK_HEADER = "Trntop-Time"
"""The time of the agent's clock when it responds."""
MAX_BLOCK = 8 << 20
"""Bytes of the messages of one block."""

_LEVEL = 1


class Block(msgspec.Struct, tag="past", frozen=True):
    """Consecutive messages of one node."""

    v: int
    node: str
    period: float
    """Seconds between frames."""
    begin: Time
    """Time of the first and of the last frame, by the agent's clock."""
    end: Time
    messages: bytes
    """Messages with their lengths, compressed with zstd."""


_decoder = msgspec.msgpack.Decoder(Block)


def pack(node: str, messages: Sequence[bytes], period: float) -> bytes:
    """A block; `period` is the interval of its frames in seconds."""
    import zstandard

    times = [head.time for head in map(wire.head, messages) if head.type == wire.FRAME]
    packed = zstandard.ZstdCompressor(level=_LEVEL).compress(b"".join(map(wire.framed, messages)))
    return msgspec.msgpack.encode(Block(wire.VERSION, node, period, times[0], times[-1], packed))


def decode(data: bytes) -> Block:
    """One block.

    Raises:
        DecodeError: it is not valid.
    """
    try:
        block = _decoder.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise DecodeError(f"not a block of history: {clean(str(error))}") from error
    if block.v != wire.VERSION:
        raise DecodeError(f"history of version {block.v}, this trntop has {wire.VERSION}")
    return block


def messages(block: Block) -> list[bytes]:
    """The messages of a block.

    Raises:
        DecodeError: it is damaged, or too large.
    """
    import zstandard

    try:
        size = zstandard.frame_content_size(block.messages)
        if not 0 <= size <= MAX_BLOCK:
            raise DecodeError(f"block of history with {size:,} bytes")
        data = zstandard.ZstdDecompressor().decompress(block.messages)
    except zstandard.ZstdError as error:
        raise DecodeError(f"damaged history: {clean(str(error))}") from error
    return wire.FrameReader().feed(data)


def frames(block: Block) -> Iterator[tuple[float, bytes, bool]]:
    """The messages of a block with the time of the frame that follows, and whether it is simulated.

    Raises:
        DecodeError: as of `messages`.
    """
    before: list[bytes] = []
    for message in messages(block):
        before.append(message)
        head = wire.head(message)
        if head.type == wire.FRAME:
            for each in before:
                yield head.time, each, head.simulated
            before = []
