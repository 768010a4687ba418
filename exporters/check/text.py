"""A check for the terminal: the nodes, the worst first; the findings; the verdict last."""

from collections.abc import Sequence

from trntop.check.model import Action, Outcome
from trntop.check.result import Check, Place
from trntop.core import units

from ..grid import Column, fill, lines, packed, plural, wrapped
from ..markdown import moment
from .groups import Group, groups, titled

MIN_WIDTH = 60
MAX_ROWS = 40
"""Nodes that are listed; of those that pass, the others are counted."""
HEADINGS = {Outcome.FAIL: "Failed", Outcome.UNKNOWN: "Inconclusive", Outcome.WARN: "Warnings"}
COLOURS = {Outcome.PASS: "32", Outcome.WARN: "33", Outcome.FAIL: "31", Outcome.UNKNOWN: "35"}


def text(check: Check, width: int, *, color: bool = False) -> str:
    """The whole report, of at most `width` cells a line.

    Args:
        check: what was found.
        width: cells of a line.
        color: whether outcomes are coloured with ANSI sequences.
    """
    width = max(width, MIN_WIDTH)
    blocks = [packed(headline(check), width, "")]
    if check.places:
        blocks.append(lines(_nodes(check), width) + _others(check))
    found = groups(check.findings)
    for outcome, heading in HEADINGS.items():
        own = [_finding(one, width, color) for one in found if one.outcome is outcome]
        if own:
            blocks.append([heading, *own[0]])
            blocks += own[1:]
    if remarks := [one for one in found if one.outcome is Outcome.PASS]:
        rest = [line for one in remarks for line in wrapped(_remark(one), width, "  ", "- ")]
        blocks.append(["Remarks", *rest])
    if check.imported:
        blocks.append(lines(_imported(check), width))
    if check.outlook is not None:
        told_of = check.outlook.sentences
        blocks.append([line for one in told_of for line in wrapped(one, width, "")])
    blocks.append([_tinted(check.verdict, check.outcome) if color else check.verdict])
    return "\n\n".join("\n".join(line.rstrip() for line in block) for block in blocks) + "\n"


def headline(check: Check) -> Sequence[str]:
    """What was checked, when, and how, in parts."""
    parts = ["trntop check"]
    if check.simulated:
        parts.append("SIMULATED")
    parts.append(moment(check.started))
    if not check.places:
        return [*parts, "finished stages alone"]
    return [
        *(*parts, plural(len(check.places), "node")),
        *(how(check), f"took {units.span(check.seconds)}"),
    ]


def how(check: Check) -> str:
    """`quick, fi_pingpong over efa, 64 B`."""
    spec = check.plan.spec
    each = ", each card" if check.plan.per_card else ""
    size = units.bytes_iec(spec.size_bytes)
    return f"{check.plan.extent}{each}, {spec.tool} over {spec.provider}, {size}"


def latency(place: Place) -> str:
    """Of a node with its best partner."""
    return units.seconds(place.seconds)


def ratio(place: Place) -> str:
    """That against the median of all nodes."""
    return units.ABSENT if place.ratio is None else f"{place.ratio:.2f}"


def cards(place: Place) -> str:
    """`8 of 8`."""
    if place.cards is None:
        return units.ABSENT
    if place.expected_cards is None:
        return str(place.cards)
    return f"{place.cards} of {place.expected_cards}"


def shown(check: Check) -> Sequence[Place]:
    """The nodes that are listed: all that do not pass, and of the others as many as fit."""
    bad = sum(place.outcome is not Outcome.PASS for place in check.places)
    return check.places[: max(bad, MAX_ROWS)]


def concerns(check: Check, node: str) -> str:
    """The faults of a node."""
    found = [
        f"{one.fault} {one.component.removeprefix('efa:')}".rstrip()
        for one in check.findings
        if one.node == node and one.outcome is not Outcome.PASS
    ]
    return ", ".join(dict.fromkeys(found))


def _nodes(check: Check) -> list[Column]:
    columns = [
        Column("node", left=True),
        Column("verdict", left=True),
        Column("EFA devices"),
        Column("latency", rank=1),
        Column("÷ median", rank=2),
        Column("found", left=True, rank=3),
    ]
    for place in shown(check):
        row = (
            place.node,
            str(place.outcome),
            cards(place),
            latency(place),
            ratio(place),
            concerns(check, place.node),
        )
        fill(columns, row)
    return columns


def _others(check: Check) -> list[str]:
    more = len(check.places) - len(shown(check))
    return [f"and {plural(more, 'more node')} that pass"] if more else []


def _finding(group: Group, width: int, color: bool) -> list[str]:
    word = group.fault.upper()
    first, *rest = wrapped(f"{word}  {group.where}: {group.text}", width, "  ")
    rows = [first.removeprefix("  "), *rest]
    if color:
        rows[0] = rows[0].replace(word, _tinted(word, group.outcome), 1)
    for place, step in enumerate(group.steps):
        action = f"{group.action}: " if group.action is not Action.NONE and place == 0 else ""
        rows += wrapped(f"{action}{step}", width, "  ", "→ ")
    if group.more_steps:
        rows.append(f"    … and the same for {plural(group.more_steps, 'more node')}")
    if not group.steps and group.action is not Action.NONE:
        rows.append(f"  → {group.action}")
    return rows


def _remark(group: Group) -> str:
    where = f"{group.node}: " if group.node else ""
    step = f" ({group.steps[0].rstrip('.')})" if group.steps else ""
    return f"{where}{titled(group.fault, group.text)}{step}"


def _imported(check: Check) -> list[Column]:
    columns = [
        Column("imported", left=True),
        Column("size"),
        Column("statistic", left=True),
        Column("time"),
        Column("rate"),
    ]
    for one in check.imported:
        row = (
            f"{one.tool} {one.peer}".rstrip(),
            units.bytes_iec(one.size_bytes),
            one.statistic,
            units.seconds(one.seconds),
            units.bytes_rate(one.bytes_per_second),
        )
        fill(columns, row)
    return columns


def _tinted(words: str, outcome: Outcome) -> str:
    return f"\x1b[{COLOURS[outcome]}m{words}\x1b[0m"
