"""The emitter, as a training process has it: what it sends, and that it never gets in the way."""

import ast
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trntop import steps
from trntop.catalog import STEPS
from trntop.core.model import Reading
from trntop.core.settings import Settings
from trntop.session.monitor import Monitor
from trntop.sources.steps import decode
from trntop.steps import Steps

SOURCE = Path(steps.__file__)


class Clock:
    """Time that a test advances."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Agent:
    """A receiver."""

    def __init__(self, path: Path) -> None:
        self.door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.door.bind(str(path))
        self.door.listen(8)
        self.door.settimeout(5)

    def admit(self) -> None:
        self.line = self.door.accept()[0]
        self.line.settimeout(5)

    def receive(self) -> dict[str, Any]:
        record: dict[str, Any] = json.loads(self.line.recv(4096))
        return record

    def close(self) -> None:
        self.door.close()
        if hasattr(self, "line"):
            self.line.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "steps.sock"


@pytest.fixture
def agent(path: Path) -> Iterator[Agent]:
    fake = Agent(path)
    yield fake
    fake.close()


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment without settings, and no emitter of an earlier test."""
    for name in ("TRNTOP_STEPS", "TRNTOP_JOB", "SLURM_JOB_NAME", "RANK", "OMPI_COMM_WORLD_RANK",
                 "SLURM_PROCID", "PMI_RANK"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(steps, "_default", None)


def records(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


class TestRecords:
    """The record of a step."""

    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        return tmp_path / "steps.jsonl"

    @pytest.fixture
    def emitter(self, file: Path, clock: Clock) -> Steps:
        return Steps(f"file:{file}", job="pretrain", rank=3, clock=clock)

    def test_a_step(self, emitter: Steps, clock: Clock, file: Path) -> None:
        with emitter.step(tokens=4096) as step:
            with emitter.compute():
                clock.now += 3
                with emitter.collective():
                    clock.now += 1
            with emitter.collective():
                clock.now += 0.5
            clock.now += 0.25
            step.report(loss=2.5, mfu=0.4)
        (record,) = records(file)
        assert abs(record.pop("time") - time.time()) < 60
        assert record == {
            "job": "pretrain", "rank": 3, "step": 1, "step_seconds": 4.75, "compute_seconds": 4.0,
            "comm_seconds": 1.5, "overlap_seconds": 1.0, "exposed_comm_seconds": 0.5,
            "tokens": 4096, "loss": 2.5, "mfu": 0.4,
        }  # fmt: skip

    def test_collectives_by_kind(self, emitter: Steps, clock: Clock, file: Path) -> None:
        with emitter.step(), emitter.compute():
            with emitter.collective("reduce_scatter", bytes=1000):
                clock.now += 1
                with emitter.collective("all_reduce", bytes=4000, ranks=8):
                    clock.now += 2
            with emitter.collective("AllReduce", bytes=2000, ranks=2):
                clock.now += 1
            with emitter.collective("send_recv", bytes=7):
                clock.now += 1
            with emitter.collective("barrier"):
                clock.now += 1
            clock.now += 4
        (record,) = records(file)
        assert record["comm_seconds"] == 6
        assert record["reduction_seconds"] == 4
        assert record["collectives"] == {
            "all_reduce": {"count": 2, "seconds": 3, "bytes": 6000, "bus_bytes": 9000},
            "reduce_scatter": {"count": 1, "seconds": 3, "bytes": 1000},
            "send_recv": {"count": 1, "seconds": 1, "bytes": 7, "bus_bytes": 7},
        }
        assert decode(json.dumps(record).encode()).columns["job_all_reduce_calls"].item() == 2

    def test_bytes_of_a_kind_are_unknown_if_those_of_one_call_are(
        self, emitter: Steps, clock: Clock, file: Path
    ) -> None:
        for _ in range(2):
            with emitter.step():
                for size in (1000, None):
                    with emitter.collective("all_gather", bytes=size, ranks=2):
                        clock.now += 1
        with emitter.step(), emitter.collective("all_gather", bytes=8, ranks=2):
            clock.now += 1
        assert [record["collectives"]["all_gather"] for record in records(file)] == [
            {"count": 2, "seconds": 2},
            {"count": 2, "seconds": 2},
            {"count": 1, "seconds": 1, "bytes": 8, "bus_bytes": 4},
        ]

    def test_a_collective_counts_in_the_step_in_which_it_ends(
        self, emitter: Steps, clock: Clock, file: Path
    ) -> None:
        section = emitter.collective("all_to_all", bytes=8)
        with emitter.step():
            clock.now += 1
            section.__enter__()
            clock.now += 1
        with emitter.step():
            clock.now += 2
            section.__exit__()
        assert [record["collectives"]["all_to_all"] for record in records(file)] == [
            {"count": 0, "seconds": 1},
            {"count": 1, "seconds": 2, "bytes": 8},
        ]

    def test_it_is_what_the_decoder_reads(self, emitter: Steps, clock: Clock, file: Path) -> None:
        with emitter.step(7, tokens=4096), emitter.collective(), emitter.compute():
            clock.now += 2
        sample = decode(file.read_bytes())
        assert sample.part == "pretrain/3"
        assert sample.problems == ()
        assert {name: column.item() for name, column in sample.columns.items()} == {
            "job_step": 7, "job_ranks": 1, "job_step_seconds": 2, "job_compute_seconds": 2,
            "job_comm_seconds": 2, "job_exposed_comm_seconds": 0, "job_tokens_per_second": 2048,
            "rank_step": 7, "rank_step_seconds": 2, "rank_compute_seconds": 2,
            "rank_comm_seconds": 2, "rank_exposed_comm_seconds": 0,
        }  # fmt: skip

    @pytest.mark.parametrize(
        ("configured", "environment", "reported"),
        [(2, "7", 2), (None, "7", 7), (None, "", None), (None, "two", None), (None, "-1", None)],
    )
    def test_the_pipeline_stage(
        self,
        configured: int | None,
        environment: str,
        reported: int | None,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setenv("TRNTOP_PIPELINE_STAGE", environment)
        path = tmp_path / "steps.jsonl"
        emitter = Steps(f"file:{path}", "job", 0, pipeline_stage=configured)
        with emitter.step():
            pass
        (record,) = records(path)
        assert record.get("pipeline_stage") == reported

    def test_what_is_not_marked_is_absent(self, emitter: Steps, clock: Clock, file: Path) -> None:
        for section in (emitter.collective(), emitter.compute()):
            with emitter.step(), section:
                clock.now += 1
        with emitter.step():
            clock.now += 1
        collective, compute, bare = records(file)
        assert collective["comm_seconds"] == 1
        assert not collective.keys() & {
            "compute_seconds", "overlap_seconds", "exposed_comm_seconds",
        }  # fmt: skip
        assert compute["compute_seconds"] == 1
        assert not compute.keys() & {"comm_seconds", "overlap_seconds", "exposed_comm_seconds"}
        assert bare.keys() == {"job", "rank", "step", "step_seconds", "time"}

    def test_a_section_that_crosses_the_end_is_cut_there(
        self, emitter: Steps, clock: Clock, file: Path
    ) -> None:
        section = emitter.collective()
        with emitter.step():
            clock.now += 1
            section.__enter__()
            clock.now += 2
        clock.now += 4
        with emitter.step():
            clock.now += 8
            section.__exit__()
            clock.now += 16
        assert [record["comm_seconds"] for record in records(file)] == [2, 8]

    def test_steps_number_themselves(self, emitter: Steps, clock: Clock, file: Path) -> None:
        for number in (None, None, 100, None, np.int64(7), "x"):
            with emitter.step(number):  # type: ignore[arg-type]
                clock.now += 1
        assert [record["step"] for record in records(file)] == [1, 2, 100, 101, 7, 8]

    def test_a_step_that_fails_is_none(self, emitter: Steps, clock: Clock, file: Path) -> None:
        with pytest.raises(ZeroDivisionError), emitter.step(), emitter.compute():
            clock.now += 1
            raise ZeroDivisionError
        with emitter.step():
            clock.now += 1
        (record,) = records(file)
        assert record["step"] == 1
        assert "compute_seconds" not in record

    def test_only_numbers_are_taken(self, emitter: Steps, file: Path) -> None:
        class Tensor:
            def __float__(self) -> float:
                raise AssertionError("the device was waited for")

        class Odd(float):
            def __float__(self) -> float:
                raise RuntimeError("odd")

        for value in (Tensor(), Odd(), "1", None, float("nan"), float("inf"), 10**400, [1], 1j):
            with emitter.step(tokens=value) as step:
                step.report(loss=value, mfu=value)
        assert not any(record.keys() & {"tokens", "loss", "mfu"} for record in records(file))

    def test_numbers_of_numpy_are_numbers(self, emitter: Steps, file: Path) -> None:
        with emitter.step(tokens=np.int32(5)) as step:
            step.report(loss=np.float32(0.5), mfu=np.float64(0.25))
        (record,) = records(file)
        assert (record["tokens"], record["loss"], record["mfu"]) == (5, 0.5, 0.25)

    def test_stages(self, emitter: Steps, file: Path) -> None:
        before = time.time()
        with emitter.stage("evaluating"), emitter.checkpoint():
            pass
        notes = records(file)
        names = ["evaluating", "checkpointing", "evaluating", "training"]
        assert [note["stage"] for note in notes] == names
        assert all(before - 1 <= note["since"] <= note["time"] for note in notes)
        assert notes[2]["since"] == notes[0]["since"]
        facts = [decode(json.dumps(note).encode()).facts["stages"] for note in notes]
        assert [stages["pretrain"][0] for stages in facts] == names

    def test_a_record_is_short_whatever_the_name(self, tmp_path: Path) -> None:
        file = tmp_path / "long"
        emitter = Steps(f"file:{file}", job="\x1b\U0001f680\udcff\n" * 1000)
        with emitter.step(tokens=1.23456789e300), emitter.stage("\U0001f680" * 1000):
            pass
        lines = file.read_bytes().splitlines()
        assert len(lines) == 3
        assert all(len(line) < 4096 for line in lines)
        assert decode(lines[2]).part.endswith("/0")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("all_reduce", "all_reduce"),
        ("allreduce_coalesced", "all_reduce"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", "reduce_scatter"),
        ("_reduce_scatter_base", "reduce_scatter"),
        ("_allgather_base", "all_gather"),
        ("all-to-all", "all_to_all"),
        ("all_to_allv", "all_to_all"),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "send_recv"),
        ("collective_permute", "send_recv"),
        ("broadcast", None),
        ("", None),
    ],
)
def test_kinds_by_the_names_of_frameworks(name: str, kind: str | None) -> None:
    assert steps.kind_of(name) == kind


@pytest.mark.parametrize(
    ("kind", "ranks", "size", "microseconds", "algbw", "busbw"),
    [
        # all_reduce_perf on 8 GPUs, kvcache-ai/Mooncake pull request 3484, in GB/s.
        ("all_reduce", 8, 33554432, 195.40, 171.72, 300.51),
        ("all_reduce", 8, 8388608, 81.16, 103.36, 180.88),
        # The guide of nccom-test, whose GB are GiB: 40.69 of them are 43.69.
        ("all_reduce", 2, 33554432, 768, 43.69, 43.69),
        # The factors of nccl-tests' doc/PERFORMANCE.md for the same size and time.
        ("reduce_scatter", 8, 33554432, 195.40, 171.72, 171.72 * 7 / 8),
        ("all_gather", 8, 33554432, 195.40, 171.72, 171.72 * 7 / 8),
        ("all_to_all", 8, 33554432, 195.40, 171.72, 171.72 * 7 / 8),
        ("send_recv", 8, 33554432, 195.40, 171.72, 171.72),
    ],
)
def test_bandwidths_are_those_of_nccl_tests(
    kind: str, ranks: int, size: int, microseconds: float, algbw: float, busbw: float
) -> None:
    clock, m = Clock(), Monitor(Settings())
    emitter = Steps("unix:/nowhere", job="j", clock=clock)
    emitter._send = lambda record: m.feed(  # type: ignore[method-assign]
        Reading("n", STEPS, 100.0, record.encode())
    )
    with emitter.step(), emitter.collective(kind, bytes=size, ranks=ranks):
        clock.now += microseconds / 1e6
    columns = m.tick(100.0).cluster.nodes["n"].frame.columns
    found = [
        columns[f"job_{kind}_{name}_bytes_per_second"].item() / 1e9 for name in ("algbw", "busbw")
    ]
    assert found == pytest.approx([algbw, busbw], rel=2e-4)
    assert columns[f"job_{kind}_share_ratio"].item() == 1
    reduction = kind in ("all_reduce", "reduce_scatter")
    assert columns["job_reduction_share_ratio"].item() == reduction


EVENTS = ["open compute", "open collective", "close compute", "close collective", "step"]


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(EVENTS)), max_size=60))
def test_intervals_are_those_of_a_raster(events: list[tuple[int, str]]) -> None:
    """Any nesting and overlap, against a count of each unit of time."""
    clock = Clock()
    emitter = Steps("unix:/nowhere", clock=clock)
    sent: list[str] = []
    emitter._send = sent.append  # type: ignore[method-assign]
    sections = {"compute": emitter.compute(), "collective": emitter.collective()}
    count = dict.fromkeys(sections, 0)
    raster: list[tuple[bool, bool]] = []
    expected = []
    step = emitter.step().__enter__()
    for wait, event in [*events, (1, "step")]:
        clock.now += wait
        raster += [(count["compute"] > 0, count["collective"] > 0)] * wait
        what, _, kind = event.partition(" ")
        if what == "open":
            sections[kind].__enter__()
            count[kind] += 1
        elif what == "close" and count[kind]:
            sections[kind].__exit__()
            count[kind] -= 1
        elif what == "step":
            step.__exit__(None, None, None)
            step = emitter.step().__enter__()
            compute, comm = (sum(unit[index] for unit in raster) for index in (0, 1))
            both = sum(unit == (True, True) for unit in raster)
            split = {"overlap_seconds": both, "exposed_comm_seconds": comm - both}
            expected.append(
                {"step_seconds": len(raster)}
                | ({"compute_seconds": compute} if compute else {})
                | ({"comm_seconds": comm} if comm else {})
                | (split if compute and comm else {})
            )
            raster = []
    seconds = [
        {key: value for key, value in json.loads(record).items() if key.endswith("seconds")}
        for record in sent
    ]
    assert seconds == expected


def test_sections_of_several_threads_are_united() -> None:
    emitter = Steps("unix:/nowhere", clock=(clock := Clock()))
    sent: list[str] = []
    emitter._send = sent.append  # type: ignore[method-assign]
    gate = threading.Barrier(5, timeout=5)

    def work() -> None:
        with emitter.collective():
            gate.wait()  # all are inside
            gate.wait()  # time has passed
        for _ in range(500):
            with emitter.collective(), emitter.compute():
                pass

    threads = [threading.Thread(target=work) for _ in range(4)]
    with emitter.step():
        for thread in threads:
            thread.start()
        gate.wait()
        clock.now += 3
        gate.wait()
        for thread in threads:
            thread.join()
        clock.now += 1
    record = json.loads(sent[0])
    assert record["comm_seconds"] == 3
    assert not emitter._meter._state


def test_sections_without_a_step_take_no_memory() -> None:
    emitter = Steps("unix:/nowhere", clock=Clock())
    for _ in range(steps.MAX_EVENTS):
        with emitter.compute(), emitter.collective("all_reduce"):
            pass
    assert len(emitter._meter.events) <= steps.MAX_EVENTS
    assert len(emitter._meter.calls) <= steps.MAX_EVENTS


class TestSocket:
    """No receiver, a slow one, one that dies."""

    def test_a_record_arrives(self, agent: Agent, path: Path) -> None:
        emitter = Steps(f"unix:{path}", job="j", rank=1)
        with emitter.step():
            pass
        agent.admit()
        assert agent.receive()["step"] == 1
        assert emitter.lost == 0
        emitter.close()
        assert agent.line.recv(10) == b""

    def test_without_a_listener(self, path: Path) -> None:
        emitter = Steps(f"unix:{path}")
        for _ in range(3):
            with emitter.step():
                pass
        assert emitter.lost == 3

    def test_an_agent_that_starts_later_is_found(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        emitter = Steps(f"unix:{path}")
        with emitter.step():
            pass
        agent = Agent(path)
        with emitter.step():  # too early for another search
            pass
        monkeypatch.setattr(steps, "RETRY", 0.0)
        emitter.close()
        with emitter.step():
            pass
        agent.admit()
        assert agent.receive()["step"] == 3
        assert emitter.lost == 2
        # It dies, and another one takes its place.
        agent.close()
        with emitter.step():
            pass
        path.unlink()
        agent = Agent(path)
        with emitter.step():
            pass
        agent.admit()
        assert agent.receive()["step"] == 5
        assert emitter.lost == 3
        agent.close()

    def test_searches_for_an_agent_are_rare(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        searches = []

        def refuse(*_: object) -> None:
            searches.append(1)
            raise OSError

        monkeypatch.setattr(steps.socket, "socket", refuse)
        emitter = Steps(f"unix:{path}")
        for _ in range(100):
            with emitter.step():
                pass
        assert len(searches) == 2  # one search, for an agent and for a dashboard

    def test_a_blocked_receiver_costs_records_not_time(self, agent: Agent, path: Path) -> None:
        emitter = Steps(f"unix:{path}")
        for _ in range(2000):
            with emitter.step():
                pass
        assert 0 < emitter.lost < 2000
        agent.admit()
        while agent.receive()["step"] < 2000 - emitter.lost:
            pass
        with emitter.step():
            pass
        assert agent.receive()["step"] == 2001

    @pytest.mark.parametrize(
        "target",
        [
            "unix:/" + 200 * "x",
            "unix:a\0b",
            "unix:/dev/null",
            "file:a\0b",
            "file:/nowhere/steps",
            "file:/",
        ],
    )
    def test_a_path_that_cannot_exist(self, target: str) -> None:
        emitter = Steps(target)
        with emitter.step(), emitter.checkpoint():
            pass
        assert emitter.lost == 3

    def test_the_first_candidate_that_listens_is_taken(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first, second = tmp_path / "none.sock", tmp_path / "some.sock"
        monkeypatch.setattr(steps, "sockets", lambda: [str(first), str(second)])
        agent = Agent(second)
        with steps.step(5):
            pass
        agent.admit()
        assert agent.receive()["step"] == 5
        steps.default().close()
        agent.close()


class TestObserver:
    """A dashboard, which takes records while there is no agent."""

    def test_an_agent_is_preferred(self, path: Path, agent: Agent) -> None:
        observer = Agent(path.with_name("observer.sock"))
        emitter = Steps(f"unix:{path}")
        with emitter.step(7):
            pass
        agent.admit()
        assert agent.receive()["step"] == 7
        observer.close()

    def test_an_agent_elsewhere_is_preferred(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folders = [tmp_path / "run", tmp_path / "tmp"]
        for folder in folders:
            folder.mkdir()
        monkeypatch.setattr(
            steps, "sockets", lambda: [f"{folder}/steps.sock" for folder in folders]
        )
        observer, agent = Agent(folders[0] / "observer.sock"), Agent(folders[1] / "steps.sock")
        with steps.step(7):
            pass
        agent.admit()
        assert agent.receive()["step"] == 7
        steps.default().close()
        observer.close()
        agent.close()

    def test_it_makes_way_for_an_agent(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(steps, "RETRY", 0)
        observer = Agent(path.with_name("observer.sock"))
        emitter = Steps(f"unix:{path}")
        with emitter.step():
            pass
        observer.admit()
        assert observer.receive()["step"] == 1
        agent = Agent(path)
        observer.close()
        for _ in range(2):
            with emitter.step():
                pass
        agent.admit()
        assert agent.receive()["step"] == 3
        assert emitter.lost == 1
        agent.close()

    def test_a_path_without_a_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        observer = Agent(tmp_path / "observer.sock")
        emitter = Steps("unix:steps.sock")
        with emitter.step(7):
            pass
        observer.admit()
        assert observer.receive()["step"] == 7
        observer.close()


def test_where_an_agent_may_listen() -> None:
    assert steps.sockets({}) == ["/run/trntop/steps.sock"]
    assert steps.sockets({"XDG_RUNTIME_DIR": "/run/user/7"}) == [
        "/run/trntop/steps.sock", "/run/user/7/trntop/steps.sock",
    ]  # fmt: skip


LISTEN = """
import os, socket, sys
os.setuid(4711)
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o666)
listener.listen()
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can start processes of other users")
@pytest.mark.parametrize(
    ("owner", "mode", "gets_records"),
    [(0, 0o1777, False), (4712, 0o777, False), (4711, 0o775, False), (4711, 0o755, True)],
    ids=["public", "foreign", "group", "own"],
)
def test_fault_31_a_listener_of_another_user_gets_no_records(
    caplog: pytest.LogCaptureFixture, owner: int, mode: int, gets_records: bool
) -> None:
    """It gets records only if no other user can put a socket into its directory."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chown(folder, owner, owner)
        Path(folder).chmod(mode)
        path = f"{folder}/steps.sock"
        argv = [sys.executable, "-c", LISTEN, path]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as receiver:
            assert receiver.stdout is not None
            assert receiver.stdout.readline() == b"ready\n"
            emitter = Steps(f"unix:{path}")
            for _ in range(2):
                with emitter.step():
                    pass
            receiver.communicate()
    assert emitter.lost == (0 if gets_records else 2)
    warned = "another user (4711) listens there: it gets no records"
    assert (warned in caplog.text) is not gets_records


class TestFile:
    """Where no agent is near."""

    def test_each_rank_has_its_own(self, tmp_path: Path) -> None:
        for rank in (0, 11):
            emitter = Steps(f"file:{tmp_path}/steps-{{rank}}.jsonl", rank=rank)
            with emitter.step(), emitter.step():
                pass
        assert sorted(file.name for file in tmp_path.iterdir()) == [
            "steps-0.jsonl", "steps-11.jsonl",
        ]  # fmt: skip
        assert [record["rank"] for record in records(tmp_path / "steps-11.jsonl")] == [11, 11]

    def test_a_full_disk_is_no_reason_to_stop(self) -> None:
        emitter = Steps("file:/dev/full")
        for _ in range(3):
            with emitter.step():
                pass
        assert emitter.lost == 3

    def test_after_half_a_line_comes_a_new_one(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = tmp_path / "steps"
        emitter = Steps(f"file:{file}")
        write = os.write
        with monkeypatch.context() as full:
            full.setattr(steps.os, "write", lambda where, data: write(where, data[:20]))
            with emitter.step():
                pass
        with emitter.step():
            pass
        half, whole = file.read_text().splitlines()
        assert len(half) == 20
        assert json.loads(whole)["step"] == 2
        assert emitter.lost == 1

    def test_an_unread_pipe_does_not_block(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        emitter = Steps(f"file:{tmp_path}/pipe")
        with emitter.step():
            pass
        assert emitter.lost == 1


class TestEnvironment:
    """Who this process is."""

    @pytest.mark.parametrize(
        ("environ", "job", "rank"),
        [
            ({}, "job", 0),
            ({"SLURM_JOB_NAME": "s", "SLURM_PROCID": "5", "PMI_RANK": "6"}, "s", 5),
            ({"TRNTOP_JOB": "t", "SLURM_JOB_NAME": "s", "RANK": "3", "SLURM_PROCID": "5"}, "t", 3),
            ({"RANK": "", "OMPI_COMM_WORLD_RANK": "x", "PMI_RANK": "9"}, "job", 9),
        ],
    )
    def test_job_and_rank(
        self, environ: dict[str, str], job: str, rank: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        emitter = Steps("off")
        assert (emitter.job, emitter.rank) == (job, rank)

    def test_where_records_go(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TRNTOP_STEPS", f"file:{tmp_path}/{{rank}}")
        monkeypatch.setenv("RANK", "4")
        with steps.step(tokens=1) as step:
            with steps.compute():
                pass
            with steps.collective():
                pass
            step.report(loss=1.0)
        with steps.checkpoint(), steps.stage("evaluating"):
            pass
        assert len(records(tmp_path / "4")) == 5
        assert steps.lost() == 0

    def test_off(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TRNTOP_STEPS", "off")
        with steps.step():
            pass
        assert steps.lost() == 0

    def test_a_wrong_target_is_reported_once_and_stops_nothing(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setenv("TRNTOP_STEPS", "tcp:somewhere")
        for _ in range(2):
            with steps.step():
                pass
        assert [record.getMessage() for record in caplog.records] == [
            "TRNTOP_STEPS: 'tcp:somewhere' is not valid; use unix:PATH, file:PATH or off;"
            " no step telemetry"
        ]
        with pytest.raises(ValueError, match="is not valid"):
            Steps("tcp:somewhere")


def run(code: str, *options: str, **environ: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run(
        [sys.executable, *options, "-c", code], env=os.environ | environ, capture_output=True,
        text=True, check=True, timeout=30, cwd=SOURCE.parents[1],
    )  # fmt: skip
    return done.stdout.strip()


def test_a_child_has_its_own_rank_and_connection(agent: Agent, path: Path) -> None:
    """Also when it is forked in the middle of a step, while another thread holds the lock."""
    code = """
import os, threading
from trntop import steps
explicit = steps.Steps(os.environ["TRNTOP_STEPS"], job="explicit", rank=7)
with steps.step(1): pass
with explicit.step(1): pass
held = threading.Event()
def hold():
    with steps.default()._meter._lock, explicit._meter._lock:
        held.set()
        threading.Event().wait()
threading.Thread(target=hold, daemon=True).start()
held.wait()
if os.fork() == 0:
    os.environ["RANK"] = "1"
    with steps.step(2): pass
    with explicit.step(2): pass
    os._exit(0)
print(os.wait()[1])
os._exit(0)
"""
    assert run(code, TRNTOP_STEPS=f"unix:{path}", TRNTOP_JOB="j", RANK="0") == "0"
    received = []
    for _ in range(4):
        agent.admit()
        record = agent.receive()
        received.append((record["job"], record["rank"], record["step"]))
        assert agent.line.recv(10) == b""
        agent.line.close()
    assert sorted(received) == [("explicit", 7, 1), ("explicit", 7, 2), ("j", 0, 1), ("j", 1, 2)]


def test_it_needs_nothing_of_trntop(tmp_path: Path) -> None:
    names = "print(sorted(name for name in sys.modules if name.split('.')[0] == 'trntop'))"
    assert run(f"import sys, trntop.steps; {names}") == "['trntop', 'trntop.steps']"
    # A copy next to the training script, without any package that is not Python's.
    (tmp_path / "steps.py").write_bytes(SOURCE.read_bytes())
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import steps; {names}"
    assert run(f"{code}; steps.step().__enter__()", "-S", "-I") == "[]"


def test_it_is_written_for_older_interpreters() -> None:
    """Images for training carry Python 3.9 and later."""
    ast.parse(SOURCE.read_text(), feature_version=(3, 9))
