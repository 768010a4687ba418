"""`trntop analyze`: which incidents are asked for, and the report for whoever takes over."""

import json
from pathlib import Path

import msgspec
import pytest

from tests.builders import make_incident
from trntop.catalog import LOG
from trntop.cli import main
from trntop.cli.choice import Choice, since
from trntop.core.errors import UsageError
from trntop.core.model import Reading
from trntop.recording.writer import Recorder

FIXTURE = str(Path(__file__).parents[2] / "fixtures" / "efa-degraded-2-nodes.jsonl.zst")
END = 1_763_640_319.0
"""2025-11-20 12:05:19 UTC."""
NOON = 1_763_640_000.0
DAY = 86_400.0


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("12:00", NOON),
        ("12:00:30", NOON + 30),
        ("12:05:19", END),
        ("9:30Z", NOON - 9000),
        ("12:05:20", END + 1 - DAY),
        ("23:59", NOON + 43_140 - DAY),
        ("30s", END - 30),
        ("30m", END - 1800),
        ("5min", END - 300),
        ("1.5h", END - 5400),
        ("1h30m", END - 5400),
        ("2d", END - 2 * DAY),
        ("2025-11-20", NOON - DAY / 2),
        ("2025-11-20T12:00", NOON),
        ("2025-11-20 12:00:00Z", NOON),
        ("2025-11-20T14:00+02:00", NOON),
    ],
)
def test_times_that_can_be_entered(text: str, meant: float) -> None:
    assert since(text)(END) == meant


@pytest.mark.parametrize(
    "text", ["", "24:00", "12:60", "noon", "30", "-5m", "m", "2025-13-01", "1e5s", "9" * 99]
)
def test_times_that_cannot(text: str) -> None:
    with pytest.raises(UsageError, match="is not a valid time; use 14:03"):
        since(text)


def test_what_was_open_at_a_time_or_later_is_chosen() -> None:
    over = make_incident(opened_at=NOON, closed_at=NOON + 60)
    later = make_incident("hang", opened_at=NOON + 30, closed_at=NOON + 90)
    lasting = make_incident(opened_at=NOON - 600)
    found = (lasting, later, over)
    assert Choice().of(found, END) == (lasting, over, later)
    assert Choice(lambda end: NOON + 61).of(found, END) == (lasting, later)
    assert Choice(lambda end: NOON + 60).of(found, END) == (lasting, over, later)
    assert Choice(kinds=("hang",)).of(found, END) == (later,)
    assert Choice().phrase(END) == ""
    assert Choice(lambda end: NOON, ("hang", "straggler")).phrase(END) == (
        "open at 2025-11-20 12:00:00 UTC or later, of the kind hang or straggler"
    )


def output(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["analyze", FIXTURE, *arguments]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_filters_on_a_recording(capsys: pytest.CaptureFixture[str]) -> None:
    (incident,) = json.loads(output(capsys, "--json"))["incidents"]
    assert incident["detected_at"] >= incident["opened_at"]
    assert incident["returns"] == 0
    kind = incident["kind"]
    other = "comm_bound" if kind != "comm_bound" else "hang"
    assert json.loads(output(capsys, "--json", "--rule", other))["incidents"] == []
    text = output(capsys, "--since", "1s", "--rule", kind)
    assert f"only incidents open at 2025-11-20 12:05:18 UTC or later, of the kind {kind}" in text
    assert "no incidents" in text


def test_the_report_of_a_recording(capsys: pytest.CaptureFixture[str]) -> None:
    out = output(capsys, "--markdown")
    assert out.startswith("# trntop report, 2025-11-20 12:05:19 UTC\n\n**SIMULATED**")
    assert "HEALTHY: no open incidents" in out
    assert "## Closed (1)" in out
    assert "Nodes: 2, 2 × trn1.32xlarge (trn-000, trn-001)" in out


def test_custom_rules_can_be_reserved(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[[rules]]\nname = "own"\nwhen = "node_load1 > 1e5"\n')
    out = output(capsys, "--markdown", "--rule", "own", "--config", str(config))
    assert "- Only incidents of the kind own" in out
    assert "no selected open incidents" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rule", "comm_bond"], "did you mean comm_bound?"),
        (["--since", "yesterday"], "yesterday is not a valid time; use 14:03"),
        (["--json", "--markdown"], "cannot be combined with"),
    ],
)
def test_bad_use(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", FIXTURE, *arguments]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert message in err


def test_the_report_has_what_the_start_of_a_run_took(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.jsonl"
    with Recorder(path, created=NOON) as recorder:
        for step in range(1, 9):
            seconds = 61.5 if step == 1 else 1.5
            text = f"step {step} step_time {seconds}s throughput 9.5 seq/s loss 2.5 grad norm 1.0"
            record: dict[str, object] = {"file": "train.log", "job": "j", "lines": [{"text": text}]}
            if step == 1:
                record["compilations"] = {"hits": 5, "misses": 2, "seconds": 90.0}
            recorder.write(Reading("n0", LOG, NOON + 10 * step, msgspec.json.encode(record)))
    assert main(["analyze", str(path), "--markdown"]) == 0
    start = "compiled for 1 min 30 s on the longest node, 5 cache hits, 2 misses; first step 61.5 s"
    assert start in capsys.readouterr().out
