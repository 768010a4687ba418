"""The text format for a client: the choice of prometheus_client, among the formats written here.

https://prometheus.io/docs/instrumenting/content_negotiation/
"""

import re

from ..metrics.exposition import Format

_OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping="
_TEXT_1 = "text/plain; version=1.0.0; charset=utf-8; escaping="
_ESCAPINGS = ("underscores", "allow-utf-8", "values")
"""Schemes that leave names of letters, digits and underscores as they are; `dots` does not."""
_WRITTEN = {
    Format.OPENMETRICS.content_type: Format.OPENMETRICS,
    **{f"{_OPENMETRICS}{escaping}": Format.OPENMETRICS for escaping in _ESCAPINGS},
    **{f"{_TEXT_1}{escaping}": Format.TEXT for escaping in _ESCAPINGS},
}
_LAST_RESORT = (Format.TEXT, Format.TEXT.content_type)
_REFUSED = re.compile(r";\s*q=0(\.0*)?\s*(;|$)", re.ASCII | re.IGNORECASE)


def negotiate(accept: str) -> tuple[Format, str]:
    """The format for an `Accept` header, and its content type; the text format 0.0.4 by default."""
    from prometheus_client.exposition import choose_encoder

    try:
        _, content_type = choose_encoder(_allowed(accept))
    except TypeError:  # a version that is not a number
        return _LAST_RESORT
    written = _WRITTEN.get(content_type)
    return _LAST_RESORT if written is None else (written, content_type)


def accepts_gzip(header: str) -> bool:
    """Whether an `Accept-Encoding` header allows gzip."""
    from prometheus_client.exposition import gzip_accepted

    return gzip_accepted(_allowed(header))


def prefers_json(accept: str) -> bool:
    """Whether an `Accept` header names JSON first."""
    return _allowed(accept).split(",")[0].split(";")[0].strip().lower() == "application/json"


def _allowed(header: str) -> str:
    """A header without the entries that it refuses by `q=0`, which prometheus_client overlooks."""
    return ",".join(entry for entry in header.split(",") if not _REFUSED.search(entry))
