"""The runtime's system traces. All inputs are made up: no capture of `cc_running` is public."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.collectors.traces.synthetic import BASE, Event, nrt, system_trace
from trntop.collectors.traces import Step, load, steps_of, total_of
from trntop.core.errors import RecordingError

RUN, COMM = "nc_exec_running", "cc_running"


def span(
    kind: str, start: int, stop: int, tracking_id: int | None = None, core: int = 0
) -> list[Event]:
    return [
        nrt(kind, "start", start, tracking_id, core),
        nrt(kind, "stop", stop, tracking_id, core),
    ]


def times(step: Step) -> tuple[int | None, ...]:
    """Nanoseconds of step, compute, comm, overlap, exposed."""
    seconds = (
        step.step_seconds, step.compute_seconds, step.comm_seconds, step.overlap_seconds,
        step.exposed_comm_seconds,
    )  # fmt: skip
    return tuple(None if each is None else round(each * 1e9) for each in seconds)


def test_a_core_is_a_rank_and_a_capture_one_step_without_a_number(tmp_path: Path) -> None:
    path = system_trace(
        tmp_path / "trn-003.json",
        [
            *span(RUN, 0, 1000, 1), *span(COMM, 800, 1300, 2),
            *span(RUN, 1500, 2000, 3), *span(RUN, 100, 200, 9, core=5),
        ],
    )  # fmt: skip
    zero, five = load([path])
    (step,) = steps_of(zero)
    assert times(step) == (2000, 1500, 500, None, None)
    assert (step.node, step.rank, step.step) == ("trn-003", 0, None)
    assert step.time == pytest.approx((BASE + 2000) / 1e9)
    assert five.rank == 5
    assert times(steps_of(five)[0]) == (100, 100, 0, None, None)
    assert "exposed communication is unknown" in zero.notes[0]


def test_a_number_of_executions_is_a_step_on_request(tmp_path: Path) -> None:
    runs = [event for n in range(5) for event in span(RUN, 100 * n, 100 * n + 60, n)]
    path = system_trace(tmp_path / "t.json", [*runs, *span(COMM, 50, 130, 99)])
    (capture,) = load([path], executions=2)
    first, second = steps_of(capture)
    assert (first.step, second.step) == (0, 1)
    assert times(first) == (200, 120, 80, None, None)
    assert times(second) == (200, 120, 0, None, None)
    assert total_of(capture).outside_seconds == pytest.approx(60e-9), "the fifth is left over"
    (five,) = steps_of(load([path], executions=5)[0])
    assert times(five)[0] == 460, "without a next one, a step ends with its last execution"
    (six,) = load([path], executions=6)
    assert [step.step for step in steps_of(six)] == [None]
    assert "--executions 6 does not apply: a core has fewer executions" in six.notes[-1]
    assert not any("--executions" in note for note in capture.notes)


def test_without_executions_there_are_none_to_count(tmp_path: Path) -> None:
    path = system_trace(tmp_path / "t.json", span(COMM, 0, 100, 1))
    (capture,) = load([path], executions=1)
    assert "--executions 1 does not apply" in capture.notes[-1]


def test_the_two_physical_cores_behind_a_logical_one_are_one_execution(tmp_path: Path) -> None:
    path = system_trace(
        tmp_path / "t.json",
        [*span(RUN, 0, 100, 1), *span(RUN, 10, 120, 2), *span(RUN, 200, 300, 3)],
    )
    (capture,) = load([path], executions=1)
    assert [times(step)[:2] for step in steps_of(capture)] == [(200, 120), (100, 100)]


def test_events_without_a_partner_are_cut_at_the_ends_of_the_capture(tmp_path: Path) -> None:
    path = system_trace(
        tmp_path / "t.json",
        [nrt(RUN, "stop", 50, 1), *span(COMM, 0, 10, 7), nrt(RUN, "start", 70, 2),
         *span(COMM, 80, 100, 8)],
    )  # fmt: skip
    (capture,) = load([path])
    assert times(steps_of(capture)[0]) == (100, 80, 30, None, None)
    assert capture.notes[0] == "events without a partner, cut at the ends of the capture: 2"


def test_events_without_tracking_ids_pair_in_order(tmp_path: Path) -> None:
    path = system_trace(tmp_path / "t.json", [*span(RUN, 30, 40), *span(RUN, 0, 10)])
    (capture,) = load([path])
    assert times(steps_of(capture)[0])[:2] == (40, 20)


def test_without_collectives_communication_is_not_known(tmp_path: Path) -> None:
    (capture,) = load([system_trace(tmp_path / "t.json", span(RUN, 0, 10, 1))])
    assert times(steps_of(capture)[0]) == (10, 10, None, None, None)
    assert capture.notes == ("no cc_running events in it: communication is unknown",)
    assert total_of(capture).overlap_ratio is None


def test_without_executions_compute_is_not_known(tmp_path: Path) -> None:
    (capture,) = load([system_trace(tmp_path / "t.json", span(COMM, 0, 10, 1))], executions=1)
    assert times(steps_of(capture)[0]) == (10, None, 10, None, None)


@pytest.mark.parametrize(
    "events",
    [
        [],
        [{"event_type": "hw_notify", "phase": "start", "nc_idx": 0, "timestamp_ns": 1}],
        [{"event_type": RUN, "phase": "start", "nc_idx": None, "timestamp_ns": 1}],
        [nrt(RUN, "start", 5, 1), nrt(RUN, "stop", 5, 1)],
    ],
)
def test_no_activity(tmp_path: Path, events: list[Event]) -> None:
    with pytest.raises(RecordingError, match=r"t\.json: no device activity"):
        load([system_trace(tmp_path / "t.json", events)])


EVENTS = st.lists(
    st.tuples(
        st.sampled_from([RUN, COMM]),
        st.sampled_from(["start", "stop"]),
        st.integers(0, 100),
        st.none() | st.integers(0, 3),
        st.integers(0, 2),
    ),
    max_size=20,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(EVENTS, st.none() | st.integers(1, 3))
def test_whatever_pairs_parts_are_parts(
    tmp_path: Path, events: list[tuple[str, str, int, int | None, int]], executions: int | None
) -> None:
    path = system_trace(tmp_path / "t.json", [nrt(*event) for event in events])
    try:
        captures = load([path], executions=executions)
    except RecordingError:
        return
    for capture in captures:
        for step in steps_of(capture):
            assert step.step_seconds > 0
            for part in (step.comm_seconds, step.compute_seconds):
                assert part is None or part <= step.step_seconds
