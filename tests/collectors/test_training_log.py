"""Training logs, followed."""

# ruff: noqa: ASYNC240 (nothing else runs on the loop of a test)

import asyncio
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.collectors.recording_sink import RecordingSink, running
from trntop.catalog import LOG
from trntop.collectors import training_log as module
from trntop.collectors.training_log import TrainingLog, compile_patterns, examine
from trntop.core.errors import SettingsError
from trntop.core.model import State
from trntop.sources.log import decode

ROOT = Path(__file__).parents[2]


@pytest.fixture
def sink() -> RecordingSink:
    return RecordingSink()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "train.log"


def titan(step: int) -> str:
    return f"[titan] \x1b[31mstep: {step:2}  \x1b[32mloss: {10 / step:7.4f}\x1b[39m  tps: 1,000\n"


def append(file: Path, text: str) -> None:
    with file.open("a") as out:
        out.write(text)


def collector(*files: Path, job: str = "j", patterns: tuple[str, ...] = ()) -> TrainingLog:
    return TrainingLog("n", list(map(str, files)), job, patterns, period=0.01)


def payload(sink: RecordingSink, index: int = -1) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(sink.readings[index].data)
    return content


def columns(sink: RecordingSink) -> dict[str, float]:
    return {name: column.item() for name, column in decode(sink.readings[-1].data).columns.items()}


async def test_the_newest_line_is_handed_on(sink: RecordingSink, file: Path) -> None:
    file.write_text("")
    async with running(collector(file), sink):
        await sink.until(lambda: sink.statuses)
        assert (sink.statuses[0].state, sink.statuses[0].reason) == (
            State.STARTING,
            "following 1 file; no line of a known format yet",
        )
        append(file, titan(1) + "WARNING: something else\n" + titan(2) + "more\n")
        await sink.until(lambda: sink.readings)
        await sink.until(lambda: sink.statuses[-1].state is State.FRESH)
    assert payload(sink) == {
        "file": "train.log", "job": "j", "lines": [{"text": titan(2).rstrip("\n")}],
    }  # fmt: skip
    assert (sink.readings[0].node, sink.readings[0].source) == ("n", LOG)
    assert columns(sink)["job_loss"] == 5


async def test_a_log_that_is_being_written_is_known_at_once(
    sink: RecordingSink, file: Path
) -> None:
    noise = "x" * 99 + "\n"
    file.write_text(titan(1) + 700 * noise + titan(8) + 300 * noise)
    async with running(collector(file), sink):
        await sink.until(lambda: sink.readings)
    assert columns(sink)["job_step"] == 8
    assert len(sink.readings) == 1


async def test_old_lines_are_as_old_as_their_file(sink: RecordingSink, file: Path) -> None:
    file.write_text(titan(7))
    written = time.time() - 300
    os.utime(file, (written, written))
    async with running(collector(file), sink):
        await sink.until(lambda: sink.readings)
        append(file, titan(8))
        await sink.until(lambda: len(sink.readings) > 1)
    old, new = (reading.time for reading in sink.readings[:2])
    assert new - old == pytest.approx(300, abs=30)


async def test_but_not_one_of_yesterday(sink: RecordingSink, file: Path) -> None:
    file.write_text(titan(8))
    os.utime(file, (1, 1))
    async with running(collector(file), sink):
        await sink.until(lambda: len(sink.statuses) >= 2)
        assert sink.readings == []
        append(file, titan(9))
        await sink.until(lambda: sink.readings)
    assert columns(sink)["job_step"] == 9


async def test_a_progress_bar(sink: RecordingSink, file: Path) -> None:
    bar = "\rEpoch 0:   1%|▎   | {}/91 [16:05<7:52:06, 321.89s/it, loss=6.7, global_step={}.000]"
    file.write_text("")
    async with running(collector(file), sink):
        await sink.until(lambda: sink.statuses)
        append(file, "".join(bar.format(step, step) for step in range(20)))
        await sink.until(lambda: sink.readings and columns(sink)["job_step"] == 19)


async def test_lines_of_other_forms(sink: RecordingSink, file: Path) -> None:
    patterns = (r"it (?P<step>\d+) l=(?P<loss>\S+)", r"(?P<mfu>[\d.]+)% of peak(?P<grad_norm>z)?")
    file.write_text("")
    async with running(collector(file, patterns=patterns), sink):
        await sink.until(lambda: sink.statuses)
        append(file, "it 4 l=3\n\x1b[1mit\x1b[0m 5 l=nan 50% of peak\n50.0% of peak\n")
        await sink.until(lambda: sink.readings)
    assert [line["values"] for line in payload(sink)["lines"]] == [
        {"step": 4, "loss": 3},
        {"step": 5, "loss": None, "mfu": 50, "grad_norm": None},
        {"mfu": 50, "grad_norm": None},
    ]
    assert columns(sink) == {
        "job_step": 5, "job_logged_step_total": 5, "job_mfu_ratio": 0.5,
    }  # fmt: skip


async def test_files_are_distinguished(sink: RecordingSink, tmp_path: Path) -> None:
    logs = [tmp_path / f"rank{rank}" / "train.log" for rank in range(2)]
    for step, log in enumerate(logs, 1):
        log.parent.mkdir()
        log.write_text(titan(step))
    async with running(collector(tmp_path / "*" / "train.log"), sink):
        await sink.until(lambda: len(sink.readings) == 2)
    assert sorted(decode(reading.data).part for reading in sink.readings) == [
        "j/rank0/train.log", "j/rank1/train.log",
    ]  # fmt: skip


async def test_names_that_are_no_text(sink: RecordingSink, tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xff\x1b.log")).write_text(titan(1))
    async with running(collector(tmp_path / "*.log", job="\udcff"), sink):
        await sink.until(lambda: sink.readings)
    assert decode(sink.readings[0].data).part == "\ufffd/\ufffd\ufffd.log"


async def test_no_file(sink: RecordingSink, tmp_path: Path) -> None:
    async with running(collector(tmp_path / "*.log"), sink):
        await sink.until(lambda: sink.statuses)
    assert sink.reasons(State.DOWN)[0] == (
        f"no file matches {tmp_path}/*.log; set collect.logs to the files that the training"
        " processes write"
    )


async def test_a_file_system_that_hangs(
    sink: RecordingSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()
    monkeypatch.setattr(module.Tail, "poll", lambda _: over.wait(10))
    monkeypatch.setattr(module, "DEADLINE", 0.01)
    async with running(collector(Path("x")), sink):
        await sink.until(lambda: sink.reasons(State.DOWN))
    over.set()
    assert sink.reasons(State.DOWN)[0] == "x: the file system does not answer"


async def test_the_log_of_a_process(sink: RecordingSink, file: Path) -> None:
    with file.open("w") as out:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-S", str(ROOT / "tests/fakes/training_loop.py"), "40", "0.002",
            env=os.environ | {"PYTHONPATH": str(ROOT), "TRNTOP_STEPS": "off"}, stdout=out,
        )  # fmt: skip
    async with running(collector(file), sink):
        await sink.until(lambda: sink.readings and columns(sink)["job_step"] == 40)
        await process.wait()
    steps = [decode(reading.data).columns["job_step"].item() for reading in sink.readings]
    assert steps == sorted(steps)
    assert columns(sink)["job_mfu_ratio"] == pytest.approx(0.38)
    assert columns(sink)["job_tokens_per_second_per_device"] == 1234


class TestPatterns:
    """What a user may write."""

    def test_they_are_compiled(self) -> None:
        (pattern,) = compile_patterns([r"step (?P<step>\d+)"])
        assert pattern.search("a step 5")

    @pytest.mark.parametrize(
        "text", [r"(?P<step>(a+)+)$", r"(?P<step>(a|a)*)b", "(?P<step>.*.*.*.*)x"]
    )
    def test_fault_60_an_expression_takes_linear_time(self, text: str) -> None:
        """With `re`, each of these needs more steps than the machine has left to live."""
        (pattern,) = compile_patterns([text])
        assert pattern.search("a" * 4095 + "!") is None

    @pytest.mark.parametrize(
        ("text", "complaint"),
        [
            ("(", r"collect.log_patterns: '\(' is not a regular expression of RE2: missing \): "),
            ("a+", r"'a\+' has no named group; known are step, step_seconds, loss, grad_norm, mf"),
            (r"(?P<lr>\d)(?P<loss>x)", "has unknown groups: lr; known are step, "),
            ("(?P<step>x){1001}", "is not a regular expression of RE2: invalid rep"),
            ("(" * 9999, "is not a regular expression"),
            (r"(?P<step>\d+)(?=x)", r"is not a regular expression of RE2: invalid perl operator"),
            (r"(?P<step>\d+)\1", "is not a regular expression of RE2: invalid escape sequence"),
        ],
    )
    def test_what_cannot_be_used_is_named(self, text: str, complaint: str) -> None:
        with pytest.raises(SettingsError, match=complaint):
            TrainingLog("n", ["x"], "", ["(?P<step>x)", text])


class TestExamine:
    """For `trntop doctor`."""

    def test_nothing_is_set(self) -> None:
        finding = examine([])
        assert (finding.ok, finding.found) == (False, "no training log is set")
        assert finding.remedy.startswith("set collect.logs")

    def test_no_file(self, file: Path) -> None:
        assert examine([str(file)]).found == f"no file matches {file}"

    def test_lines(self, file: Path) -> None:
        file.write_text("it 5\n")
        finding = examine([str(file)])
        assert not finding.ok
        assert finding.remedy == "add an expression for its lines to collect.log_patterns"
        assert examine([str(file)], [r"it (?P<step>\d+)"]).ok
        append(file, titan(1))
        finding = examine([str(file)])
        assert finding.ok
        assert finding.found == "following 1 file with lines of a known format"


async def test_compilations_and_timeouts_are_counted(sink: RecordingSink, file: Path) -> None:
    file.write_text("")
    wrapper = "INFO ||NEURON_CC_WRAPPER||:"
    async with running(collector(file), sink):
        await sink.until(lambda: sink.statuses)
        append(
            file,
            f"2024-01-11 05:53:27.000203:  7  {wrapper} Call compiler with cmd: "
            "['neuronx-cc', 'compile', 'model.MODULE_9+d41d8cd9.hlo.pb']\n"
            f"2024-01-11 05:54:27.000203:  7  {wrapper} Compilation Successfully Completed for "
            "model.MODULE_9+d41d8cd9.hlo_module.pb\n"
            "[rank3]:[E ProcessGroupNCCL.cpp:607] [Rank 3] Watchdog caught collective operation "
            "timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600060 "
            "milliseconds before timing out.\n",
        )
        await sink.until(lambda: sink.readings)
    sample = decode(sink.readings[0].data)
    assert sample.deltas["node_compile_seconds_total"] == pytest.approx(60.0)
    assert sample.deltas["node_collective_timeouts_total"] == 1
    assert sample.problems == ("rank 3: allreduce 7 timed out after 600 s",)


async def test_interruptions_by_hyperpod_are_reported(sink: RecordingSink, file: Path) -> None:
    file.write_text("")
    async with running(collector(file), sink):
        await sink.until(lambda: sink.statuses)
        append(file, "[Auto Resume] Info: JobID: 82 StepID: 0 Retrying step. Attempt number: 1\n")
        await sink.until(lambda: sink.readings)
    problems = decode(sink.readings[0].data).problems
    assert problems == ("HyperPod auto-resume of Slurm job 82: Retrying step. Attempt number: 1",)
