"""Findings for people: the same finding on many nodes is one group."""

from collections.abc import Sequence
from dataclasses import dataclass

from trntop.check.consensus import names
from trntop.check.model import Action, Finding, Outcome
from trntop.check.verdict import path

MAX_STEPS = 4
"""Commands of a group that are written out; `--json` has them all."""


@dataclass(frozen=True, slots=True)
class Group:
    """Findings with the same words."""

    outcome: Outcome
    check: str
    fault: str
    text: str
    action: Action
    where: str
    """The nodes, or the ends of a path, or `all`."""
    node: str
    """The node, where it is one."""
    steps: Sequence[str]
    more_steps: int = 0


def titled(fault: str, text: str) -> str:
    """`unreachable: host name does not resolve`; a remark may have no fault."""
    return f"{fault}: {text}" if fault else text


def groups(findings: Sequence[Finding]) -> list[Group]:
    """In the order of the findings: the worst first."""
    found: dict[tuple[str, ...], list[Finding]] = {}
    for one in findings:
        key = (one.outcome, one.check, one.fault, one.component, one.text, one.action)
        found.setdefault(key, []).append(one)
    return [_group(own) for own in found.values()]


def _group(own: Sequence[Finding]) -> Group:
    first = own[0]
    nodes = list(dict.fromkeys(one.node for one in own if one.node))
    steps = list(dict.fromkeys(one.next_step for one in own if one.next_step))
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
