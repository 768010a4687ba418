"""Nodes that do not answer, refuse, or are busy; and what could not be looked at."""

from collections.abc import Iterator, Mapping

from trntop.check.advice import drain
from trntop.check.majority import names
from trntop.check.model import Action, Finding, Outcome, Tool
from trntop.check.plan import Plan
from trntop.check.result import Look

MAX_JOBS = 3
SUPPLIERS: Mapping[Tool, str] = {
    "fi_pingpong": "the EFA installer or Debian's libfabric-bin",
    "ib_send_lat": "perftest",
    "ib_write_bw": "perftest",
    "nccom-test": "aws-neuronx-tools",
}
"""Where each probing tool comes from."""


def findings(looks: Mapping[str, Look], plan: Plan) -> Iterator[Finding]:
    """One for each node of which not everything can be told, and remarks."""
    gone = [name for name, look in looks.items() if look.error and not look.refused]
    if len(gone) == len(looks) > 1 and all(look.before is None for look in looks.values()):
        yield from _none_answers(looks)
        return
    for name, look in looks.items():
        if look.refused:
            yield Finding(
                check="reachable",
                outcome=Outcome.UNKNOWN,
                node=name,
                text=f"refuses to be checked: {look.error}",
                next_step="Start its agent with --allow-probes and --probe-token-file FILE, and"
                " give the check the same token: --set fleet.token_file=FILE; or check over"
                " ssh://.",
            )
        elif look.error:
            since = "" if look.before is None else " any more"
            yield Finding(
                check="reachable",
                outcome=Outcome.FAIL,
                node=name,
                text=f"does not answer{since}: {look.error}",
                action=Action.ISOLATE,
                next_step="See first whether only its agent is not running there. "
                + drain(name, "does not answer", "Reboot it if it does not run."),
            )
        elif look.before is not None and look.before.busy and not plan.disturb:
            yield Finding(
                check="busy",
                outcome=Outcome.UNKNOWN,
                node=name,
                text=f"was not probed: it is used by {_jobs(look.before.busy)}",
                next_step="Check it when it is idle; --include-busy probes it anyway.",
            )
        elif look.before is not None and look.before.lacks(plan.spec.tool):
            yield Finding(
                check="tools",
                outcome=Outcome.UNKNOWN,
                node=name,
                text=f"was not probed: {plan.spec.tool} is not installed on it",
                next_step=f"Install what has it, {SUPPLIERS[plan.spec.tool]}.",
            )
    yield from _unseen(looks)


def _none_answers(looks: Mapping[str, Look]) -> Iterator[Finding]:
    """Where nobody answers it is rather the way there, or how the nodes were named."""
    for name, look in looks.items():
        yield Finding(
            check="reachable",
            outcome=Outcome.UNKNOWN,
            node=name,
            text=f"does not answer, nor does any other node: {look.error}",
            next_step="See whether the agents run, and whether this machine reaches the nodes:"
            " their names, the port, a firewall between.",
        )


def _jobs(jobs: list[str]) -> str:
    more = f" and {len(jobs) - MAX_JOBS} more" if len(jobs) > MAX_JOBS else ""
    return ", ".join(jobs[:MAX_JOBS]) + more


def _unseen(looks: Mapping[str, Look]) -> Iterator[Finding]:
    """Remarks, one for each thing that could not be looked at."""
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
            text=f"not looked at on {where}: {problem}" if len(nodes) > 1 else problem,
        )
