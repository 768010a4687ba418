"""Nodes that are unreachable, refuse probes, or are busy; and what could not be inspected."""

from collections.abc import Iterator, Mapping

from trntop.check.advice import drain
from trntop.check.consensus import names
from trntop.check.model import Action, Finding, Outcome, Tool
from trntop.check.plan import Plan
from trntop.check.result import NodeInspection

MAX_JOBS = 3
SUPPLIERS: Mapping[Tool, str] = {
    "fi_pingpong": "the EFA installer or Debian's libfabric-bin",
    "ib_send_lat": "perftest",
    "ib_write_bw": "perftest",
}
"""The package of each probing tool."""
UNRESOLVED = "not resolve"
"""Part of the errors of the agent's client and of ssh for a host name without an address."""
RESOLVE = "Check DNS or /etc/hosts."
REACH = "Check that the node is up, its agent is running and no firewall blocks the port."


def findings(looks: Mapping[str, NodeInspection], plan: Plan) -> Iterator[Finding]:
    """One for each node that could not be checked completely, and remarks."""
    gone = [name for name, look in looks.items() if look.error and not look.refused]
    if len(gone) == len(looks) > 1 and all(look.before is None for look in looks.values()):
        yield from _none_answers(looks)
        return
    for name, look in looks.items():
        if look.refused:
            yield Finding(
                check="reachable",
                outcome=Outcome.UNKNOWN,
                fault="probes refused",
                node=name,
                text=look.error,
                next_step="Start its agent with --allow-probes and --probe-token-file FILE, and"
                " give the check the same token: --set fleet.token_file=FILE; or check over"
                " ssh://.",
            )
        elif look.error:
            unresolved = UNRESOLVED in look.error.lower()
            isolate = drain(name, "unreachable", "Reboot it if it is not running.")
            yield Finding(
                check="reachable",
                outcome=Outcome.FAIL,
                fault="unreachable" if look.before is None else "stopped responding",
                node=name,
                text=look.error,
                # The name is at fault, the node need not be.
                action=Action.NONE if unresolved else Action.ISOLATE,
                next_step=RESOLVE if unresolved else f"{REACH} {isolate}",
            )
        elif look.before is not None and look.before.busy and not plan.disturb:
            yield Finding(
                check="busy",
                outcome=Outcome.UNKNOWN,
                fault="busy",
                node=name,
                text=f"not probed, used by {_jobs(look.before.busy)}",
                next_step="Check it when it is idle, or add --include-busy to probe it anyway.",
            )
        elif look.before is not None and look.before.lacks(plan.spec.tool):
            yield Finding(
                check="tools",
                outcome=Outcome.UNKNOWN,
                fault="probe tool missing",
                node=name,
                text=f"not probed, {plan.spec.tool} is not installed",
                next_step=f"Install {SUPPLIERS[plan.spec.tool]}.",
            )
    yield from _unseen(looks)


def _none_answers(looks: Mapping[str, NodeInspection]) -> Iterator[Finding]:
    """If no node responds, the cause is more likely the network or the given names."""
    for name, look in looks.items():
        yield Finding(
            check="reachable",
            outcome=Outcome.UNKNOWN,
            fault="unreachable",
            node=name,
            text=look.error,
            next_step=RESOLVE if UNRESOLVED in look.error.lower() else REACH,
        )


def _jobs(jobs: list[str]) -> str:
    more = f" and {len(jobs) - MAX_JOBS} more" if len(jobs) > MAX_JOBS else ""
    return ", ".join(jobs[:MAX_JOBS]) + more


def _unseen(looks: Mapping[str, NodeInspection]) -> Iterator[Finding]:
    """Remarks, one for each part that could not be inspected."""
    found: dict[str, list[str]] = {}
    for name, look in looks.items():
        if look.newest is not None:
            for problem in dict.fromkeys(look.newest.problems):
                found.setdefault(problem, []).append(name)
    for problem, nodes in found.items():
        where = "all nodes" if len(nodes) == len(looks) > 1 else names(nodes)
        yield Finding(
            check="inspection",
            outcome=Outcome.PASS,
            node=nodes[0] if len(nodes) == 1 else "",
            text=f"not inspected on {where}: {problem}" if len(nodes) > 1 else problem,
        )
