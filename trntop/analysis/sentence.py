"""The one-sentence summary of an incident."""

import time
from collections.abc import Mapping, Sequence
from string import Formatter

LENGTH = 120
"""Characters at most."""
SHORTEST = 8
"""Characters to which a name may be cut so that the sentence fits."""
NO_CULPRIT = "; no node stands out"
"""Shown where no node is named; left out where a cause is known."""


def compose(
    template: str, fields: Mapping[str, str], since: float, names: Sequence[str] = ()
) -> str:
    """Fills a rule's template and makes it fit.

    A sentence that is too long loses first the domains of nodes, which they share, then clauses:
    fields that begin with a comma, the last one first; then the middle of its longest names, and of
    a phrase only if that is not enough.

    Args:
        template: with fields in braces; `{since}` is the time of day in UTC.
        fields: the fields' values; one that is missing is empty.
        since: unix seconds.
        names: foreign names within the fields: of a node, a job.
    """
    fields = {name: fields.get(name, "") for _, name, _, _ in Formatter().parse(template) if name}
    if "since" in fields:
        fields["since"] = time.strftime("%H:%M:%S UTC", time.gmtime(since))
    shown = list(filter(None, names))
    if _excess(template, fields) > 0:
        hosts = {name: _host(name) for name in shown}
        fields = {field: _replaced(text, hosts) for field, text in fields.items()}
        shown = list(hosts.values())
    for field in reversed([name for name, text in fields.items() if text.startswith(", ")]):
        if _excess(template, fields) > 0:
            fields[field] = ""
    for name in sorted(shown, key=len, reverse=True):
        excess = _excess(template, fields)
        if excess > 0:
            times = max(1, sum(text.count(name) for text in fields.values()))
            short = _shortened(name, max(SHORTEST, len(name) - -(-excess // times)))
            fields = {field: text.replace(name, short) for field, text in fields.items()}
    for field in sorted(fields.keys() - {"since"}, key=lambda field: -len(fields[field])):
        excess = _excess(template, fields)
        if excess > 0:
            text = fields[field]
            fields[field] = _shortened(text, max(SHORTEST, len(text) - excess))
    text = template.format(**fields)
    return text if len(text) <= LENGTH else text[: LENGTH - 1] + "…"


def _excess(template: str, fields: Mapping[str, str]) -> int:
    return len(template.format(**fields)) - LENGTH


def _host(name: str) -> str:
    """A host's name without its domain; an address is no such name."""
    host, _, domain = name.partition(".")
    return host if domain and host and not host.isdigit() else name


def _replaced(text: str, instead: Mapping[str, str]) -> str:
    for name, other in instead.items():
        text = text.replace(name, other)
    return text


def _shortened(name: str, length: int) -> str:
    """A name without its middle: both ends distinguish it."""
    if len(name) <= length:
        return name
    tail = (length - 1) // 2
    return f"{name[: length - 1 - tail]}…{name[len(name) - tail :]}"
