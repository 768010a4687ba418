"""A check as Markdown, to be pasted into a ticket. Times are UTC; text from nodes is escaped."""

from collections.abc import Iterator, Sequence

from trntop.check.model import Action, Finding, Outcome
from trntop.check.result import Check
from trntop.core import units

from ..grid import plural
from ..markdown import inner, moment, plain, table, with_code
from .groups import Group, groups, titled
from .text import COLUMNS, listed_nodes, method, row


def markdown(check: Check) -> str:
    """One page, the worst first."""
    blocks = [
        *_head(check),
        *_findings(check.findings),
        *_nodes(check),
    ]
    return "\n\n".join(blocks) + "\n"


def _head(check: Check) -> Iterator[str]:
    yield f"# trntop check, {moment(check.started)}"
    if check.simulated:
        yield "**SIMULATED**: some of the inspections are simulated."
    yield f"**{plain(check.verdict)}**"
    spec = check.plan.spec
    runs, probes = plural(spec.repeats, "run"), plural(len(check.probe_runs), "probe")
    yield "\n".join(
        (
            f"- How: {method(check)}, {spec.iterations:,} messages, {runs} a pair; {probes} in"
            f" {units.span(check.seconds)}",
            f"- By: {check.by}",
        )
    )


def _findings(findings: Sequence[Finding]) -> Iterator[str]:
    found = groups(findings)
    wrong = [group for group in found if group.outcome is not Outcome.PASS]
    if wrong:
        yield "## Found"
    for number, group in enumerate(wrong, 1):
        yield f"### {number}. {group.outcome.upper()}: {plain(group.where)} {plain(group.fault)}"
        lines = [plain(group.text)]
        if group.action is not Action.NONE:
            lines.append(f"- Action: **{group.action}**")
        lines += [f"- {with_code(step)}" for step in group.steps]
        if group.more_steps:
            lines.append(f"- and the same for {plural(group.more_steps, 'more node')}")
        yield "\n".join(lines) if len(lines) == 1 else f"{lines[0]}\n\n" + "\n".join(lines[1:])
    if remarks := [group for group in found if group.outcome is Outcome.PASS]:
        yield "## Remarks"
        yield "\n".join(f"- {_remark(group)}" for group in remarks)


def _remark(group: Group) -> str:
    where = f"{plain(group.node)}: " if group.node else ""
    step = f" ({with_code(group.steps[0].rstrip('.'))})" if group.steps else ""
    return f"{where}{plain(titled(group.fault, group.text))}{step}"


def _nodes(check: Check) -> Iterator[str]:
    yield "## Nodes"
    rows = [[*map(inner, row(check, place))] for place in listed_nodes(check)]
    yield table([list(COLUMNS), *rows])
    if more := len(check.nodes) - len(listed_nodes(check)):
        yield f"and {plural(more, 'more node')} that pass"
