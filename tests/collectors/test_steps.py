"""The collector of step telemetry, with real sockets, files and training processes."""

# ruff: noqa: ASYNC240 (nothing else runs on the loop of a test)

import asyncio
import contextlib
import json
import os
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.collectors.recording_sink import RecordingSink, running
from trntop.catalog import STEPS
from trntop.collectors import steps as module
from trntop.collectors.steps import (
    SocketUnavailableError,
    StepsCollector,
    StepsSocket,
    examine,
    open_steps_socket,
)
from trntop.core.model import State
from trntop.sources.steps import decode
from trntop.steps import Steps

LOOP = Path(__file__).parent.parent / "fakes" / "training_loop.py"
ROOT = LOOP.parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "trntop" / "steps.sock"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "READ_INTERVAL", 0.01)


@pytest.fixture
def sink() -> RecordingSink:
    return RecordingSink()


@pytest.fixture
def sender(path: Path) -> Iterator[socket.socket]:
    """A connection that is made by `connect`."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        yield client


def parts(sink: RecordingSink) -> Counter[str]:
    return Counter(decode(reading.data).part for reading in sink.readings)


async def wait_for(sink: RecordingSink, count: int) -> None:
    await sink.until(lambda: len(sink.readings) >= count)


async def test_records_arrive(sink: RecordingSink, path: Path) -> None:
    async with running(StepsCollector("n", path), sink):
        await sink.until(lambda: sink.statuses)
        for rank in range(3):
            emitter = Steps(f"unix:{path}", job="j", rank=rank)
            with emitter.step(tokens=1), emitter.checkpoint():
                pass
            assert emitter.lost == 0
        await wait_for(sink, 9)
    assert parts(sink) == {f"j/{rank}{end}": 2 if end else 1 for rank in range(3)
                           for end in ("", "/stage")}  # fmt: skip
    assert {(reading.node, reading.source, reading.simulated) for reading in sink.readings} == {
        ("n", STEPS, False)
    }
    assert [(status.state, status.reason) for status in sink.statuses[:1]] == [
        (State.STARTING, f"listening on {path}; no training process reports yet")
    ]
    assert not path.exists()


async def test_everybody_on_the_machine_may_send(sink: RecordingSink, path: Path) -> None:
    mask = os.umask(0o077)
    try:
        async with running(StepsCollector("n", path), sink):
            await sink.until(lambda: sink.statuses)
            assert stat.S_IMODE(path.stat().st_mode) == 0o666
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o755
    finally:
        os.umask(mask)


async def test_what_a_dead_agent_left_is_replaced(sink: RecordingSink, path: Path) -> None:
    dead = StepsSocket(path)
    dead.socket.close()
    assert path.exists()
    async with running(StepsCollector("n", path), sink):
        await sink.until(lambda: sink.statuses)
        assert sink.statuses[0].state is State.STARTING


async def test_a_second_agent_reports_it_and_takes_over_later(
    sink: RecordingSink, path: Path
) -> None:
    first = StepsSocket(path)
    async with running(StepsCollector("n", path, retry_interval=0.01), sink):
        await sink.until(lambda: sink.reasons(State.DOWN))
        assert sink.reasons(State.DOWN)[0] == (
            f"another agent listens on {path}; end it, or set collect.steps_socket here and"
            " TRNTOP_STEPS in the training job"
        )
        assert first.is_current
        first.close()
        await sink.until(lambda: sink.reasons(State.STARTING))


class TestObserver:
    """Next to an agent, or instead of it while there is none."""

    async def test_it_makes_way_for_an_agent(
        self, sink: RecordingSink, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("trntop.steps.RETRY", 0)
        emitter, agents = Steps(f"unix:{path}"), RecordingSink()
        other_path = path.with_name("observer.sock")

        async def train(to: RecordingSink) -> None:
            async with asyncio.timeout(5):
                while not to.readings:
                    with emitter.step():
                        pass
                    await asyncio.sleep(0.01)

        async with running(StepsCollector("n", path, observer=True, retry_interval=0.01), sink):
            await train(sink)
            async with running(StepsCollector("n", path), agents):
                await sink.until(lambda: sink.reasons(State.DOWN))
                assert sink.reasons(State.DOWN)[0] == (
                    f"an agent receives step telemetry at {path}; see its page or recording"
                )
                assert not other_path.exists()
                await train(agents)
            sink.readings.clear()
            await train(sink)
            assert other_path.exists()
            assert stat.S_IMODE(other_path.stat().st_mode) == 0o666
        assert not other_path.exists()
        assert agents.reasons(State.DOWN) == []

    async def test_an_agent_at_another_path_counts(
        self, sink: RecordingSink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        candidates = [tmp_path / "run" / "steps.sock", tmp_path / "tmp" / "steps.sock"]
        monkeypatch.setattr(module, "sockets", lambda: list(map(str, candidates)))
        agent = StepsSocket(candidates[1])
        async with running(StepsCollector("n", observer=True), sink):
            await sink.until(lambda: sink.reasons(State.DOWN))
            assert str(candidates[1]) in sink.statuses[-1].reason
        agent.close()

    async def test_the_second_agent_reports_it(self, sink: RecordingSink, path: Path) -> None:
        other_path = path.with_name("observer.sock")
        first = open_steps_socket(path, observer=True)
        assert first.path == other_path
        async with running(StepsCollector("n", path, observer=True, retry_interval=0.01), sink):
            await sink.until(lambda: sink.reasons(State.DOWN))
            assert (
                sink.statuses[-1].reason
                == f"another dashboard receives step telemetry at {other_path}"
            )
            first.close()
            await sink.until(lambda: sink.reasons(State.STARTING))

    async def test_it_survives_what_is_no_socket(self, sink: RecordingSink, path: Path) -> None:
        async with running(StepsCollector("n", path, observer=True, retry_interval=0.01), sink):
            await sink.until(lambda: sink.statuses)
            path.write_text("precious")
            await sink.until(lambda: sink.reasons(State.DOWN))
            assert "is not a socket" in sink.statuses[-1].reason
            path.unlink()
            await sink.until(lambda: sink.statuses[-1].state is State.STARTING)

    def test_an_agent_that_is_behind_is_one(self, path: Path) -> None:
        agent = StepsSocket(path)
        agent.socket.listen(0)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as waiting:
            waiting.connect(str(path))
            with pytest.raises(SocketUnavailableError, match="an agent receives step telemetry"):
                open_steps_socket(path, observer=True)
        agent.close()


async def test_a_socket_that_was_removed_is_made_again(sink: RecordingSink, path: Path) -> None:
    async with running(StepsCollector("n", path, retry_interval=0.01), sink):
        await sink.until(lambda: sink.statuses)
        path.unlink()
        await sink.until(path.exists)
        emitter = Steps(f"unix:{path}")
        with emitter.step():
            pass
        await wait_for(sink, 1)
    assert not path.exists()


async def test_a_foreign_socket_is_left_alone(sink: RecordingSink, path: Path) -> None:
    async with running(StepsCollector("n", path), sink):
        await sink.until(lambda: sink.statuses)
        path.unlink()
        path.write_text("another's")
    assert path.read_text() == "another's"


class TestSocketPaths:
    """Where the socket may be."""

    def test_a_file_is_not_removed(self, path: Path) -> None:
        path.parent.mkdir()
        path.write_text("precious")
        with pytest.raises(SocketUnavailableError, match="is not a socket; set collect"):
            open_steps_socket(path)
        assert path.read_text() == "precious"

    def test_a_socket_of_another_kind_is_not_removed(self, path: Path) -> None:
        path.parent.mkdir()
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(str(path))
            other.listen()
            with pytest.raises(SocketUnavailableError, match="cannot listen on "):
                open_steps_socket(path)
        assert path.exists()

    def test_a_path_that_cannot_exist_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(
            SocketUnavailableError, match=r"No such file or directory\); set collect"
        ):
            open_steps_socket(tmp_path / "a" / "b" / "steps.sock")
        with pytest.raises(SocketUnavailableError, match=r"path too long\); set collect"):
            open_steps_socket(tmp_path / (120 * "x"))

    def test_the_first_candidate_that_can_be_had(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        candidates = [tmp_path / "none" / "deep" / "steps.sock", tmp_path / "steps.sock"]
        monkeypatch.setattr(module, "sockets", lambda: list(map(str, candidates)))
        box = open_steps_socket(None)
        assert box.path == candidates[1]
        # A live agent at a candidate is where the training processes send: not the next one.
        with pytest.raises(SocketUnavailableError, match="another agent"):
            open_steps_socket(None)
        box.close()

    def test_a_folder_of_another_user_is_rejected(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """In /tmp, where everybody may have made it."""
        public = tmp_path / "tmp"
        public.mkdir()
        public.chmod(0o1777)
        folder = public / "trntop-1000"
        folder.mkdir()
        stranger = folder.lstat().st_uid + 1
        monkeypatch.setattr(os, "getuid", lambda: stranger)
        if stranger - 1 == 0:  # root's folders are trusted
            os.chown(folder, 4711, 4711)
        with pytest.raises(SocketUnavailableError, match="its directory belongs to another user"):
            open_steps_socket(folder / "steps.sock")


async def test_long_and_broken_messages(
    sink: RecordingSink, path: Path, sender: socket.socket
) -> None:
    async with running(StepsCollector("n", path, retry_interval=0.01), sink):
        await sink.until(lambda: sink.statuses)
        sender.connect(str(path))
        for message in (b"x" * 5000, b"{", b"y" * 4096, b"z" * 4097):
            sender.send(message)
        await wait_for(sink, 2)
        await sink.until(lambda: sink.counts["oversize"] == 2)
    assert [len(reading.data) for reading in sink.readings] == [1, 4096]


SEND = """
import os, socket, sys
os.setuid(int(sys.argv.pop(1)))
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
    client.connect(sys.argv[1])
    for record in sys.argv[2:]:
        client.send(record.encode())
    sys.stdin.read()
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can start processes of other users")
async def test_fault_31_a_job_belongs_to_the_reporting_user(
    sink: RecordingSink, tmp_path: Path
) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        path = Path(folder) / "trntop" / "steps.sock"
        async with running(StepsCollector("n", path, retry_interval=0.01), sink):
            await sink.until(lambda: sink.statuses)
            senders = []
            for user, *records in (
                (4711, '{"job":"theirs","step":1}'),
                (4712, '{"job":"theirs","step":666}', '{"job":"mine","step":2}'),
            ):
                argv = [sys.executable, "-c", SEND, str(user), str(path), *records]
                senders.append(subprocess.Popen(argv, stdin=subprocess.PIPE))  # noqa: ASYNC220
                await wait_for(sink, len(senders))
            await sink.until(lambda: sink.counts["foreign"] == 1)
            for sender in senders:
                sender.communicate()
            again = [sys.executable, "-c", SEND, "4712", str(path), '{"job":"theirs","step":3}']
            sender = subprocess.Popen(again, stdin=subprocess.PIPE)  # noqa: ASYNC220
            await wait_for(sink, 3)
            sender.communicate()
    steps = [json.loads(reading.data)["step"] for reading in sink.readings]
    assert steps == [1, 2, 3], "once no process of its user reports it, the job is free"


async def test_descriptors_that_run_out_are_waited_for(
    sink: RecordingSink, path: Path, sender: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    def full(_: object) -> None:
        tries.append(1)
        raise OSError(24, "Too many open files")

    async with running(StepsCollector("n", path, retry_interval=0.01), sink):
        await sink.until(lambda: sink.statuses)
        with monkeypatch.context() as context:
            context.setattr(socket.socket, "accept", full)
            sender.connect(str(path))
            await sink.until(lambda: len(tries) > 1 and "cannot accept" in sink.statuses[-1].reason)
            reason = sink.statuses[-1].reason
        assert reason == "cannot accept connections: Too many open files"
        sender.send(b"{}")
        await wait_for(sink, 1)


async def test_senders_are_counted(
    sink: RecordingSink, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_SENDERS", 2)
    async with running(StepsCollector("n", path, retry_interval=0.01), sink):
        await sink.until(lambda: sink.statuses)
        emitters = [Steps(f"unix:{path}", rank=rank) for rank in range(3)]
        for emitter in emitters:
            with emitter.step():
                pass
        await sink.until(lambda: sink.counts["turned_away"] == 1)
        await wait_for(sink, 2)
        emitters[0].close()  # makes room
        async with asyncio.timeout(5):
            while not parts(sink)["job/2"]:
                emitters[2].close()
                with emitters[2].step():
                    pass
                await asyncio.sleep(0.01)


async def test_fault_31_a_user_cannot_take_all_connections(
    sink: RecordingSink, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user's process replaces the oldest of the one with most."""
    monkeypatch.setattr(module, "MAX_SENDERS", 3)
    users = iter((1, 1, 1, 2))
    monkeypatch.setattr(module, "_user", lambda _: next(users))
    async with running(StepsCollector("n", path), sink):
        await sink.until(lambda: sink.statuses)
        crowd = []
        for _ in range(3):
            crowd.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            crowd[-1].connect(str(path))
        other = Steps(f"unix:{path}", rank=7)
        with other.step():
            pass
        await wait_for(sink, 1)
        assert crowd[0].recv(1) == b""
        for sender in crowd:
            sender.close()


async def test_a_flood_is_throttled(
    sink: RecordingSink, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps sending for ever; the collector pauses, reads the others, and ends at once."""
    monkeypatch.setattr(module, "BURST", 0.0005)
    monkeypatch.setattr(module, "READ_INTERVAL", 0.001)
    over = threading.Event()

    def flood() -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
            client.connect(str(path))
            with contextlib.suppress(OSError):
                while not over.is_set():
                    client.send(b"{}")

    async with running(StepsCollector("n", path, retry_interval=0.05), sink):
        await sink.until(lambda: sink.statuses)
        thread = threading.Thread(target=flood)
        thread.start()
        try:
            await sink.until(lambda: sink.counts["pauses"] >= 2)
            emitter = Steps(f"unix:{path}")
            with emitter.step():
                pass
            await sink.until(lambda: any(len(reading.data) > 2 for reading in sink.readings))
        finally:
            over.set()
    await asyncio.to_thread(thread.join)


async def train(steps: int, seconds: float, **environ: str) -> list[asyncio.subprocess.Process]:
    """Eight ranks."""
    return [
        await asyncio.create_subprocess_exec(
            sys.executable, "-S", str(LOOP), str(steps), str(seconds),
            env=os.environ | {"PYTHONPATH": str(ROOT), "RANK": str(rank)} | environ,
            stdout=asyncio.subprocess.PIPE,
        )
        for rank in range(8)
    ]  # fmt: skip


async def result(process: asyncio.subprocess.Process) -> dict[str, float]:
    async with asyncio.timeout(30):
        output, _ = await process.communicate()
    assert process.returncode == 0
    last: dict[str, float] = json.loads(output.splitlines()[-1])
    return last


class TestTraining:
    """A loop of eight processes."""

    async def test_every_step_of_every_rank(self, sink: RecordingSink, path: Path) -> None:
        async with running(StepsCollector("n", path), sink):
            await sink.until(lambda: sink.statuses)
            processes = await train(20, 0.002, TRNTOP_STEPS=f"unix:{path}", TRNTOP_JOB="j")
            results = [await result(process) for process in processes]
            await sink.until(lambda: len(sink.readings) == 8 * 22)
        assert [result["lost"] for result in results] == [0] * 8
        counts = parts(sink)
        assert all(counts[f"j/{rank}"] == 20 and counts[f"j/{rank}/stage"] == 2
                   for rank in range(8))  # fmt: skip
        samples = [decode(reading.data) for reading in sink.readings]
        for sample in samples:
            if sample.columns:
                seconds = {name: sample.columns[f"job_{name}_seconds"].item()
                           for name in ("step", "compute", "comm", "exposed_comm")}  # fmt: skip
                # The collective begins within the compute and outlives it.
                assert 0 < seconds["exposed_comm"] < seconds["comm"] < seconds["step"]
                assert seconds["compute"] + seconds["exposed_comm"] <= seconds["step"] + 1e-6

    async def test_the_agent_dies(self, sink: RecordingSink, path: Path) -> None:
        async with running(StepsCollector("n", path), sink):
            await sink.until(lambda: sink.statuses)
            processes = await train(400, 0.0005, TRNTOP_STEPS=f"unix:{path}")
            await wait_for(sink, 80)
        results = [await result(process) for process in processes]
        assert all(result["lost"] > 0 for result in results)

    async def test_no_agent(self, path: Path) -> None:
        results = [
            await result(process) for process in await train(50, 0, TRNTOP_STEPS=f"unix:{path}")
        ]
        assert [result["lost"] for result in results] == [52] * 8


class TestExamine:
    """For `trntop doctor`."""

    def test_a_path_is_free(self, path: Path) -> None:
        finding = examine(path)
        assert finding.ok
        assert finding.found == f"training processes that use trntop.steps can report to {path}"
        assert not path.exists()

    def test_an_agent_has_it(self, path: Path) -> None:
        box = StepsSocket(path)
        finding = examine(path)
        assert box.is_current
        box.close()
        assert finding.ok
        assert finding.found.startswith(f"an agent receives step telemetry at {path}")

    def test_a_dashboard_has_it(self, path: Path) -> None:
        box = open_steps_socket(path, observer=True)
        finding = examine(path)
        box.close()
        assert finding.ok
        assert finding.found == f"another dashboard receives step telemetry at {box.path}"

    def test_there_is_no_usable_path(self, path: Path) -> None:
        path.parent.mkdir()
        path.write_text("precious")
        finding = examine(path)
        assert not finding.ok
        assert finding.found == f"{path} is not a socket"
        assert finding.remedy.startswith("set collect.steps_socket")
