import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import captures
from tests.captures import needs_captures
from tests.collectors.traces.synthetic import (
    BASE,
    Event,
    collective,
    event,
    gemm,
    kineto,
    nccl,
    step,
)
from trntop.collectors.traces import Capture, Step, load, steps_of, total_of
from trntop.collectors.traces.records import Collective
from trntop.core.errors import RecordingError

MICRO = 1e-6


def the(path: Path) -> Capture:
    (capture,) = load([path])
    return capture


def times(step: Step) -> tuple[int | None, ...]:
    """Whole microseconds of step, compute, comm, overlap, exposed."""
    seconds = (
        step.step_seconds, step.compute_seconds, step.comm_seconds, step.overlap_seconds,
        step.exposed_comm_seconds,
    )  # fmt: skip
    return tuple(None if each is None else round(each / MICRO) for each in seconds)


@needs_captures
def test_the_public_capture() -> None:
    capture = the(captures.TORCH_PROFILER)
    assert (capture.node, capture.rank, capture.notes) == ("rank-1", 1, ())
    first, second = steps_of(capture)
    assert (first.step, second.step) == (551, 552)
    assert times(first) == (607904, 135548, 168027, 33691, 134336)
    assert times(second) == (630639, 136425, 211026, 41839, 169187)
    assert first.time == pytest.approx(1682725898.687388)
    total = total_of(capture)
    assert (total.steps, total.outside_seconds) == (2, 0)
    assert total.overlap_ratio == pytest.approx(75530 / 379053)


def test_comm_and_compute_are_unions_and_exposed_is_what_compute_does_not_cover(
    tmp_path: Path,
) -> None:
    capture = the(
        kineto(
            tmp_path / "trace.json",
            [
                step(7, 0, 1000),
                gemm(100, 100), gemm(150, 100), event("relu", 400, 50, tid=8),
                nccl(200, 100), nccl(220, 30), nccl(600, 50),
            ],
        )
    )  # fmt: skip
    (only,) = steps_of(capture)
    assert times(only) == (1000, 200, 150, 50, 100)
    assert only.step == 7
    assert only.time == pytest.approx(BASE / 1e9 + 1000 * MICRO)


def test_idle_and_non_compute_time_and_the_overlap_within_steps(tmp_path: Path) -> None:
    trace = [
        step(1, 0, 500),
        gemm(0, 100), nccl(50, 100), event("Memcpy DtoD", 200, 50, "gpu_memcpy"),
        nccl(600, 100),
    ]  # fmt: skip
    total = total_of(the(kineto(tmp_path / "trace.json", trace)))
    assert total.seconds == pytest.approx(700 * MICRO)
    assert total.idle_seconds == pytest.approx(400 * MICRO)
    assert total.non_compute_seconds == pytest.approx(200 * MICRO)
    assert total.overlap_ratio == pytest.approx(0.25)
    assert total.steps_overlap_ratio == pytest.approx(0.5)


def test_without_steps_there_is_no_overlap_within_them(tmp_path: Path) -> None:
    total = total_of(the(kineto(tmp_path / "trace.json", [gemm(0, 100), nccl(50, 100)])))
    assert total.steps_overlap_ratio is None


def test_a_trace_of_another_accelerator_names_its_categories(tmp_path: Path) -> None:
    """Those of Kineto's MTIA (libkineto ActivityType.cpp)."""
    events = [event("run", at, 5, "mtia_ccp_events") for at in range(3)]
    path = kineto(tmp_path / "t.json", [*events, event("aten::mm", 0, 5, "cpu_op")])
    with pytest.raises(RecordingError, match=r"categories: mtia_ccp_events \(3\), cpu_op \(1\)"):
        load([path])


def test_collectives_by_kind(tmp_path: Path) -> None:
    capture = the(
        kineto(
            tmp_path / "trace.json",
            [
                step(1, 0, 1000), step(2, 1000, 1000),
                gemm(0, 100),
                collective(100, 100, "_reduce_scatter_base", (8000, 1000)),
                collective(150, 150, "allreduce", (500, 500), dtype="Float"),
                collective(400, 50, "all_to_allv", (100, 900), dtype="Long", ranks=4),
                collective(500, 10, "_allgather_base", (10, 80), dtype="Float8_e4m3fn"),
                collective(600, 10, "broadcast", (10, 10), "ncclDevKernel_Broadcast_RING_LL"),
                event("cc_collective_permute", 700, 20),
                nccl(900, 200),
            ],
        )
    )  # fmt: skip
    first, second = steps_of(capture)
    assert first.reduction_seconds == pytest.approx(300 * MICRO)
    assert first.collectives == {
        # The kernel at the end runs in both steps and counts in the second.
        "all_reduce": Collective(
            count=1, seconds=250 / 1e6, bytes=2000, bus_bytes=2000 * 2 * 7 / 8
        ),
        "reduce_scatter": Collective(
            count=1, seconds=100 / 1e6, bytes=16000, bus_bytes=16000 * 7 / 8
        ),
        "all_to_all": Collective(count=1, seconds=50 / 1e6, bytes=7200, bus_bytes=5400),
        "all_gather": Collective(count=1, seconds=10 / 1e6, bytes=80, bus_bytes=70),
        "send_recv": Collective(count=1, seconds=20 / 1e6),
    }
    assert second.collectives == {"all_reduce": Collective(count=1, seconds=100 / 1e6)}
    total = total_of(capture)
    assert total.reduction_seconds == pytest.approx(400 * MICRO)
    assert total.collectives is not None
    assert total.collectives["all_reduce"] == Collective(count=2, seconds=350 / 1e6)


def test_arguments_that_are_damaged_leave_the_name_of_the_kernel(tmp_path: Path) -> None:
    damaged = collective(0, 10, "allreduce", (5, 5), "ncclDevKernel_AllGather_RING_LL")
    damaged["args"]["Group size"] = [8]
    capture = the(kineto(tmp_path / "trace.json", [step(1, 0, 10), damaged]))
    assert steps_of(capture)[0].collectives == {"all_gather": Collective(count=1, seconds=1e-5)}


def test_copies_memsets_and_synchronisation_are_neither(tmp_path: Path) -> None:
    capture = the(
        kineto(
            tmp_path / "trace.json",
            [
                step(1, 0, 100),
                gemm(0, 10),
                event("Memcpy HtoD (Pinned -> Device)", 20, 10, "gpu_memcpy"),
                event("Memset (Device)", 30, 10, "gpu_memset"),
                event("Memset32Kernel", 40, 10),
                event("Context Sync", 50, 10),
                event("nccl:all_reduce", 60, 10, "gpu_user_annotation"),
            ],
        )
    )
    assert times(steps_of(capture)[0])[1:] == (10, 0, 0, 0)


def test_collectives_of_neuron_are_communication(tmp_path: Path) -> None:
    events = [step(1, 0, 100), gemm(0, 10), event("cc_all_gather", 50, 20)]
    assert times(steps_of(the(kineto(tmp_path / "t.json", events)))[0])[2] == 20


def test_a_kernel_over_the_edge_counts_on_both_sides_and_the_total_has_what_lies_outside(
    tmp_path: Path,
) -> None:
    capture = the(
        kineto(
            tmp_path / "trace.json",
            [step(1, 100, 100), step(2, 210, 100), gemm(50, 70), nccl(190, 40), gemm(400, 5)],
        )
    )
    first, second = steps_of(capture)
    assert times(first) == (100, 20, 10, 0, 10)
    assert times(second) == (100, 0, 20, 0, 20)
    total = total_of(capture)
    assert total.seconds == pytest.approx(355 * MICRO)
    assert total.comm_seconds == pytest.approx(40 * MICRO)
    assert total.outside_seconds == pytest.approx((50 + 10 + 5) * MICRO)


def test_marks_of_the_device_go_before_those_of_the_host(tmp_path: Path) -> None:
    mark = "gpu_user_annotation"
    capture = the(
        kineto(
            tmp_path / "trace.json",
            [
                step(1, 0, 90), step(2, 90, 90), step(9, 180, 90),
                step(1, 50, 80, mark, 7), step(1, 60, 110, mark, 20),
                step(2, 160, 80, mark, 7),
                step(9, 300, 50, mark, 7),
                gemm(50, 80), gemm(160, 80), gemm(300, 50), nccl(60, 110),
            ],
        )
    )  # fmt: skip
    found, two, nine = steps_of(capture)
    assert times(found) == (110, 80, 100, 70, 30)
    assert times(two) == (80, 80, 10, 10, 0), "steps 3 to 8 are missing: it lasts its own time"
    assert times(nine)[0] == 50


def test_a_trace_without_marks_is_one_step_without_a_number(tmp_path: Path) -> None:
    capture = the(kineto(tmp_path / "trace.json", [gemm(100, 100), nccl(150, 100)]))
    (only,) = steps_of(capture)
    assert only.step is None
    assert times(only) == (150, 100, 100, 50, 50)
    assert total_of(capture).steps == 0


def test_old_traces_have_unix_times_and_other_names_of_categories(tmp_path: Path) -> None:
    start = BASE / 1e3
    events = [
        step(4, start, 1000, "Operator"), event("gemm", start + 10, 100, "Kernel"),
        event("Memcpy", start + 200, 10, "Memcpy"),
    ]  # fmt: skip
    capture = the(kineto(tmp_path / "t.json", events, baseTimeNanoseconds=None))
    (only,) = steps_of(capture)
    assert times(only)[:2] == (1000, 100)
    assert only.time == pytest.approx(BASE / 1e9 + 1e-3)


def test_a_trace_without_a_date_ends_when_its_file_was_written(tmp_path: Path) -> None:
    path = kineto(tmp_path / "t.json", [step(1, 0, 50), gemm(0, 100)], baseTimeNanoseconds=None)
    capture = the(path)
    assert "no date" in capture.notes[0]
    assert steps_of(capture)[0].time == pytest.approx(path.stat().st_mtime - 50 * MICRO)


@pytest.mark.parametrize(
    ("name", "distributed", "rank"),
    [
        ("trace_rank_5.json", {"rank": 3}, 3),
        ("trace_rank_5.json", None, 5),
        ("rank12.json", {"rank": -1}, 12),
        ("rank-7.trace.json", {"rank": "x"}, 7),
        ("trace.json", None, 0),
    ],
)
def test_ranks(tmp_path: Path, name: str, distributed: object, rank: int) -> None:
    path = kineto(tmp_path / name, [gemm(0, 1)], distributedInfo=distributed)
    assert the(path).rank == rank
    assert the(path).node == f"rank-{rank}"


def test_files_that_name_no_rank_are_ranks_in_their_order(tmp_path: Path) -> None:
    paths = [kineto(tmp_path / f"{n}.json", [gemm(0, 1)], distributedInfo=None) for n in "abc"]
    assert [capture.rank for capture in load(paths)] == [0, 1, 2]


def test_the_node_is_the_host_that_the_file_names(tmp_path: Path) -> None:
    path = tmp_path / "trn-003_4045.1763650000123.pt.trace.json"
    assert the(kineto(path, [gemm(0, 1)])).node == "trn-003"
    assert the(kineto(path, [gemm(0, 1)], hostname="trn\x1b-004")).node == "trn\ufffd-004"


DAMAGED: list[Event] = [
    {"ph": "X", "cat": "kernel", "name": "no time"},
    event("backwards", 10, -5),
    event("absurd", 1e30, 5),
    {"ph": "X", "cat": "kernel", "name": "text", "ts": "12", "dur": 1},
    {"ph": "X", "cat": "kernel", "name": 12, "ts": 1, "dur": 1},
    {"ph": "B", "cat": "kernel", "name": "begun", "ts": 1},
    step(2, 5, -1),
]


def test_damaged_events_are_counted_and_spare_the_rest(tmp_path: Path) -> None:
    path = kineto(tmp_path / "t.json", [step(1, 0, 100), gemm(0, 10), *DAMAGED, 5, None])
    capture = the(path)
    assert times(steps_of(capture)[0])[:2] == (100, 10)
    assert capture.notes == (f"damaged events skipped: {len(DAMAGED) + 2}",)


def test_bare_infinities_are_read(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    text = json.dumps({"traceEvents": [gemm(0, 10), {**gemm(20, 10), "args": {"GB/s": "?"}}]})
    path.write_text(text.replace('"?"', "inf"))
    assert total_of(the(path)).compute_seconds == pytest.approx(20 * MICRO)


def test_a_bare_list_of_events_is_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text("\n " + json.dumps([gemm(0, 10)]))
    assert total_of(the(path)).compute_seconds == pytest.approx(10 * MICRO)


@pytest.mark.parametrize(
    "events", [[], [event("aten::mm", 0, 5, "cpu_op")], [event("Memset", 0, 5, "gpu_memset")]]
)
def test_no_kernel_is_no_device_activity(tmp_path: Path, events: list[Event]) -> None:
    path = kineto(tmp_path / "t.json", events)
    with pytest.raises(RecordingError, match=r"t\.json: no device activity"):
        load([path])


KERNELS = st.lists(
    st.tuples(st.booleans(), st.integers(0, 200), st.integers(0, 80)), min_size=1, max_size=25
)
MARKS = st.lists(st.tuples(st.integers(0, 200), st.integers(1, 60)), max_size=5)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(KERNELS, MARKS)
def test_parts_of_steps_agree_with_a_raster(
    tmp_path: Path, kernels: list[tuple[bool, int, int]], marks: list[tuple[int, int]]
) -> None:
    path = kineto(
        tmp_path / "t.json",
        [
            *(step(number, *mark) for number, mark in enumerate(marks)),
            *((nccl if comm else gemm)(start, dur) for comm, start, dur in kernels),
        ],
    )
    capture = the(path)
    cells = [
        {cell for comm, start, dur in kernels if comm is kind for cell in range(start, start + dur)}
        for kind in (False, True)
    ]
    origin = min(start for _, start, _ in kernels)
    for found, window in zip(steps_of(capture), capture.windows, strict=bool(marks)):
        inside = set(range(window.start // 1000 + origin, window.stop // 1000 + origin))
        compute, comm = (inside & kind for kind in cells)
        expected = len(compute), len(comm), len(compute & comm), len(comm - compute)
        assert times(found)[1:] == expected
    total = total_of(capture)
    assert round((total.exposed_comm_seconds or 0) / MICRO) == len(cells[1] - cells[0])
    inside = {
        cell
        for window in capture.windows
        for cell in range(window.start // 1000 + origin, window.stop // 1000 + origin)
    }
    if marks:
        outside = len((cells[0] | cells[1]) - inside)
        assert round(total.outside_seconds / MICRO) == outside


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["ph", "cat", "name", "ts", "dur", "rank", "traceEvents", "events"]),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(JSON, max_size=6), JSON, JSON)
def test_whatever_the_events_are_there_is_a_capture_or_one_sentence(
    tmp_path: Path, events: list[object], distributed: object, base: object
) -> None:
    path = kineto(
        tmp_path / "t.json",
        [gemm(0, 1), *events],
        distributedInfo=distributed,
        baseTimeNanoseconds=base,
    )
    capture = the(path)
    assert total_of(capture).compute_seconds is not None
    assert all(found.step_seconds > 0 for found in steps_of(capture))
