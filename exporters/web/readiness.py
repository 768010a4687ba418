"""Whether the pages hold live values."""

from trntop.core.model import View
from trntop.sources import DEVICE_SOURCES

from ..metrics.status import UP

MAX_REASONS = 3


def why_not_ready(view: View | None) -> str:
    """The reason why the pages have no live values; empty if they have."""
    if view is None:
        return "not collecting"
    if view.ended:
        return "the recording has ended"
    nodes = view.cluster.nodes
    if not nodes:
        return "no node has reported yet"
    every = [(name, source) for name, node in nodes.items() for source in node.frame.sources]
    # A host can always be read: sources of devices decide, if there are any.
    sources = [pair for pair in every if pair[1].name in DEVICE_SOURCES] or every
    if any(source.state in UP for _, source in sources):
        return ""
    reasons = [
        f"{name}: {source.name} {source.state}{f' ({source.reason})' if source.reason else ''}"
        for name, source in sources[:MAX_REASONS]
    ]
    if len(sources) > MAX_REASONS:
        reasons.append("…")
    return "no source is up; " + "; ".join(reasons)
