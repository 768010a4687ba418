"""A small run to draw: sixteen nodes, five minutes of history, calm or in trouble."""

import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import cast

import numpy as np

from tests.builders import NOON, make_node, view_of
from trntop.core.model import Evidence, Incident, NodeView, Severity, State, View
from trntop.core.settings import Analysis, Settings
from trntop.pipeline.history import History
from trntop.pipeline.jobs import job_means
from trntop.recording.blackbox import BlackBox
from trntop.session.runner import Playback, Session, Subscriber
from trntop.tui.app import TrntopApp
from trntop.tui.view_model import Mode, ViewModel

GIB = 1 << 30
DEVICES, CORES, EFA_DEVICES = 16, 4, 16
VICTIM = "trn-007"
DEVICE = "rdmap96s27"
JOB = "pretrain-13b"

EFA_INCIDENT = Incident(
    id="efa-1",
    kind="efa_degraded",
    severity=Severity.CRITICAL,
    summary=f"{VICTIM} {DEVICE}: 2.1 % retransmits (limit 0.2 %, peers 0.0 %)",
    opened_at=NOON - 44,
    job=JOB,
    node=VICTIM,
    component=f"efa:{DEVICE}",
    evidence=(
        Evidence("retransmits 2.1 % of its packets over 20 s, its 15 peers at most 0.004 %",
                 VICTIM, "efa_retransmit_ratio", 0.021, 0.005),
        Evidence("communication takes 31 % of the step, 17 % before", None,
                 "job_comm_share_ratio", 0.31, 0.25),
        Evidence("16 nodes wait 0.9 s longer in each step"),
    ),
)  # fmt: skip
COMM_INCIDENT = Incident(
    id="comm-1",
    kind="comm_bound",
    severity=Severity.WARNING,
    summary=f"{JOB} spends 31 % of each step in communication (limit 25 %)",
    opened_at=NOON - 38,
    job=JOB,
)
PAST_INCIDENT = Incident(
    id="memory-1",
    kind="memory_pressure",
    severity=Severity.WARNING,
    summary="device 3 of trn-002 used 96 % of its HBM (limit 95 %)",
    opened_at=NOON - 900,
    closed_at=NOON - 700,
    node="trn-002",
    component="device:3",
    evidence=(Evidence("92.2 GiB of 96 GiB used", "trn-002"),),
)


def node(
    index: int,
    *,
    time: float = NOON,
    trouble: bool = False,
    state: State = State.FRESH,
    name: str = "",
    jobs: Sequence[str] = (JOB,),
) -> NodeView:
    """One node whose numbers follow from its index and the time."""
    random = np.random.default_rng(1000 * index + int(time) % 1000)
    cores = DEVICES * CORES
    wave = math.sin(time / 4.3 + index)
    rate = (5.2e9 - 2.0e9 * trouble) * (1 + 0.2 * wave) * random.normal(1, 0.03, EFA_DEVICES)
    retransmit = random.uniform(0, 4e-5, EFA_DEVICES)
    comm, exposed = (0.31, 0.19) if trouble else (0.171, 0.082)
    faulty = trouble and (name or f"trn-{index:03d}") == VICTIM
    if faulty:
        retransmit[5], rate[5], comm, exposed = 0.021, 0.9e9, 0.121, 0.03
    works = (0.38 - 0.08 * trouble + 0.01 * wave) * random.normal(1, 0.01, 2 * cores)
    packets = rate / 8000
    step = 4.31 + 0.9 * trouble + 0.02 * wave
    columns: dict[str, Sequence[float] | None] = {
        "neuroncore_utilization_ratio": (
            0.97 + 0.02 * wave + random.normal(0, 0.008, cores)
        ).clip(0, 1).tolist(),
        "neuroncore_memory_used_bytes": (
            random.normal(0.71, 0.004, cores) * 96 * GIB / CORES
        ).tolist(),
        "device_memory_total_bytes": [96.0 * GIB] * DEVICES,
        "physical_core_tensor_engine_matmul_cycles_per_second": (1.2e9 * works).tolist(),
        "physical_core_tensor_engine_weight_load_cycles_per_second": (0.2e9 * works).tolist(),
        "physical_core_tensor_engine_idle_cycles_per_second": (1.4e9 * (1 - works)).tolist(),
        "efa_tx_bytes_per_second": rate.tolist(),
        "efa_rx_bytes_per_second": (rate * random.normal(1, 0.01, EFA_DEVICES)).tolist(),
        "efa_tx_pkts_per_second": packets.tolist(),
        "efa_retrans_pkts_per_second": (packets * retransmit).tolist(),
        "efa_stated_link_bytes_per_second": [25e9] * EFA_DEVICES,
        "job_step": [1204.0] * len(jobs),
        "job_step_seconds": [step] * len(jobs),
        "job_comm_seconds": [(comm + 0.004 * wave) * step] * len(jobs),
        "job_exposed_comm_seconds": [(exposed + 0.003 * wave) * step] * len(jobs),
        "job_tokens_per_second": [971e3 - 170e3 * trouble + 4e3 * wave] * len(jobs),
    }  # fmt: skip
    if state in (State.STALE, State.DOWN, State.STARTING):
        columns = {}
    return make_node(
        index, DEVICES, CORES, EFA_DEVICES, name=name, jobs=jobs, runtimes=2, state=state,
        reason="" if state is State.FRESH else "silent for 14 s", time=time, columns=columns,
    )  # fmt: skip


def view(*, trouble: bool = False, nodes: int = 16, time: float = NOON) -> View:
    """A healthy run, or one that waits for a degraded EFA device while a node is silent."""
    stale = {11} if trouble and nodes > 11 else set()
    made = [
        node(
            index,
            time=time,
            trouble=trouble and time > NOON - 50,
            state=State.STALE if index in stale else State.FRESH,
        )
        for index in range(nodes)
    ]
    incidents = (EFA_INCIDENT, COMM_INCIDENT, PAST_INCIDENT) if trouble else ()
    return view_of(*made, incidents=incidents, time=time)


@cache
def history(*, trouble: bool = False, nodes: int = 16) -> History:
    """What led to `view`; every fifth second is computed, the ones between repeat it.

    Shared between tests: read only.
    """
    # A fleet of many nodes is drawn for its size, not for its past.
    make = partial(view, trouble=trouble, nodes=nodes)
    return history_from(lambda time: make(time=time), 300 if nodes == 16 else 0)


def history_from(make: Callable[[float], View], seconds: int, every: int = 5) -> History:
    """What led to noon, by views of which the ones between repeat the one before."""
    recorded = History(300)
    cluster = None
    for second in range(seconds, -1, -1):
        if cluster is None or second % every == 0:
            cluster = make(NOON - second).cluster
        object.__setattr__(cluster, "time", NOON - second)
        recorded.append(cluster, job_means(cluster))
    return recorded


def view_model(*, trouble: bool = False, nodes: int = 16, mode: Mode = Mode.LIVE) -> ViewModel:
    """The picture of it."""
    return ViewModel(
        view=view(trouble=trouble, nodes=nodes),
        history=history(trouble=trouble, nodes=nodes),
        limits=Analysis(),
        description="sim:demo",
        mode=mode,
        utc=True,
    )


class FakeSession:
    """What the app asks of a session, without a thread."""

    def __init__(
        self, view: View, history: History | None = None, *, playback: Playback | None = None
    ) -> None:
        self.view = view
        self.history = history or History(60)
        self.playback = playback
        self.description = "fake"
        self.failure = ""
        self.lost: tuple[str, ...] = ()
        self.started = self.stopped = False
        self.subscribers: list[Subscriber] = []
        self.black_box: BlackBox | None = None
        self.warn: Callable[[str], None] = print
        self.period = 1.0
        self.seekable = False
        self.span: tuple[float, float] | None = None
        self.sought: list[float] = []
        self.steps = 0
        self.looked_at: str | None = None

    @property
    def loading(self) -> bool:
        return self.playback is not None and self.playback.catch_up

    def notes(self) -> tuple[str, ...]:
        return self.lost

    def subscribe(self, subscriber: Subscriber) -> None:
        self.subscribers.append(subscriber)

    def seek(self, time: float) -> bool:
        self.sought.append(time)
        return time < self.view.time

    def step(self) -> None:
        self.steps += 1

    def set_focus(self, node: str | None) -> None:
        self.looked_at = node

    def start(self) -> None:
        self.started = True
        self.publish(self.view)

    def stop(self) -> None:
        self.stopped = True

    def publish(self, view: View) -> None:
        self.view = view
        for subscriber in self.subscribers:
            subscriber(view)


SETTINGS = Settings()


def make_app(
    *,
    trouble: bool = False,
    nodes: int = 16,
    settings: Settings = SETTINGS,
    playback: Playback | None = None,
) -> TrntopApp:
    """The dashboard over a fake session that shows one view."""
    session = FakeSession(
        view(trouble=trouble, nodes=nodes),
        history(trouble=trouble, nodes=nodes),
        playback=playback,
    )
    return app_of(session, settings=settings)


def app_of(session: FakeSession, *, settings: Settings = SETTINGS) -> TrntopApp:
    """The dashboard over `session`."""
    return TrntopApp(cast(Session, session), settings=settings, utc=True)
