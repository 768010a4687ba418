"""One figure for each pair of nodes that was probed."""

from collections.abc import Sequence

from trntop.check.ends import Ends, Figure, Link, Quality
from trntop.check.result import Check
from trntop.core import units
from trntop.core.settings import Check as Limits

MAX_NODES = 32
"""Nodes from which on a matrix is no longer read by anybody; `--json` has every pair."""
SIGNS = {Quality.GOOD: "", Quality.SLOW: "!", Quality.VERY_SLOW: "!!", Quality.FAILED: "failed"}
LEGEND = "! slow, !! very slow, · not probed"


def unit(check: Check) -> str:
    """What the figures of a check are: latencies in µs, or rates in Gb/s."""
    rates = any(
        one.seconds is None and one.bytes_per_second is not None
        for trial in check.trials
        for one in trial.results
    )
    return "Gb/s" if rates else "µs, one way"


def matrix(check: Check, limits: Limits) -> list[list[str]]:
    """Rows of cells, names first; none where there are too few or too many nodes for one.

    A pair of several cards has its worst.
    """
    nodes = sorted((place.node for place in check.places), key=units.natural)
    links: dict[frozenset[str], Link] = {}
    for link in Ends(check.trials, limits).links:
        pair = frozenset((link.one[0], link.two[0]))
        if pair not in links or _badness(link) > _badness(links[pair]):
            links[pair] = link
    if len(nodes) < 3 or len(nodes) > MAX_NODES or not links:
        return []
    short = _short(nodes)
    rows = [["", *short]]
    for place, one in enumerate(nodes):
        cells = ["" if one == two else _cell(links.get(frozenset((one, two)))) for two in nodes]
        rows.append([nodes[place], *cells])
    return rows


def _badness(link: Link) -> tuple[Quality, float]:
    return link.quality, link.ratio or 0.0


def _cell(link: Link | None) -> str:
    if link is None:
        return "·"
    sign = SIGNS[link.quality]
    return f"{_figure(link.best)}{sign}" if link.best is not None else sign


def _figure(figure: Figure) -> str:
    if figure.seconds is None:
        return units.gigabits(figure.bytes_per_second, unit=False)
    micros = figure.seconds * 1e6
    return f"{micros:.1f}" if micros < 99.95 else f"{micros:,.0f}"


def _short(nodes: Sequence[str]) -> list[str]:
    """Names without what all of them begin with, cut at a digit or letter that differs."""
    first, last = min(nodes), max(nodes)
    same = 0
    while same < min(len(first), len(last)) and first[same] == last[same]:
        same += 1
    return [name[same:] or name for name in nodes]
