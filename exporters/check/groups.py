"""Groups of findings: the same finding on many nodes is shown once."""

from collections.abc import Sequence
from dataclasses import dataclass

from trntop.check.model import Action, Finding, Outcome
from trntop.check.names import names
from trntop.check.verdict import path

MAX_STEPS = 4
"""Commands of a group that are printed; `--json` has all of them."""


@dataclass(frozen=True, slots=True)
class Group:
    """Findings with the same text."""

    outcome: Outcome
    check: str
    fault: str
    text: str
    action: Action
    where: str
    """The nodes, or the ends of a path, or `all`."""
    node: str
    """The node, if it is only one."""
    steps: Sequence[str]
    more_steps: int = 0


def titled(fault: str, text: str) -> str:
    """`unreachable: host name does not resolve`; a remark may have no fault."""
    return f"{fault}: {text}" if fault else text


def groups(findings: Sequence[Finding]) -> list[Group]:
    """In the order of the findings: the worst first."""
    found: dict[tuple[str, ...], list[Finding]] = {}
    for finding in findings:
        key = (
            finding.outcome, finding.check, finding.fault, finding.component, finding.text,
            finding.action,
        )  # fmt: skip
        found.setdefault(key, []).append(finding)
    return [_group(same) for same in found.values()]


def _group(same: Sequence[Finding]) -> Group:
    first = same[0]
    nodes = list(dict.fromkeys(each.node for each in same if each.node))
    steps = list(dict.fromkeys(each.next_step for each in same if each.next_step))
    return Group(
        outcome=first.outcome,
        check=first.check,
        fault=first.fault,
        text=first.text,
        action=first.action,
        where=names(nodes) or path(first) or "all",
        node=nodes[0] if len(nodes) == 1 else "",
        steps=steps[:MAX_STEPS],
        more_steps=max(len(steps) - MAX_STEPS, 0),
    )
