"""Whole runs to draw pictures of: ranks, probes, checkpoints, whatever any screen shows.

Four conditions of one run: healthy; slowed by an EFA device; some nodes and sources are silent;
and a machine that has nothing to watch.
"""

from dataclasses import replace
from functools import cache, partial

import numpy as np

from tests.builders import NOON, efa_name, make_node, node_name, view_of
from tests.tui.rank_nodes import with_ranks
from tests.tui.render.fabrics import probing
from tests.tui.sample_run import (
    COMM_INCIDENT,
    EFA_INCIDENT,
    JOB,
    PAST_INCIDENT,
    VICTIM,
    FakeSession,
    history_from,
    node,
)
from trntop.catalog import EFA_SOURCE, NEURON_MONITOR, STEPS
from trntop.core.model import Evidence, Incident, NodeView, Phase, Severity, Stage, State, View
from trntop.pipeline.history import History
from trntop.sources import DEVICE_SOURCES

CONDITIONS = ("healthy", "incident", "silent", "empty")
NODES, RANKS = 16, 4
NODE_NAMES = "trn-[000-015]:9464"
SAVES = (NOON - 250, NOON - 100)
SAVE_SECONDS = 12.0
SILENT = {10: State.LATE, 11: State.STALE, 12: State.DOWN, 13: State.STARTING}
"""Nodes by their index, of which nothing fresh comes."""
LACKING = {5: EFA_SOURCE, 8: NEURON_MONITOR, 9: STEPS}
"""Nodes by their index, one source of which does not answer."""
SILENCE = Incident(
    id="silent-1",
    kind="node_silent",
    severity=Severity.WARNING,
    summary="trn-011 has been silent for 14 s; the other nodes report",
    opened_at=NOON - 9,
    node="trn-011",
    evidence=(Evidence("no source of it spoke for 14 s", "trn-011"),),
)


def session(condition: str) -> FakeSession:
    """What the dashboard shows in a condition."""
    shown = FakeSession(view(condition), history(condition))
    shown.description = "local" if condition == "empty" else NODE_NAMES
    return shown


def waiting() -> FakeSession:
    """Before the first reading."""
    shown = FakeSession(view_of())
    shown.description = NODE_NAMES
    return shown


@cache
def history(condition: str) -> History:
    """What led to it."""
    return history_from(partial(view, condition), 0 if condition == "empty" else 300, every=10)


def view(condition: str, time: float = NOON) -> View:
    """The run in a condition."""
    if condition == "empty":
        return view_of(_nothing(), time=time)
    trouble = condition == "incident" and time > NOON - 50
    nodes = [_node(index, time, trouble, condition == "silent") for index in range(NODES)]
    incidents = {
        "incident": (EFA_INCIDENT, COMM_INCIDENT, PAST_INCIDENT),
        "silent": (SILENCE,),
    }
    return view_of(*nodes, incidents=incidents.get(condition, ()), time=time)


def _nothing() -> NodeView:
    """A machine without devices, whose sources report why they are silent."""
    return make_node(
        0, 0, 0, 0, name="laptop", jobs=(), runtimes=0,
        states=dict.fromkeys(DEVICE_SOURCES, State.DOWN),
        reason="not found: is the Neuron driver installed?",
    )  # fmt: skip


def _node(index: int, time: float, trouble: bool, silent: bool) -> NodeView:
    state = SILENT.get(index, State.FRESH) if silent and time > NOON - 14 else State.FRESH
    made = node(index, time=time, trouble=trouble, state=state)
    if state not in (State.FRESH, State.LATE):
        return made
    made = _trained(made, index, trouble)
    made = _probed(made, index, trouble)
    if any(save <= time < save + SAVE_SECONDS for save in SAVES):
        save = Phase(Stage.CHECKPOINTING, time, "announced by the training process")
        made = replace(made, frame=replace(made.frame, phase=save))
    if silent and index in LACKING:
        made = _lacking(made, LACKING[index])
    return made


def _trained(made: NodeView, index: int, trouble: bool) -> NodeView:
    """With ranks, a loss and what else a training process reports."""
    step, comm, exposed = (
        made.frame.columns[f"job_{name}seconds"].item()
        for name in ("step_", "comm_", "exposed_comm_")
    )
    random = np.random.default_rng(index)
    waits = exposed * random.normal(1, 0.04, RANKS)
    made = with_ranks(
        made, JOB, RANKS * index,
        {
            "rank_step": np.full(RANKS, made.frame.columns["job_step"].item()),
            "rank_step_seconds": np.full(RANKS, step),
            "rank_compute_seconds": step - waits,
            "rank_comm_seconds": waits + comm - exposed,
            "rank_exposed_comm_seconds": waits,
        },
    )  # fmt: skip
    age = (NOON - made.frame.time) / 300
    columns = {
        **made.frame.columns,
        "job_ranks": np.array([float(RANKS)]),
        "job_loss": np.array([2.31 + 0.04 * age]),
        "job_mfu_ratio": np.array([0.38 - 0.07 * trouble]),
    }
    return replace(made, frame=replace(made.frame, columns=columns))


def _probed(made: NodeView, index: int, trouble: bool) -> NodeView:
    """With the latency to the nodes after it."""
    random = np.random.default_rng(100 + index)
    latencies = {}
    for peer in range(index + 1, NODES):
        slow = trouble and VICTIM in (made.name, node_name(peer))
        latencies[f"{efa_name(0)}>{node_name(peer)}"] = 16e-6 * random.normal(1 + 2 * slow, 0.05)
    return probing(made, latencies) if latencies else made


def _lacking(made: NodeView, source: str) -> NodeView:
    """Without what one source reports, with a reason."""
    prefixes = {
        EFA_SOURCE: ("efa_", "node_efa_"),
        NEURON_MONITOR: ("neuroncore_", "device_", "node_neuroncore_", "node_hbm"),
        STEPS: ("job_", "rank_"),
    }[source]
    sources = tuple(
        replace(known, state=State.DOWN, reason="permission denied", time=NOON - 40)
        if known.name == source
        else known
        for known in made.frame.sources
    )
    columns = {
        name: values for name, values in made.frame.columns.items() if not name.startswith(prefixes)
    }
    return replace(made, frame=replace(made.frame, columns=columns, sources=sources))
