"""The judge of each node: an aggregator for its own nodes, a dashboard for the others."""

import dataclasses
from collections.abc import Sequence

import msgspec
import pytest

from tests.agents import agent, moved
from tests.builders import NOON, make_node, make_view
from tests.collectors.recording_sink import RecordingSink, running
from trntop.catalog import AGENT, INCIDENTS
from trntop.collectors.fleet import agent as fleet_agent
from trntop.collectors.fleet.target import Target
from trntop.collectors.fleet.watch import Listed, Watch
from trntop.core.errors import DecodeError
from trntop.core.model import (
    Cluster,
    ClusterTotals,
    Coverage,
    Evidence,
    Incident,
    Reading,
    RuleCoverage,
    Severity,
    View,
)
from trntop.core.settings import Settings
from trntop.pipeline.totals import UTILIZATION, totals_of
from trntop.remote import judges, wire
from trntop.remote.judges import Judges
from trntop.remote.wire import FrameEncoder
from trntop.session.incident_log import IncidentLog
from trntop.session.monitor import Monitor

HEAD = "http://head:10042"


def incident(name: str, opened: float = NOON, closed: float | None = None) -> Incident:
    evidence = (Evidence("2.0 % retransmits", "trn-001", "efa_retransmit_ratio", 0.02),)
    return Incident(
        name, "efa_degraded", Severity.CRITICAL, f"{name}: slow", opened, closed, "job", "trn-001",
        "efa:a", evidence, opened + 9, 2,
    )  # fmt: skip


def judgment(
    *incidents: Incident, at: float = NOON, sent: float | None = None, judge: str = "run",
    first: bool = True, gone: Sequence[str] = (), **standing: object,
) -> Reading:  # fmt: skip
    fields = {"since": NOON - 60, "behind": 0.0, "aggregated": False, **standing}
    changed = list(map(judges.encoded, incidents))
    (message,) = judges.messages(
        judge, at if sent is None else sent, first=first, changed=changed, gone=gone,
        **fields,  # type: ignore[arg-type]
    )  # fmt: skip
    return Reading(HEAD, INCIDENTS, at, message)


class TestMessages:
    def test_what_changes_is_added_to_what_was(self) -> None:
        registry = Judges()
        registry.update(judgment(incident("a"), incident("b"), incident("c")))
        over = dataclasses.replace(incident("b"), closed_at=NOON + 30)
        registry.update(judgment(over, first=False, gone=["c", "never"], at=NOON + 30))
        assert registry.incidents({"run": 0.0}, NOON + 100) == [[incident("a"), over]]
        assert registry.incidents({"other": 0.0}, NOON + 100) == []
        # A new run of the aggregator has its own.
        registry.update(judgment(incident("d"), judge="next"))
        assert registry.incidents({"next": 0.0}, NOON + 100) == [[incident("d")]]

    def test_what_its_rules_had_data_for_is_by_the_local_clock(self) -> None:
        registry = Judges()
        rules = (
            RuleCoverage("hang\x1b", NOON + 60),
            RuleCoverage("own", missing=("job_step", "unknown")),
        )
        sent = Coverage(NOON + 10, NOON + 60, rules)
        registry.update(judgment(at=NOON, sent=NOON + 30, coverage=sent))
        (found,) = registry.coverages({"run"})
        assert (found.watching, found.since) == (NOON - 20, NOON + 30)
        assert found.rules == (
            RuleCoverage("hang�", NOON + 30),
            RuleCoverage("own", missing=("job_step",)),
        )
        assert registry.coverages({"other"}) == []

    def test_many_incidents_take_several_messages(self) -> None:
        many = [incident(f"n{number}") for number in range(2 * judges.PART + 1)]
        found = judges.messages(
            "run", NOON, None, 0.0, aggregated=False, first=True,
            changed=list(map(judges.encoded, many)), gone=[],
        )  # fmt: skip
        registry = Judges()
        parts = [Reading(HEAD, INCIDENTS, NOON, message) for message in found]
        assert len(parts) == 3
        for reading in parts:
            registry.update(reading)
        assert registry.incidents({"run": 0.0}, NOON + 100) == [many]

    def test_times_are_those_of_this_clock(self) -> None:
        registry = Judges()
        closed = incident("a", NOON - 100, NOON - 50)
        registry.update(judgment(closed, at=NOON - 7200, sent=NOON))
        ((found,),) = registry.incidents({"run": 0.0}, NOON + 100)
        assert (found.opened_at, found.detected_at, found.closed_at) == (
            NOON - 7300, NOON - 7291, NOON - 7250,
        )  # fmt: skip
        (judge,) = registry.of({"run": 3}, {"run": 1.0})
        assert (judge.address, judge.nodes, judge.since) == (HEAD, 3, NOON - 7260)

    def test_an_aggregator_that_is_silent_has_open_incidents_of_an_age(self) -> None:
        registry = Judges()
        registry.update(judgment(incident("a"), incident("b", closed=NOON)))
        ((first, second),) = registry.incidents({"run": 120.0}, NOON + 100)
        assert first.summary == "a: slow (as of 2 min ago)"
        assert second.summary == "b: slow"
        (judge,) = registry.of({"run": 3}, {"run": 120.0})
        assert judge.behind == 120.0

    def test_an_earlier_time_has_the_incidents_known_then(self) -> None:
        registry = Judges()
        registry.update(judgment(incident("a", NOON - 90, NOON - 50), incident("b", NOON - 10)))
        ((then,),) = registry.incidents({"run": 0.0}, NOON - 70)
        assert (then.id, then.closed_at) == ("a", None)
        ((then,),) = registry.incidents({"run": 0.0}, NOON - 30)
        assert (then.id, then.closed_at) == ("a", NOON - 50)

    def test_text_is_cleaned(self) -> None:
        registry = Judges()
        registry.update(
            judgment(dataclasses.replace(incident("a"), summary="\x1b[2Jred", node="x\x1b[2J"))
        )
        ((found,),) = registry.incidents({"run": 0.0}, NOON + 100)
        assert "\x1b" not in found.summary
        assert found.node is not None
        assert "\x1b" not in found.node

    @pytest.mark.parametrize("time", [float("nan"), float("inf"), -1.0, 1e300])
    def test_fault_33_impossible_times_of_incidents(self, time: float) -> None:
        registry = Judges()
        with pytest.raises(DecodeError):
            registry.update(judgment(dataclasses.replace(incident("a"), opened_at=time)))

    @pytest.mark.parametrize(
        "change", [{"v": 9}, {"changed": [{"id": 1}]}, {"time": float("nan")}, {"judge": None}]
    )
    def test_what_is_not_valid(self, change: dict[str, object]) -> None:
        message = {**msgspec.msgpack.decode(judgment().data), **change}
        registry = Judges()
        with pytest.raises(DecodeError):
            registry.update(Reading(HEAD, INCIDENTS, NOON, msgspec.msgpack.encode(message)))


class Fleet:
    """A monitor, and nodes that report to it, with or without an aggregator."""

    def __init__(self, monitor: Monitor, **judge_of: str) -> None:
        self.monitor = monitor
        self._encoders = {
            name: FrameEncoder(name, 1.0, aggregator=bool(judge), judge=judge)
            for name, judge in judge_of.items()
        }
        self.now = NOON

    def play(self, seconds: int, *silent: str) -> View:
        """Some seconds, in which some nodes report nothing."""
        for _ in range(seconds):
            self.now += 1.0
            for name, encoder in self._encoders.items():
                if name not in silent:
                    node = make_node(0)
                    node = dataclasses.replace(
                        node, frame=dataclasses.replace(node.frame, time=self.now)
                    )
                    before, frame = encoder.messages(node, len(self._encoders))
                    for message in (*before, frame):
                        self.monitor.feed(Reading(name, AGENT, self.now, message))
            view = self.monitor.tick(self.now)
        return view


def kinds(view: View) -> list[tuple[str, str | None]]:
    return [(incident.kind, incident.node) for incident in view.open_incidents]


def test_each_node_has_one_judge() -> None:
    fleet = Fleet(Monitor(Settings(), observer=True), judged="run", plain="")
    fleet.monitor.feed(judgment(incident("a"), incident("b", NOON - 90, NOON - 60)))
    view = fleet.play(5)
    assert [incident.id for incident in view.incidents] == ["a", "b"]
    assert [(judge.address, judge.nodes) for judge in view.cluster.judges] == [(HEAD, 1)]
    # The aggregator has not reported its node as silent.
    view = fleet.play(40, "judged", "plain")
    assert kinds(view) == [("efa_degraded", "trn-001"), ("node_silent", "plain")]
    assert "as of" in view.open_incidents[0].summary


def test_a_node_that_gets_a_judge_keeps_what_is_known_of_the_others() -> None:
    fleet = Fleet(Monitor(Settings(), observer=True), judged="run", plain="")
    fleet.monitor.feed(judgment())
    assert kinds(fleet.play(40, "plain")) == []  # it has not reported anything yet
    fleet.play(5)
    assert kinds(fleet.play(40, "plain")) == [("node_silent", "plain")]
    # The aggregator sends one node more.
    fleet._encoders["more"] = FrameEncoder("more", 1.0, aggregator=True, judge="run")
    assert kinds(fleet.play(2, "plain")) == [("node_silent", "plain")]


def test_totals_are_those_of_all_nodes() -> None:
    """Of an aggregator that sends one node of ten, and of an agent."""
    fleet = Fleet(Monitor(Settings(), observer=True), judged="run", plain="")
    fleet.monitor.feed(judgment())
    registry = ClusterTotals(
        nodes=10, down=2, values={UTILIZATION: 0.5, "unknown": 1.0},
        jobs={"pretrain": {"nodes": 9.0, "job_step": 40.0, "job_loss": 2.0}},
    )  # fmt: skip
    message = judges.totals_message("run", registry)
    fleet.monitor.feed(Reading(HEAD, INCIDENTS, NOON, message))
    view = fleet.play(3)
    whole, plain = view.cluster.whole, totals_of(Cluster(NOON, {"plain": make_node(0)}))
    assert whole is not None
    assert (view.cluster.size, whole.nodes, whole.down, whole.chosen) == (11, 11, 2, True)
    assert whole.values[UTILIZATION] == pytest.approx((5.0 + plain.values[UTILIZATION]) / 11)
    assert "unknown" not in whole.values
    (job,) = plain.jobs
    assert whole.jobs == {**registry.jobs, job: pytest.approx(plain.jobs[job])}
    assert [judge.nodes for judge in view.cluster.judges] == [10]
    # Of an aggregator that is silent, only the number is known.
    silent = fleet.play(20, "judged").cluster.whole
    assert silent is not None
    assert (silent.nodes, silent.down, silent.jobs.keys()) == (11, 10, {job})


def test_what_was_judged_here_ends_with_the_first_message_of_a_judge() -> None:
    fleet = Fleet(Monitor(Settings(), observer=True), node="")
    fleet.play(5)
    assert kinds(fleet.play(40, "node")) == [("node_silent", "node")]
    fleet._encoders["node"] = FrameEncoder("node", 1.0, aggregator=True, judge="run")
    fleet.monitor.feed(judgment(at=fleet.now))
    assert fleet.play(2).incidents == ()


def test_phases_of_jobs_are_known_without_rules() -> None:
    views = [Fleet(Monitor(Settings(), observer=True), node=judge).play(5) for judge in ("", "run")]
    plain, judged = (view.cluster.phases.keys() for view in views)
    assert plain == judged


@pytest.mark.parametrize(("aggregated", "expected"), [(True, True), (False, False)])
def test_agents_report_whether_an_aggregator_reads_them(aggregated: bool, expected: bool) -> None:
    fleet = Fleet(Monitor(Settings(), observer=True), node="")
    assert fleet.play(1).cluster.aggregated is None
    fleet.monitor.feed(judgment(judge="", aggregated=aggregated))
    assert fleet.play(1).cluster.aggregated is expected


async def test_the_stream_of_an_aggregator_has_its_incidents() -> None:
    """Over loopback: the day at first, then only what changes."""
    log, sink = IncidentLog(1.0), RecordingSink()
    early = incident("early", NOON - 90, NOON - 60)
    first = make_view(2, incidents=[incident("a"), early])
    log(first)
    async with agent(first, aggregator=True, log=log) as fake:
        targets = [Target("head", fake.address)]
        watch = Watch(Listed("head", targets), Settings())
        async with running(watch, sink):
            await sink.until(lambda: len(sink.readings) == 7)
            over = dataclasses.replace(incident("a"), closed_at=NOON + 1)
            later = dataclasses.replace(first, generation=2, time=NOON + 1, incidents=(over, early))
            fake.show(later)
            await sink.until(lambda: len(sink.readings) == 10)
    found = [reading for reading in sink.readings if reading.source == INCIDENTS]
    assert [reading.node for reading in found] == [targets[0].address] * 2
    assert b"early" not in found[1].data
    monitor = Monitor(Settings(), observer=True)
    for reading in sink.readings:
        monitor.feed(dataclasses.replace(reading, time=NOON + 1))
    view = monitor.tick(NOON + 1)
    assert view.incidents == (over, early)
    assert {remote.judge for remote in monitor._remotes.values()} != {""}


async def test_of_a_large_aggregator_some_nodes_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those with incidents first; of the others, the totals. Also of their past."""
    monkeypatch.setattr(fleet_agent, "MAX_SHOWN", 2)
    monkeypatch.setattr(fleet_agent, "LEAST_SHOWN", 1)
    log, sink = IncidentLog(1.0), RecordingSink()
    sink.wants_backfill = True
    first = make_view(5, incidents=[dataclasses.replace(incident("a"), node="trn-003")])
    log(first)
    async with agent(first, aggregator=True, log=log) as fake:
        fake.tick()
        fake.tick(5.0)
        targets = [Target("head", fake.address)]
        async with running(Watch(Listed("head", targets), Settings()), sink):
            await sink.until(lambda: len(sink.backfills) == 2)
            assert {reading.node for reading in sink.readings} == {
                "trn-001",
                "trn-003",
                fake.address,
            }
            assert {reading.node for readings in sink.backfills for reading in readings} == {
                "trn-001",
                "trn-003",
            }
            # Another node becomes faulty, and the first is no longer.
            later = moved(first, 8.0)
            found = dataclasses.replace(incident("b"), node="trn-004")
            fake.show(dataclasses.replace(later, incidents=(found,)))
            await sink.until(lambda: "trn-003" in sink.removed)
            await sink.until(lambda: sink.readings[-1].node == "trn-004")
    monitor = Monitor(Settings(), observer=True)
    for reading in sink.readings:
        monitor.feed(dataclasses.replace(reading, time=NOON + 1))
    monitor.remove("trn-003")
    view = monitor.tick(NOON + 1)
    assert (len(view.cluster.nodes), view.cluster.size) == (2, 5)


@pytest.mark.parametrize("aggregator", [True, False])
async def test_an_agent_knows_whether_an_aggregator_reads_it(aggregator: bool) -> None:
    log, sink = IncidentLog(1.0), RecordingSink()
    sink.aggregator = aggregator
    async with agent(make_view(1), log=log) as fake:
        watch = Watch(Listed("here", [Target("here", fake.address)]), Settings())
        assert not fake.streams.aggregated
        async with running(watch, sink):
            await sink.until(lambda: len(sink.readings) == 4)
            assert fake.streams.aggregated is aggregator
        # One that restarts still counts.
        assert fake.streams.aggregated is aggregator
    registry = Judges()
    registry.update(next(reading for reading in sink.readings if reading.source == INCIDENTS))
    assert registry.aggregated is aggregator
    assert wire.head(sink.readings[0].data).type == judges.TAG
    assert registry.incidents({"": 0.0}, NOON + 100) == [[]]


def test_recordings_are_judged_again() -> None:
    monitor = Monitor(Settings())
    monitor.feed(judgment(incident("a")))
    assert monitor.tick(NOON).incidents == ()
    assert monitor.unknown_sources == {}
