"""What two runs come to, and how they differ."""

import dataclasses
import json
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import msgspec
import pytest

from tests.reports import monitor_reading, report, runtime
from trntop.analysis.compare import (
    COST,
    EPOCH_COST,
    FIRST_STEP,
    WANTED,
    Better,
    Figure,
    Pair,
    Side,
    Window,
    compare,
    summary,
)
from trntop.analysis.rule_inputs import rule_inputs
from trntop.catalog import LOG, STEPS, Provenance
from trntop.cli import main
from trntop.cli.comparing import split
from trntop.collectors.simulator import parse, simulate
from trntop.core.errors import UsageError
from trntop.core.model import Reading, View
from trntop.core.settings import Settings
from trntop.core.source_spec import Origin
from trntop.core.units import si
from trntop.recording.writer import Recorder
from trntop.session.monitor import Monitor, play

START = 1763650000.0
DEGRADED = "sim:efa-degraded?nodes=2&minutes=3&seed=7&type=trn1.32xlarge"


def views(source: str) -> Iterator[View]:
    return play(simulate(parse(source), START), Monitor(Settings(), wanted=WANTED | rule_inputs()))


def gpu_readings(seconds: float = 60, nodes: int = 2) -> Iterator[Reading]:
    """Nodes of which nothing is known but their steps of 2 s; every fifth takes 5 s."""
    now, step = START, 0
    while now < START + seconds:
        step += 1
        took = 5.0 if step % 5 == 0 else 2.0
        now += took
        for node in range(nodes):
            data = {
                "job": "bake-off", "rank": node, "step": step, "step_seconds": took,
                "tokens": 1_000_000, "loss": 3.0 - step / 100,
            }  # fmt: skip
            yield Reading(f"gpu-{node}", STEPS, now, msgspec.json.encode(data))


def gpu_side(price: float | None = None) -> Side:
    played = play(gpu_readings(), Monitor(Settings(), wanted=WANTED | rule_inputs()))
    side = summary(played, "gpu.jsonl", Window(), price)
    assert side is not None
    return side


@pytest.fixture(scope="module")
def faulty() -> Side:
    side = summary(views(DEGRADED), DEGRADED, Window(), 20.0)
    assert side is not None
    return side


def test_a_run_is_summed_up(faulty: Side) -> None:
    assert (faulty.nodes, faulty.types, faulty.job) == (2, ("trn1.32xlarge",), "pretrain-13b")
    assert faulty.simulated
    assert faulty.seconds == pytest.approx(180, abs=5)
    assert faulty.kinds == {"efa_degraded": 1}
    figures = faulty.figures
    assert figures["step_seconds_p95"].value > 1.1 * figures["step_seconds_median"].value
    assert figures["efa_retransmits"].value > 0.01
    assert figures["mfu"].provenance is Provenance.REPORTED
    assert figures["hbm_used"].provenance is Provenance.DERIVED
    tokens = figures["tokens_per_second"].value
    assert figures[COST].value == pytest.approx(2 * 20.0 / 3600 / tokens * 1e6)


def test_quantities_that_a_run_with_steps_alone_does_not_report_are_absent() -> None:
    side = gpu_side(price=98.0)
    assert side.figures.keys() == {
        "step_seconds_median", "step_seconds_p95", "tokens_per_second", "loss", COST, FIRST_STEP,
    }  # fmt: skip
    assert side.figures[FIRST_STEP].value == 2.0
    assert (side.nodes, side.job, side.types, side.simulated) == (2, "bake-off", (), False)


def test_a_long_step_counts_once() -> None:
    figures = gpu_side().figures
    assert figures["step_seconds_median"].value == 2.0
    assert figures["step_seconds_p95"].value == pytest.approx(5.0)
    assert COST not in figures, "there is no price"


def test_compile_time_and_cost_per_epoch_come_from_the_log() -> None:
    """Two nodes need 100 s for each tenth of an epoch; one of them has compiled for 90 s."""
    monitor = Monitor(Settings(), wanted=WANTED | rule_inputs())

    def readings() -> Iterator[Reading]:
        for tenth in range(4):
            for node in range(2):
                record: dict[str, object] = {"file": "train.log", "job": "j", "lines": [
                    {"text": f"{{'loss': 2.5, 'epoch': {1 + tenth / 10}}}"}
                ]}  # fmt: skip
                if tenth == 0:
                    record["compilations"] = {"hits": 5, "misses": node, "seconds": 90.0 * node}
                data = msgspec.json.encode(record)
                yield Reading(f"n{node}", LOG, START + 100 * tenth, data)

    side = summary(play(readings(), monitor), "run", Window(), 36.0)
    assert side is not None
    assert side.figures[EPOCH_COST].value == pytest.approx(2 * 36.0 * 1000 / 3600)
    assert side.figures["compile_seconds"].value == 90.0
    assert side.figures["cache_hits"].value == 10
    assert side.figures["cache_misses"].value == 1
    assert FIRST_STEP not in side.figures


def test_a_window_counts_from_the_beginning(faulty: Side) -> None:
    calm = summary(views(DEGRADED), DEGRADED, Window(10, 45))
    assert calm is not None
    assert calm.seconds == pytest.approx(35, abs=2)
    assert calm.first - faulty.first == pytest.approx(10, abs=1)
    assert not calm.incidents
    assert calm.figures["efa_retransmits"].value < 0.001
    assert summary(views(DEGRADED), DEGRADED, Window(900)) is None


def test_a_file_of_one_report_can_be_compared() -> None:
    reading = monitor_reading(report(runtime()), 1.0)
    side = summary(play([reading], Monitor(Settings())), "one.json", Window())
    assert side is not None
    assert side.seconds == 0
    assert side.figures["utilization"].value == 0.75


def test_incidents_that_ended_before_the_window_do_not_count() -> None:
    played = list(takewhile(lambda view: view.time < START + 170, views(DEGRADED)))
    over = [
        dataclasses.replace(
            view,
            incidents=tuple(
                dataclasses.replace(incident, closed_at=START + 150) for incident in view.incidents
            ),
        )
        for view in played
    ]
    assert any(view.incidents for view in over)
    side = summary(over, DEGRADED, Window(155))
    assert side is not None
    assert not side.incidents


@pytest.mark.parametrize(
    ("a", "b", "better", "verdict"),
    [
        (10.0, 12.0, Better.MORE, "better"),
        (10.0, 12.0, Better.LESS, "worse"),
        (10.0, 9.0, Better.LESS, "better"),
        (10.0, 10.1, Better.LESS, "similar"),
        (0.0, 0.0, Better.LESS, "similar"),
        (10.0, 20.0, Better.NEITHER, ""),
        (10.0, None, Better.MORE, ""),
    ],
)
def test_which_is_better(a: float, b: float | None, better: Better, verdict: str) -> None:
    base, other = (
        None if value is None else Figure(value, Provenance.MEASURED) for value in (a, b)
    )
    assert Pair("x", "x", si, better, base, other).verdict == verdict


@pytest.mark.parametrize(("b", "verdict"), [(0.0009, "similar"), (0.003, "worse")])
def test_two_numbers_below_the_limit_of_their_rule_are_noise(b: float, verdict: str) -> None:
    base, other = (Figure(value, Provenance.MEASURED) for value in (0.0005, b))
    pair = Pair("x", "x", si, Better.LESS, base, other, floor=0.002)
    assert pair.verdict == verdict
    assert (pair.ratio is None) is (verdict == "similar")


def test_nothing_has_no_ratio() -> None:
    nothing, unit = Figure(0.0, Provenance.MEASURED), Figure(1.0, Provenance.MEASURED)
    assert Pair("x", "x", si, Better.MORE, nothing, unit).ratio is None
    assert Pair("x", "x", si, Better.MORE, unit, nothing).ratio == 0.0


def test_lines_that_neither_side_reports_are_omitted(faulty: Side) -> None:
    both = compare(gpu_side(), gpu_side())
    assert [pair.name for pair in both.pairs] == [
        "step_seconds_median", "step_seconds_p95", FIRST_STEP, "tokens_per_second", "loss",
    ]  # fmt: skip
    mixed = {pair.name: pair for pair in compare(faulty, gpu_side()).pairs}
    assert mixed["hbm_used"].b is None
    assert mixed["hbm_used"].ratio is None


# The command


def test_the_window_follows_the_source() -> None:
    source, window = split("sim:demo@10m-20m")
    assert (source.origin, source.text) == (Origin.SIMULATION, "sim:demo")
    assert (window.start, window.end) == (600.0, 1200.0)
    assert split("sim:demo@-90s")[1] == Window(0.0, 90.0)
    assert split("sim:demo?minutes=9@1.5m-")[1].start == 90.0
    assert split("sim:demo?minutes=9")[1] == Window()


def test_a_file_name_may_look_like_a_window(tmp_path: Path) -> None:
    path = tmp_path / "run@1m-2m"
    with Recorder(path, created=START) as recorder:
        for reading in gpu_readings(10):
            recorder.write(reading)
    source, window = split(str(path))
    assert (source.text, window) == (str(path), Window())


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("sim:demo", "never ends"),
        ("sim:demo@20m-10m", "ends before it starts"),
        ("http://trn-001:10042", "needs recordings or simulations"),
        ("no-such-file.jsonl", "no-such-file.jsonl"),
    ],
)
def test_what_cannot_be_compared_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        split(text)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "gpu.jsonl"
    with Recorder(path, created=START) as recorder:
        for reading in gpu_readings():
            recorder.write(reading)
    healthy = "sim:healthy?nodes=1&minutes=2&type=trn1.32xlarge"
    assert main(["compare", healthy, str(path), "--json", "--price-b", "98"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["a"]["simulated"], found["b"]["simulated"]) == (True, False)
    figures = {figure["name"]: figure for figure in found["figures"]}
    assert figures["hbm_used"]["b"] is None
    assert figures["step_seconds_median"]["a"]["provenance"] == "simulated"
    assert figures["step_seconds_median"]["b"] == {"value": 2.0, "provenance": "reported"}
    assert figures["step_seconds_median"]["b_is"] == "better"
    assert figures[COST]["a"] is None
    assert main(["compare", str(path), f"{path}@2h-"]) == 2
    assert "no readings" in capsys.readouterr().err
