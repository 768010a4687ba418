"""The text format for a client, among the formats written here.

https://prometheus.io/docs/instrumenting/content_negotiation/
"""

import re

from ..metrics.exposition import Format

_FORMATS = {
    written.content_type.partition(";")[0]: written for written in (Format.TEXT, Format.OPENMETRICS)
}
_ESCAPINGS = ("underscores", "allow-utf-8", "values")
"""Schemes that leave names of letters, digits and underscores as they are; `dots` does not."""
_REFUSED = re.compile(r";\s*q=0(\.0*)?\s*(;|$)", re.ASCII | re.IGNORECASE)


def negotiate(accept: str) -> tuple[Format, str]:
    """The format for an `Accept` header, and its content type; the text format 0.0.4 by default.

    Of several formats in version 1.0.0 the first is chosen, as prometheus_client does.
    """
    for entry in _allowed(accept).split(","):
        media, *options = map(str.strip, entry.split(";"))
        written = _FORMATS.get(media)
        if written is None:
            continue
        values = dict(option.split("=", 1) for option in options if "=" in option)
        if written is Format.OPENMETRICS and "version" not in values:
            return written, written.content_type
        escaping = values.get("escaping", "underscores")
        if values.get("version") == "1.0.0" and escaping != "dots":
            escaping = escaping if escaping in _ESCAPINGS else "underscores"
            return written, f"{media}; version=1.0.0; charset=utf-8; escaping={escaping}"
    return Format.TEXT, Format.TEXT.content_type


def accepts_gzip(header: str) -> bool:
    """Whether an `Accept-Encoding` header allows gzip."""
    accepted = (entry.split(";")[0].strip().lower() for entry in _allowed(header).split(","))
    return "gzip" in accepted


def prefers_json(accept: str) -> bool:
    """Whether an `Accept` header names JSON first."""
    return _allowed(accept).split(",")[0].split(";")[0].strip().lower() == "application/json"


def _allowed(header: str) -> str:
    """A header without the entries that it refuses by `q=0`."""
    return ",".join(entry for entry in header.split(",") if not _REFUSED.search(entry))
