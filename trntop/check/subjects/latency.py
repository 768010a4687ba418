"""Probes between nodes: the node, EFA device or path that is slow or fails."""

from collections.abc import Collection, Iterator, Sequence

from trntop.check import faults
from trntop.check.links import (
    MIN_PARTNERS,
    Endpoint,
    Link,
    LinkAnalysis,
    Quality,
    is_best_run,
)
from trntop.check.model import Finding, Outcome, ProbeResult
from trntop.check.names import names
from trntop.core import units

_OUTCOMES = {
    Quality.UNSURE: Outcome.UNKNOWN,
    Quality.SLOW: Outcome.WARN,
    Quality.VERY_SLOW: Outcome.FAIL,
    Quality.FAILED: Outcome.FAIL,
}
_LOADED = "; a host had no idle core, so this is not evidence about EFA"
MAX_ERRORS = 2
MANY = 3
"""So many nodes or paths, if they are more than"""
TOO_MANY = 0.25
"""this share of all, do not each have a fault of their own: distance is the likely cause."""


def findings(analysis: LinkAnalysis, unreachable: Collection[str]) -> Iterator[Finding]:
    """Slow or failed nodes, EFA devices and links.

    Args:
        analysis: the links.
        unreachable: nodes that already have a finding.
    """
    yield from _failed_sides(analysis, unreachable)
    if analysis.links and all(link.quality is Quality.FAILED for link in analysis.links):
        yield from _nothing_works(analysis)
        return
    faulty = analysis.faulty
    nodes = {node for node, _ in faulty}
    if _too_many(len(nodes), len(analysis.nodes)):
        yield _many_nodes(nodes, [link for links in faulty.values() for link in links])
        nodes.clear()
    else:
        for node in sorted(nodes, key=units.natural_sort_key):
            yield from _faulty_node(analysis, node)
    yield from _without_good_pair(analysis, analysis.nodes - nodes)
    paths = analysis.unexplained
    if _too_many(len(paths), len(analysis.links)):
        yield _many_paths(paths, analysis)
    else:
        yield from (_path(link, analysis) for link in paths)


def described(result: ProbeResult) -> str:
    """`62.9 µs (fi_pingpong, efa, 64 B, mean; load 0.3 of 192 cores)`."""
    size = "" if result.size_bytes is None else f", {units.bytes_iec(result.size_bytes)}"
    statistic = "mean of the best run" if is_best_run(result) else result.statistic
    load = f"; {result.load}" if result.load else ""
    how = f"{result.tool}, {result.provider or '?'}{size}, {statistic}{load}"
    return f"{units.seconds(result.seconds)} ({how})"


def _label(end: Endpoint) -> str:
    return f"{end[0]} {end[1]}".rstrip()


def _component(efa_device: str) -> str:
    return f"efa:{efa_device}" if efa_device else ""


def _too_many(count: int, total: int) -> bool:
    return count >= MANY and count > TOO_MANY * total


def _joined(errors: Sequence[str]) -> str:
    return "; ".join(list(dict.fromkeys(errors))[:MAX_ERRORS])


def _failed_sides(analysis: LinkAnalysis, unreachable: Collection[str]) -> Iterator[Finding]:
    """Probes that failed on the side of a node."""
    failed = {end: errors for end, errors in analysis.faults.items() if end[0] not in unreachable}
    nodes = {node for node, _ in failed}
    if len(nodes) > 1 and not any(link.best for link in analysis.links):
        joined = _joined([error for errors in failed.values() for error in errors])
        yield faults.ALL_SIDES_FAILED.found(
            f"on {names(nodes)}, so no single node is faulty: {joined}"
        )
        return
    for (node, efa_device), errors in failed.items():
        fault = faults.SIDE_FLAKY if analysis.of_node(node) else faults.SIDE_FAILED
        probes = "probe" if len(errors) == 1 else "probes"
        yield fault.found(
            f"{len(errors)} {probes} failed on this node's side: {_joined(errors)}",
            node,
            component=_component(efa_device),
        )


def _nothing_works(analysis: LinkAnalysis) -> Iterator[Finding]:
    nodes = analysis.nodes
    errors = _joined([error for link in analysis.links for error in link.errors])
    if len(nodes) == 1:
        yield faults.PROBE_FAILED.found(f"loopback probe: {errors}", next(iter(nodes)))
        return
    count = len(analysis.links)
    fault = faults.PROBE_FAILED if count == 1 else faults.ALL_PROBES_FAILED
    probes = "" if count == 1 else f"{count} probes "
    yield fault.found(f"{probes}between {names(nodes)}, so no single node is faulty: {errors}")
    yield from _without_good_pair(analysis, nodes)


def _without_good_pair(analysis: LinkAnalysis, nodes: Collection[str]) -> Iterator[Finding]:
    """Nodes without a good pair that are not known to be faulty."""
    for node in sorted(nodes, key=units.natural_sort_key):
        if not analysis.has_good_link(node):
            yield faults.NO_GOOD_PAIR.found(
                "every pair is slow or failed, and the faulty side is unknown", node
            )


def _many_nodes(nodes: Collection[str], links: Sequence[Link]) -> Finding:
    worst = max(link.quality for link in links)
    return faults.MANY_NODES.found(
        f"{len(nodes)} nodes are slow or fail with healthy partners ({names(nodes)}), too many for"
        f" separate faults{_LOADED if worst is Quality.UNSURE else ''}",
        outcome=_OUTCOMES[worst],
    )


def _many_paths(paths: Sequence[Link], analysis: LinkAnalysis) -> Finding:
    worst = max(paths, key=lambda link: (link.quality, link.ratio or 0.0))
    fine = all(analysis.has_good_link(node) for link in paths for node, _ in link.ends)
    whose = "between nodes that are healthy with others" if fine else "the faulty side is unknown"
    detail = _trouble(worst) if worst.best is None else _slowness(worst, analysis)
    # Two latencies, within a rack and across racks, are no fault.
    outcomes = {Quality.SLOW: Outcome.PASS, Quality.UNSURE: Outcome.UNKNOWN}
    return faults.MANY_PAIRS.found(
        f"{len(paths)} of {len(analysis.links)} pairs are slow or fail, {whose}; worst is"
        f" {_label(worst.first)} with {_label(worst.second)}: {detail}"
        f"{_LOADED if worst.quality is Quality.UNSURE else ''}",
        outcome=outcomes.get(worst.quality, Outcome.WARN),
    )


def _faulty_node(analysis: LinkAnalysis, node: str) -> Iterator[Finding]:
    faulty = {end: links for end, links in analysis.faulty.items() if end[0] == node}
    # If most EFA devices of a node are slow, the node is.
    if len(faulty) > 1 and 2 * len(faulty) > len(analysis.ends_of(node)):
        yield _faulty_end(analysis, (node, ""), [link for own in faulty.values() for link in own])
    else:
        yield from (_faulty_end(analysis, end, links) for end, links in faulty.items())


def _faulty_end(analysis: LinkAnalysis, end: Endpoint, links: Sequence[Link]) -> Finding:
    node, efa_device = end
    sure = [link for link in links if link.quality is not Quality.UNSURE]
    loaded = len(_partners(sure, node)) < MIN_PARTNERS
    links = links if loaded else sure
    working = [link for link in links if link.best is not None]
    prefix = f"{efa_device} with" if efa_device else "with"
    partners = names(_partners(links, node))
    if not working:
        errors = _joined([link.errors[0] for link in links])
        fault = faults.EFA_FAILS if efa_device else faults.NODE_FAILS
        text = f"{prefix} {partners}, which work with other nodes: {errors}"
        return fault.found(text, node, component=_component(efa_device))
    slowest = max(working, key=lambda link: link.ratio or 0.0)
    text = f"{prefix} {partners}, which are healthy with other nodes: "
    text += _slowness(slowest, analysis)
    flaky = [link for link in links if link.flaky or link.best is None]
    if flaky:
        text += f"; {_trouble(flaky[0], node)}"
    if loaded:
        fault = faults.EFA_LOADED if efa_device else faults.NODE_LOADED
        return fault.found(text + _LOADED, node, component=_component(efa_device))
    # A slow link may have been disturbed; only failures count at their worst.
    worst = max(link.quality for link in (links if flaky else working))
    fault = faults.EFA_SLOW if efa_device else faults.NODE_SLOW
    return fault.found(text, node, component=_component(efa_device), outcome=_OUTCOMES[worst])


def _partners(links: Sequence[Link], node: str) -> set[str]:
    return {name for link in links for name, _ in link.ends} - {node}


def _slowness(link: Link, analysis: LinkAnalysis) -> str:
    best = link.best
    assert best is not None and link.ratio is not None
    if link.ratio < 1.05:
        return f"{described(best)}, as its peers"
    times = f"{link.ratio:.1f}" if link.ratio < 9.95 else f"{link.ratio:,.0f}"
    return f"{described(best)}, {times} times the median of {units.seconds(analysis.reference)}"


def _trouble(link: Link, node: str = "") -> str:
    """Failures and losses of a link, as seen from a node."""
    partners = _partners([link], node) if node else ()
    partner = "".join(f" with {name}" for name in partners)
    if link.errors:
        tries = len(link.errors) + len(link.results)
        count = f"{len(link.errors)} of {tries} probes" if tries > 1 else "the probe"
        return f"{count}{partner} failed: {link.errors[0]}"
    return f"{link.lost} messages{partner} lost"


def _path(link: Link, analysis: LinkAnalysis) -> Finding:
    parts = [] if link.best is None else [_slowness(link, analysis)]
    if link.errors or link.lost:
        parts.append(_trouble(link))
    text = f"between {_label(link.first)} and {_label(link.second)}: {'; '.join(parts)}"
    if link.quality is Quality.UNSURE:
        fault, text = faults.PATH_LOADED, text + _LOADED
    elif link.best is None:
        fault = faults.PATH_FAILED
    else:
        fault = faults.PATH_LOSSY if link.flaky else faults.PATH_SLOW
    if len(analysis.nodes) > 2 and link.quality is not Quality.UNSURE:
        text += "; neither node fails with enough other nodes to be the cause"
    return fault.found(
        text, component=f"link:{link.first[0]}>{link.second[0]}", outcome=_OUTCOMES[link.quality]
    )
