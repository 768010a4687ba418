import gzip
import io
import random
from collections.abc import Callable
from pathlib import PurePath

import pytest
import zstandard

from trntop.recording.compression import CODECS, BrokenStreamError, Codec, blocks, by_suffix, detect

RANDOM = random.Random(20)


def packed(codec: Codec, content: bytes) -> bytes:
    encoder = codec.encoder()
    return encoder.compress(content) + encoder.flush(codec.finish)


def unpacked(codec: Codec, data: bytes) -> tuple[bytes, str]:
    """What could be read, and why it stopped early."""
    content = bytearray()
    try:
        for block in blocks(io.BytesIO(data), codec):
            content += block
    except BrokenStreamError as error:
        return bytes(content), str(error)
    return bytes(content), ""


codecs = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)


@codecs
def test_streams_are_detected_by_their_first_bytes(codec: Codec) -> None:
    assert detect(packed(codec, b"")) is codec
    assert detect(b"") is None
    assert detect(b'{"v":1}') is None


@codecs
def test_new_files_are_detected_by_their_suffix(codec: Codec) -> None:
    assert by_suffix(PurePath(f"run.jsonl{codec.suffix}")) is codec
    assert by_suffix(PurePath(f"run{codec.suffix.upper()}")) is codec
    assert by_suffix(PurePath("run.jsonl")) is None


@codecs
@pytest.mark.parametrize(
    "content", [b"", b"x", RANDOM.randbytes(300_000), b"x" * 3_000_000], ids=len
)
def test_content_survives(codec: Codec, content: bytes) -> None:
    assert unpacked(codec, packed(codec, content)) == (content, "")


@pytest.mark.parametrize(
    ("codec", "pack", "unpack"),
    [
        (CODECS[0], gzip.compress, gzip.decompress),
        (
            CODECS[1],
            zstandard.ZstdCompressor().compress,
            lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data),
        ),
    ],
    ids=["gzip", "zstd"],
)
def test_other_programs_agree(
    codec: Codec, pack: Callable[[bytes], bytes], unpack: Callable[[bytes], bytes]
) -> None:
    content = RANDOM.randbytes(1000) * 100
    assert unpacked(codec, pack(content)) == (content, "")
    assert unpack(packed(codec, content)) == content


@codecs
def test_concatenated_streams_are_one(codec: Codec) -> None:
    data = packed(codec, b"one") + packed(codec, b"") + packed(codec, b"two" * 10_000)
    assert unpacked(codec, data) == (b"one" + b"two" * 10_000, "")


@codecs
def test_what_was_synced_is_readable_before_the_end(codec: Codec) -> None:
    encoder = codec.encoder()
    data = b""
    for number in range(5):
        data += encoder.compress(b"%d" % number) + encoder.flush(codec.sync)
        content, reason = unpacked(codec, data)
        assert content == b"01234"[: number + 1]
        assert "truncated" in reason


@codecs
def test_damage_costs_little_of_what_came_before_it(codec: Codec) -> None:
    encoder = codec.encoder()
    content = [RANDOM.randbytes(10_000) for _ in range(20)]
    parts = [encoder.compress(part) + encoder.flush(codec.sync) for part in content]
    good = b"".join(parts[:15])
    found, reason = unpacked(codec, good + b"\xff" * 20_000)
    assert "damaged" in reason
    assert b"".join(content[:14]) == found[:140_000]


@codecs
def test_garbage_after_the_end_is_damage(codec: Codec) -> None:
    content, reason = unpacked(codec, packed(codec, b"content") + b"garbage garbage")
    assert content == b"content"
    assert "damaged" in reason


@codecs
def test_a_bomb_comes_in_bounded_pieces(codec: Codec) -> None:
    encoder = codec.encoder()
    megabyte = bytes(1 << 20)
    bomb = b"".join(encoder.compress(megabyte) for _ in range(100)) + encoder.flush(codec.finish)
    assert max(map(len, blocks(io.BytesIO(bomb), codec))) <= 32 << 20
