"""Which text format and which coding a client is answered in.

https://prometheus.io/docs/instrumenting/content_negotiation/ and RFC 9110, section 12.5. Nothing
of a header goes into the answer: content types are put together from what stands here.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from ..metrics.exposition import Format

MAX_RANGES = 64
"""Entries of a header that are looked at."""

_Q = re.compile(r"0(\.\d*)?|1(\.0*)?", re.ASCII)
_ANY = ("*/*", "text/*")
_LAST_RESORT = (Format.TEXT, Format.TEXT.content_type)
_KNOWN = {
    ("text/plain", ""): _LAST_RESORT,
    ("text/plain", "0.0.4"): _LAST_RESORT,
    # Differs from 0.0.4 only in names that would have to be quoted.
    ("text/plain", "1.0.0"): (Format.TEXT, "text/plain; version=1.0.0; charset=utf-8"),
    ("application/openmetrics-text", ""): (Format.OPENMETRICS, Format.OPENMETRICS.content_type),
    ("application/openmetrics-text", "1.0.0"): (
        Format.OPENMETRICS,
        Format.OPENMETRICS.content_type,
    ),
    ("application/openmetrics-text", "0.0.1"): (
        Format.OPENMETRICS,
        "application/openmetrics-text; version=0.0.1; charset=utf-8",
    ),
}
"""Format and content type by media type and version."""
_ESCAPINGS = ("underscores", "allow-utf-8", "allow-utf8", "values")
"""Schemes under which our names, of letters, digits and underscores, stay as they are; the first
where none is asked for. Under the scheme `dots` they would not. Prometheus spells the second
with a hyphen, the page above does not.
"""


class _Range(NamedTuple):
    quality: float
    media: str
    parameters: dict[str, str]


def negotiate(accept: str) -> tuple[Format, str]:
    """The format for an `Accept` header, and the content type that announces it.

    Of what the client weighs highest and we can write, the first; where that is nothing, as with
    a header that is missing, malformed or asks for protobuf alone, the text format 0.0.4.
    """
    best, highest = _LAST_RESORT, 0.0
    for one in _ranges(accept):
        if one.quality > highest and (answer := _answer(one)):
            best, highest = answer, one.quality
    return best


def accepts_gzip(header: str) -> bool:
    """Whether an `Accept-Encoding` header allows gzip."""
    for one in _ranges(header):
        if one.media in ("gzip", "x-gzip"):
            return one.quality > 0
    return False


def prefers_json(accept: str) -> bool:
    """Whether an `Accept` header names JSON, and nothing that it weighs higher."""
    weights: dict[str, float] = {}
    for one in _ranges(accept):
        weights[one.media] = max(one.quality, weights.get(one.media, 0.0))
    return 0 < weights.get("application/json", 0.0) >= max(weights.values(), default=0.0)


def _answer(one: _Range) -> tuple[Format, str] | None:
    if one.media in _ANY:
        return _LAST_RESORT
    escaping = one.parameters.get("escaping", _ESCAPINGS[0])
    known = _KNOWN.get((one.media, one.parameters.get("version", "")))
    if known is None or escaping not in _ESCAPINGS:
        return None
    written, content_type = known
    if "version=1" in content_type:
        content_type = f"{content_type}; escaping={escaping}"
    return written, content_type


def _ranges(header: str) -> Iterator[_Range]:
    """What a header lists; malformed entries are left out."""
    for entry in header.split(",", MAX_RANGES)[:MAX_RANGES]:
        media, *rest = (part.strip().lower() for part in entry.split(";"))
        pairs = (part.partition("=") for part in rest)
        parameters = {name.strip(): value.strip(' \t"') for name, _, value in pairs}
        quality = parameters.pop("q", "1")
        if media and _Q.fullmatch(quality):
            yield _Range(float(quality), media, parameters)
