"""Watches sources as the dashboard does, and prints what is observed of each node: one JSON a tick.

Run as `watcher.py SOURCE …`; it ends at a signal. A line is node → state, reason, seconds
since the agent was last seen, and unix time of its simulated neuron-monitor's newest report by our
clock (null where there is none).
"""

import json
import sys
import threading

from trntop.catalog import AGENT, NEURON_MONITOR
from trntop.cli import opening
from trntop.core.model import NodeView, View
from trntop.core.settings import Settings
from trntop.core.source_spec import parse_all


def observed(node: NodeView, now: float) -> dict[str, object]:
    """One node of a view."""
    sources = {source.name: source for source in node.frame.sources}
    agent, report = sources[AGENT], sources.get(NEURON_MONITOR)
    return {
        "state": node.state,
        "reason": agent.reason,
        "age": agent.age(now),
        "report": None if report is None else report.time,
        "values": len(node.frame.columns),
    }


def main() -> None:
    """Watches."""
    session = opening.session(parse_all(sys.argv[1:]), Settings())

    def show(view: View) -> None:
        nodes = {name: observed(node, view.time) for name, node in view.cluster.nodes.items()}
        print(json.dumps({"time": view.time, "nodes": nodes}), flush=True)

    session.subscribe(show)
    session.start()
    try:
        threading.Event().wait()
    finally:
        session.stop()


if __name__ == "__main__":
    main()
