"""A check as text: the nodes, the worst first; the findings; the verdict last."""

from collections.abc import Sequence

from trntop.check.model import Action, Outcome
from trntop.check.result import Check, NodeResult
from trntop.core import units

from ..grid import Column, fill, lines, packed, plural, wrapped
from ..markdown import moment
from .groups import Group, groups, titled

MIN_WIDTH = 60
COLUMNS = ("node", "verdict", "EFA devices", "latency", "÷ median", "found")
MAX_ROWS = 40
"""Nodes that are listed; the other nodes that pass are counted."""
HEADINGS = {Outcome.FAIL: "Failed", Outcome.UNKNOWN: "Inconclusive", Outcome.WARN: "Warnings"}
COLORS = {Outcome.PASS: "32", Outcome.WARN: "33", Outcome.FAIL: "31", Outcome.UNKNOWN: "35"}


def text(check: Check, width: int, *, color: bool = False) -> str:
    """The whole report, with at most `width` cells per line.

    Args:
        check: the result.
        width: cells of a line.
        color: whether outcomes are colored with ANSI sequences.
    """
    width = max(width, MIN_WIDTH)
    blocks = [packed(_headline(check), width, "")]
    blocks.append(lines(_nodes(check), width) + _others(check))
    found = groups(check.findings)
    for outcome, heading in HEADINGS.items():
        section = [_finding(group, width, color) for group in found if group.outcome is outcome]
        if section:
            blocks.append([heading, *section[0]])
            blocks += section[1:]
    if remarks := [group for group in found if group.outcome is Outcome.PASS]:
        rest = [line for group in remarks for line in wrapped(_remark(group), width, "  ", "- ")]
        blocks.append(["Remarks", *rest])
    blocks.append([_colored(check.verdict, check.outcome) if color else check.verdict])
    return "\n\n".join("\n".join(line.rstrip() for line in block) for block in blocks) + "\n"


def _headline(check: Check) -> Sequence[str]:
    return [
        "trntop check",
        *(["SIMULATED"] if check.simulated else []),
        moment(check.started),
        plural(len(check.nodes), "node"),
        method(check),
        f"took {units.span(check.seconds)}",
    ]


def method(check: Check) -> str:
    """`quick, fi_pingpong over efa, 64 B`."""
    spec = check.plan.spec
    each = ", each EFA device" if check.plan.per_device else ""
    size = units.bytes_iec(spec.size_bytes)
    return f"{check.plan.extent}{each}, {spec.tool} over {spec.provider}, {size}"


def _devices(result: NodeResult) -> str:
    """`8 of 8`."""
    if result.efa_devices is None:
        return units.ABSENT
    if result.expected_efa_devices is None:
        return str(result.efa_devices)
    return f"{result.efa_devices} of {result.expected_efa_devices}"


def listed_nodes(check: Check) -> Sequence[NodeResult]:
    """The nodes that are listed: all that do not pass, and others up to `MAX_ROWS`."""
    bad = sum(result.outcome is not Outcome.PASS for result in check.nodes)
    return check.nodes[: max(bad, MAX_ROWS)]


def row(check: Check, result: NodeResult) -> tuple[str, ...]:
    """The cells of a node, as many as `COLUMNS`."""
    faults = [
        f"{finding.fault} {finding.component.removeprefix('efa:')}".rstrip()
        for finding in check.findings
        if finding.node == result.node and finding.outcome is not Outcome.PASS
    ]
    return (
        result.node,
        str(result.outcome),
        _devices(result),
        units.seconds(result.seconds),
        units.ABSENT if result.ratio is None else f"{result.ratio:.2f}",
        ", ".join(dict.fromkeys(faults)),
    )


def _nodes(check: Check) -> list[Column]:
    node, verdict, devices, latency, ratio, found = COLUMNS
    columns = [
        Column(node, left=True),
        Column(verdict, left=True),
        Column(devices),
        Column(latency, rank=1),
        Column(ratio, rank=2),
        Column(found, left=True, rank=3),
    ]
    for result in listed_nodes(check):
        fill(columns, row(check, result))
    return columns


def _others(check: Check) -> list[str]:
    more = len(check.nodes) - len(listed_nodes(check))
    return [f"and {plural(more, 'more node')} that pass"] if more else []


def _finding(group: Group, width: int, color: bool) -> list[str]:
    word = group.fault.upper()
    first, *rest = wrapped(f"{word}  {group.where}: {group.text}", width, "  ")
    rows = [first.removeprefix("  "), *rest]
    if color:
        rows[0] = rows[0].replace(word, _colored(word, group.outcome), 1)
    for index, step in enumerate(group.steps):
        action = f"{group.action}: " if group.action is not Action.NONE and index == 0 else ""
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


def _colored(text: str, outcome: Outcome) -> str:
    return f"\x1b[{COLORS[outcome]}m{text}\x1b[0m"
