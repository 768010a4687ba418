"""Probes between nodes: which node, EFA device or path is slow or fails."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from trntop.check.advice import drain
from trntop.check.consensus import names
from trntop.check.links import (
    MIN_PARTNERS,
    Endpoint,
    Figure,
    Link,
    LinkAnalysis,
    Quality,
    is_best_run,
    is_loaded,
)
from trntop.check.model import Action, Finding, Outcome
from trntop.core import units
from trntop.core.settings import Check as Limits

_OUTCOMES = {
    Quality.GOOD: Outcome.PASS,
    Quality.SLOW: Outcome.WARN,
    Quality.VERY_SLOW: Outcome.FAIL,
    Quality.FAILED: Outcome.FAIL,
}
_LOADED = "; a host had no idle core, so this is not evidence about EFA"
_WHEN_IDLE = "Check again when the hosts are idle; `uptime` shows the load."
MAX_ERRORS = 2
MANY = 3
"""So many nodes or paths, if they are more than"""
TOO_MANY = 0.25
"""this share of all, do not each have a fault of their own: distance is the likely cause."""


def findings(
    analysis: LinkAnalysis,
    limits: Limits,
    lost: Collection[str],
    baseline: LinkAnalysis | None,
    then: str,
) -> Iterator[Finding]:
    """Nodes, EFA devices and links that are slow or fail, and how all of them do.

    Args:
        analysis: of this check.
        limits: the settings in force.
        lost: unreachable nodes, which have a finding already.
        baseline: ends of an earlier check.
        then: when that was, in words.
    """
    yield from _faults(analysis, lost)
    probed = {end[0] for link in analysis.links for end in (link.one, link.two)}
    if analysis.links and all(link.quality is Quality.FAILED for link in analysis.links):
        yield from _nothing_works(analysis, probed)
        return
    faulty = analysis.faulty
    nodes = {node for node, _ in faulty}
    if _too_many(len(nodes), len(probed)):
        yield _many_nodes(nodes, [link for links in faulty.values() for link in links])
        yield from _unclear(analysis, probed)
    else:
        yield from _faulty(analysis, faulty)
        yield from _unclear(analysis, probed - nodes)
    paths = analysis.unexplained
    if _too_many(len(paths), len(analysis.links)):
        yield _many_paths(paths, analysis)
    else:
        yield from (_pair(link, analysis) for link in paths)
    if baseline is not None:
        yield from _since(analysis, baseline, limits, then, {node for node, _ in faulty})


def described(figure: Figure) -> str:
    """`62.9 µs (fi_pingpong, efa, 64 B, mean; load 0.3 of 192 cores)`."""
    size = "" if figure.size_bytes is None else f", {units.bytes_iec(figure.size_bytes)}"
    best = is_best_run(figure.tool, figure.statistic)
    statistic = "mean of the best run" if best else figure.statistic
    load = f"; {figure.load}" if figure.load else ""
    how = f"{figure.tool}, {figure.provider or '?'}{size}, {statistic}{load}"
    return f"{amount(figure)} ({how})"


def amount(figure: Figure) -> str:
    """`62.9 µs`, or `87.0 Gb/s`."""
    if figure.seconds is not None:
        return units.seconds(figure.seconds)
    return units.gigabits(figure.bytes_per_second)


def _stated(cost: float, like: Figure) -> str:
    """A cost in the words of a figure."""
    return units.seconds(cost) if like.seconds is not None else units.gigabits(1 / cost)


def _label(end: Endpoint) -> str:
    return f"{end[0]} {end[1]}".rstrip()


def _component(card: str) -> str:
    return f"efa:{card}" if card else ""


# Whose own side failed


def _faults(analysis: LinkAnalysis, lost: Collection[str]) -> Iterator[Finding]:
    faults = {end: errors for end, errors in analysis.faults.items() if end[0] not in lost}
    nodes = {node for node, _ in faults}
    if len(nodes) > 1 and not any(link.best for link in analysis.links):
        yield _all_fail(faults, nodes)
        return
    for (node, card), errors in faults.items():
        reasons = list(dict.fromkeys(errors))
        works = bool(analysis.of_node(node))
        yield Finding(
            check="probe",
            outcome=Outcome.WARN if works else Outcome.FAIL,
            fault="probe failed",
            node=node,
            component=_component(card),
            text=f"{len(errors)} {'probe' if len(errors) == 1 else 'probes'} failed on this node's"
            " side: " + "; ".join(reasons[:MAX_ERRORS]),
            action=Action.MONITOR if works else Action.ISOLATE,
            next_step=""
            if works
            else drain(node, "probe failed", "Run `fi_info -p efa` and `trntop doctor` on it."),
        )


def _all_fail(faults: Mapping[Endpoint, Sequence[str]], nodes: Collection[str]) -> Finding:
    reasons = list(dict.fromkeys(error for errors in faults.values() for error in errors))
    return Finding(
        check="probe",
        outcome=Outcome.FAIL,
        fault="all probes failed",
        text=f"on {names(nodes)}, so no single node is faulty: {'; '.join(reasons[:MAX_ERRORS])}",
        next_step="Check what the nodes share: image, provider, tool; run `fi_info -p efa`.",
    )


def _nothing_works(analysis: LinkAnalysis, nodes: Collection[str]) -> Iterator[Finding]:
    errors = list(dict.fromkeys(error for link in analysis.links for error in link.errors))
    one = next(iter(nodes)) if len(nodes) == 1 else ""
    count = len(analysis.links)
    yield Finding(
        check="latency",
        outcome=Outcome.FAIL,
        fault="probe failed" if count == 1 else "all probes failed",
        node=one,
        text=(
            f"loopback probe: {errors[0]}"
            if one
            else f"{f'{count} probes ' if count > 1 else ''}between {names(nodes)}, so no single"
            f" node is faulty: {'; '.join(errors[:MAX_ERRORS])}"
        ),
        next_step="Check that the security group allows all traffic from and to itself, that all"
        " nodes are in one zone, and that the provider is installed.",
    )
    if not one:
        yield from _unclear(analysis, nodes)


def _unclear(analysis: LinkAnalysis, nodes: Collection[str]) -> Iterator[Finding]:
    """Nodes without a good pair that are not known to be faulty."""
    for node in sorted(nodes, key=units.natural):
        if not analysis.is_fine(node):
            yield Finding(
                check="latency",
                outcome=Outcome.UNKNOWN,
                fault="no good pair",
                node=node,
                text="every pair is slow or failed, and the faulty side is unknown",
            )


# Who is to blame


def _faulty(analysis: LinkAnalysis, faulty: dict[Endpoint, list[Link]]) -> Iterator[Finding]:
    for node in sorted({node for node, _ in faulty}, key=units.natural):
        own = [end for end in faulty if end[0] == node]
        probed = analysis.of_ends(node)
        # Most of its cards at once are not a matter of cards.
        if len(own) > 1 and 2 * len(own) > len(probed):
            yield _faulty_node(analysis, node, "", [link for end in own for link in faulty[end]])
        else:
            for end in own:
                yield _faulty_node(analysis, node, end[1], faulty[end])


def _too_many(count: int, total: int) -> bool:
    return count >= MANY and count > TOO_MANY * total


def _many_nodes(nodes: Collection[str], links: Sequence[Link]) -> Finding:
    sure = [link for link in links if not link.loaded]
    return Finding(
        check="latency",
        outcome=_OUTCOMES[max(link.quality for link in sure)] if sure else Outcome.UNKNOWN,
        fault="many slow nodes",
        text=f"{len(nodes)} nodes are slow or fail with healthy partners ({names(nodes)}), too many"
        f" for separate faults{'' if sure else _LOADED}",
        next_step="Check what they share and the others do not: placement, image, subnet.",
    )


def _many_paths(paths: Sequence[Link], analysis: LinkAnalysis) -> Finding:
    sure = [link for link in paths if not link.loaded]
    worst = max(sure or paths, key=lambda link: (link.quality, link.ratio or 0.0))
    fine = all(analysis.is_fine(end[0]) for link in paths for end in (link.one, link.two))
    whose = "between nodes that are healthy with others" if fine else "the faulty side is unknown"
    # Within a rack and across are two latencies; that alone is no fault.
    usual = worst.quality is Quality.SLOW
    detail = _slowness(worst, analysis) if worst.best is not None else _trouble(worst)
    return Finding(
        check="latency",
        outcome=Outcome.PASS if usual else Outcome.WARN if sure else Outcome.UNKNOWN,
        fault="many slow pairs",
        text=f"{len(paths)} of {len(analysis.links)} pairs are slow or fail, {whose}; worst is"
        f" {_label(worst.one)} with {_label(worst.two)}: {detail}{'' if sure else _LOADED}",
        next_step="Use a cluster placement group; nodes in different racks normally show"
        " two groups of latencies.",
    )


def _faulty_node(analysis: LinkAnalysis, node: str, card: str, links: Sequence[Link]) -> Finding:
    sure = [link for link in links if not link.loaded]
    loaded = len(_partners(sure, node)) < MIN_PARTNERS
    links = links if loaded else sure
    partners = _partners(links, node)
    working = [link for link in links if link.best is not None]
    failed = [link for link in links if link.best is None]
    worst = max(link.quality for link in links)
    if not working:
        fault = "EFA device unreachable" if card else "probe failed"
        text = f"with {names(partners)}, which work with other nodes: " + "; ".join(
            dict.fromkeys(e for link in failed for e in link.errors[:1])
        )
    else:
        slowest = max(working, key=lambda link: link.ratio or 0.0)
        flaky = [link for link in links if link.flaky or link.best is None]
        # The milder of its links tells what it is always like.
        worst = min(worst, max(link.quality for link in working)) if not flaky else worst
        fault = "slow EFA device" if card else "slow network"
        text = f"with {names(partners)}, which are healthy with other nodes: "
        text += _slowness(slowest, analysis)
        if flaky:
            text += f"; {_trouble(flaky[0], node)}"
    text = f"{card} {text}" if card else text
    if loaded:
        return Finding(
            check="latency",
            outcome=Outcome.UNKNOWN,
            fault=fault,
            node=node,
            component=_component(card),
            text=text + _LOADED,
            next_step=_WHEN_IDLE,
        )
    reason = f"EFA device {card} slow or lossy" if card else "slow or lossy network"
    return Finding(
        check="latency",
        outcome=_OUTCOMES[worst],
        fault=fault,
        node=node,
        component=_component(card),
        text=text,
        action=Action.ISOLATE,
        next_step=drain(node, reason, "Replace the instance if a second check fails again."),
    )


def _partners(links: Sequence[Link], node: str) -> list[str]:
    """The other nodes of its links."""
    found = {end[0] for link in links for end in (link.one, link.two)} - {node}
    return sorted(found, key=units.natural)


def _slowness(link: Link, analysis: LinkAnalysis) -> str:
    best = link.best
    assert best is not None and analysis.reference is not None and link.ratio is not None
    usual = _stated(analysis.reference, best)
    if link.ratio < 1.05:
        return f"{described(best)}, as its peers"
    return f"{described(best)}, {_times(link.ratio)} the median of {usual}"


def _times(ratio: float) -> str:
    return f"{ratio:.1f} times" if ratio < 9.95 else f"{ratio:,.0f} times"


def _trouble(link: Link, node: str = "") -> str:
    """What is wrong with a link of a node besides its latency."""
    partners = {link.one[0], link.two[0]} - {node} if node else set()
    partner = f" with {partners.pop()}" if partners else ""
    if link.errors:
        tries = len(link.errors) + len(link.figures)
        count = f"{len(link.errors)} of {tries} probes" if tries > 1 else "the probe"
        return f"{count}{partner} failed: {link.errors[0]}"
    return f"{link.lost} messages{partner} lost"


def _pair(link: Link, analysis: LinkAnalysis) -> Finding:
    one, two = _label(link.one), _label(link.two)
    parts = []
    if link.best is not None and link.quality is not Quality.FAILED:
        parts.append(_slowness(link, analysis))
    if link.errors or link.lost:
        parts.append(_trouble(link))
    many = len({end[0] for each in analysis.links for end in (each.one, each.two)}) > 2
    unsure = "; neither node fails with enough other nodes to be the cause" if many else ""
    failed = link.best is None or link.quality is Quality.FAILED
    return Finding(
        check="latency",
        outcome=Outcome.UNKNOWN if link.loaded else _OUTCOMES[link.quality],
        fault="path failed" if failed else "lossy path" if link.flaky else "slow path",
        component=f"link:{link.one[0]}>{link.two[0]}",
        text=f"between {one} and {two}: {'; '.join(parts)}" + (_LOADED if link.loaded else unsure),
        action=Action.NONE if link.loaded else Action.MONITOR,
        next_step=_WHEN_IDLE if link.loaded else "Check again with --full to probe every pair.",
    )


# Since an earlier check


def _since(
    analysis: LinkAnalysis,
    baseline: LinkAnalysis,
    limits: Limits,
    then: str,
    faulty: Collection[str],
) -> Iterator[Finding]:
    now, before = analysis.reference, baseline.reference
    if now is None or before is None:
        return
    if analysis.measure != baseline.measure:
        yield Finding(
            check="baseline",
            outcome=Outcome.PASS,
            text=f"not compared with the check of {then}, which used other probe options",
        )
        return
    shift = now / before
    bests = {
        end: best
        for end in sorted({end for link in analysis.links for end in (link.one, link.two)})
        if (best := analysis.best(end)) is not None
    }
    sample = next(iter(bests.values()))
    waited = sum(is_loaded(best, limits) for best in bests.values())
    loaded = 2 * waited >= len(bests)
    if shift > limits.baseline:
        yield Finding(
            check="baseline",
            outcome=Outcome.UNKNOWN if loaded else Outcome.WARN,
            fault="slower than baseline",
            text=f"all nodes are {shift:.1f} times slower than on {then}:"
            f" {_stated(now, sample)}, was {_stated(before, sample)}; no single node is faulty"
            f"{_LOADED if loaded else ''}",
            action=Action.NONE if loaded else Action.MONITOR,
            next_step=_WHEN_IDLE
            if loaded
            else "Check what all nodes share: versions, placement, load during the check.",
        )
    for end, own in bests.items():
        earlier = baseline.best(end)
        if earlier is None or end[0] in faulty or is_loaded(own, limits):
            continue
        # What all of them lost is said above.
        change = own.cost / earlier.cost / max(shift, 1.0)
        if change > limits.baseline:
            yield Finding(
                check="baseline",
                outcome=Outcome.WARN,
                fault="slower than baseline",
                node=end[0],
                component=_component(end[1]),
                text=f"{amount(own)} with its best partner, was {amount(earlier)} on {then}",
                action=Action.MONITOR,
                next_step="Monitor it: it is not slower than its peers yet.",
            )
