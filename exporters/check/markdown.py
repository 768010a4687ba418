"""A check as Markdown, to be pasted into a ticket. All times are UTC; foreign text is escaped."""

from collections.abc import Iterator, Sequence

from trntop.check.model import Action, Finding, Outcome
from trntop.check.result import Check
from trntop.check.stage import Outlook
from trntop.core import units

from ..grid import plural
from ..markdown import inner, moment, plain, table, with_code
from .groups import Group, groups, titled
from .text import cards, concerns, how, latency, ratio, shown


def markdown(check: Check) -> str:
    """One page, its worst first."""
    blocks = [
        *_head(check),
        *_findings(check.findings),
        *(_nodes(check) if check.places else ()),
        *_imported(check),
        *_outlook(check.outlook),
        *_versions(check),
    ]
    return "\n\n".join(blocks) + "\n"


def _head(check: Check) -> Iterator[str]:
    yield f"# trntop check, {moment(check.started)}"
    if check.simulated:
        yield "**SIMULATED**: some of the inspections are simulated."
    yield f"**{plain(check.verdict)}**"
    lines = [f"- By: {check.by}"]
    if check.places:
        spec = check.plan.spec
        runs, probes = plural(spec.repeats, "run"), plural(len(check.trials), "probe")
        lines.insert(
            0,
            f"- How: {how(check)}, {spec.iterations:,} messages, {runs} a pair; {probes} in"
            f" {units.span(check.seconds)}",
        )
    if check.compared_with is not None:
        lines.append(f"- Compared with the check of {moment(check.compared_with)}")
    yield "\n".join(lines)


def _findings(findings: Sequence[Finding]) -> Iterator[str]:
    found = groups(findings)
    told = [one for one in found if one.outcome is not Outcome.PASS]
    if told:
        yield "## Found"
    for number, one in enumerate(told, 1):
        yield f"### {number}. {one.outcome.upper()}: {plain(one.where)} {plain(one.fault)}"
        lines = [plain(one.text)]
        if one.action is not Action.NONE:
            lines.append(f"- Action: **{one.action}**")
        lines += [f"- {with_code(step)}" for step in one.steps]
        if one.more_steps:
            lines.append(f"- and the same for {plural(one.more_steps, 'more node')}")
        yield "\n".join(lines) if len(lines) == 1 else f"{lines[0]}\n\n" + "\n".join(lines[1:])
    if remarks := [one for one in found if one.outcome is Outcome.PASS]:
        yield "## Remarks"
        yield "\n".join(f"- {_remark(one)}" for one in remarks)


def _remark(group: Group) -> str:
    where = f"{plain(group.node)}: " if group.node else ""
    step = f" ({with_code(group.steps[0].rstrip('.'))})" if group.steps else ""
    return f"{where}{plain(titled(group.fault, group.text))}{step}"


def _nodes(check: Check) -> Iterator[str]:
    yield "## Nodes"
    rows = [["node", "verdict", "EFA devices", "latency", "÷ median", "found"]]
    for place in shown(check):
        row = (place.node, str(place.outcome), cards(place), latency(place), ratio(place))
        rows.append([*map(inner, row), inner(concerns(check, place.node))])
    yield table(rows)
    if more := len(check.places) - len(shown(check)):
        yield f"and {plural(more, 'more node')} that pass"


def _imported(check: Check) -> Iterator[str]:
    if not check.imported:
        return
    yield "## Imported"
    rows = [["tool", "nodes", "size", "statistic", "time", "rate"]]
    rows += [
        [
            inner(one.tool),
            inner(one.peer),
            units.bytes_iec(one.size_bytes),
            inner(one.statistic),
            units.seconds(one.seconds),
            units.bytes_rate(one.bytes_per_second),
        ]
        for one in check.imported
    ]
    yield table(rows)


def _outlook(outlook: Outlook | None) -> Iterator[str]:
    if outlook is not None:
        yield "## Communication of finished stages"
        yield "\n".join(f"- {plain(one)}" for one in outlook.sentences)


def _versions(check: Check) -> Iterator[str]:
    """Versions by the number of nodes that have them."""
    counts: dict[str, dict[str, int]] = {}
    for look in check.looks:
        for what, version in (look.newest.versions if look.newest else {}).items():
            own = counts.setdefault(what, {})
            own[version] = own.get(version, 0) + 1
    if counts:
        yield "## Versions"
        rows = [["what", "version", "nodes"]]
        rows += [
            [inner(what), inner(version), str(count)]
            for what, own in sorted(counts.items())
            for version, count in sorted(own.items(), key=lambda item: -item[1])
        ]
        yield table(rows)
