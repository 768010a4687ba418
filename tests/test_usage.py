"""Misspelled command lines: each gets one line with what to type instead."""

import json
from pathlib import Path

import pytest

from trntop.cli import main, parse
from trntop.core import suggest

MAX_LINE = 160


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line on standard error."""
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("trntop: ")
    assert err.count("\n") == 1
    assert len(err) <= MAX_LINE
    return err.removeprefix("trntop: ").rstrip("\n")


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("snapsho", "unknown command snapsho; did you mean snapshot?"),
        ("demoo --speed 2", "unknown command demoo; did you mean demo?"),
        ("help", "unknown command help; did you mean --help?"),
        ("import trac x.json", "unknown command trac; did you mean trace?"),
        ("snapshot --jsn", "unknown option --jsn; did you mean --json?"),
        ("snapshot --jsn=1", "unknown option --jsn; did you mean --json?"),
        ("--jsn", "unknown option --jsn; did you mean trntop snapshot --json?"),
        ("record --outptu x sim:healthy -o y", "unknown option --outptu; did you mean --output?"),
        ("sim:healty", "unknown scenario healty; did you mean healthy?"),
        ("demo device-losst", "unknown scenario device-losst; did you mean device-lost?"),
        ("sim:hang?nodez=3", "unknown parameter nodez; did you mean nodes?"),
        ("sim:hang?type=trn2.49xlarge",
         "unknown instance type trn2.49xlarge; did you mean trn2.48xlarge?"),
        ("--set analysis.comm_shar=0.3 sim:healthy",
         "unknown setting analysis.comm_shar; did you mean analysis.comm_share?"),
        ("--set analysys.comm_share=0.3 sim:healthy",
         "unknown setting analysys.comm_share; did you mean analysis.comm_share?"),
        ("rules stragler", "unknown rule stragler; did you mean straggler?"),
        ("promtheus+http://h", "unknown source type promtheus+http; did you mean prometheus+http?"),
    ],
)  # fmt: skip
def test_a_typo_gets_the_right_spelling(
    line: str, answer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(line.split(), capsys) == answer


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("nonsense", "unknown command nonsense; known: top, demo, replay"),
        ("snapshot --zzz", "unknown option --zzz (see trntop snapshot --help)"),
        ("sim:foo", "unknown scenario foo; known: healthy, efa-degraded"),
        ("--set analysis.zzz=1 sim:healthy", "unknown setting analysis.zzz; known: analysis."),
        ("check --plan", "unknown option --plan (see trntop check --help)"),
        ("check --disturb", "unknown option --disturb (see trntop check --help)"),
    ],
)
def test_a_word_that_resembles_nothing_gets_no_suggestion(
    line: str, answer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    message = refused(line.split(), capsys)
    assert message.startswith(answer)
    assert "did you mean" not in message


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("import", "trntop import needs a command: trace"),
        ("profile", "trntop profile needs a command: add, scan, list, remove"),
        ("record -o /nonexist/x sim:healthy", "directory /nonexist does not exist"),
        ("import trace /dev/null -o /nonexist/x", "directory /nonexist does not exist"),
        ("check --write /nonexist/x", "directory /nonexist does not exist"),
        ("record -o - sim:healthy", "record cannot write to standard output; use -o FILE"),
        ("record sim:healthy", "missing -o/--output (see trntop record --help)"),
        ("record -o x sim:demo",
         "sim:demo never ends; add --max-seconds, or minutes to the scenario"),
        ("targets trn-1 --port x", "-p/--port: x is not a valid port (see trntop targets --help)"),
        ("export --port 65536", "-p/--port: 65536 is not a valid port (see trntop export --help)"),
        ("analyze --json --markdown x",
         "--markdown cannot be combined with --json (see trntop analyze --help)"),
        ("snapshot nothing.jsonl", "file nothing.jsonl does not exist"),
        ("snapshot trn-001", "trn-001 is not a file or a SOURCE (see trntop --help);"
         " for a node, use http://trn-001"),
        ("sim:demo snapshot", "put the command first: trntop snapshot sim:demo …"),
    ],
)  # fmt: skip
def test_wrong_usage(
    line: str, answer: str, capsys: pytest.CaptureFixture[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert refused(line.split(), capsys) == answer
    assert list(tmp_path.iterdir()) == []


def test_a_file_named_like_a_word_is_a_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "snapsho").touch()
    args = parse(["snapsho"])
    assert (args.command, args.sources) == ("top", ["snapsho"])


@pytest.mark.parametrize("known", [(), ("a",), ("Snapshot", "snap")])
def test_suggestions_ignore_case(known: tuple[str, ...]) -> None:
    assert suggest.closest("SNAPSHO", known) == ("Snapshot" if "Snapshot" in known else None)


def test_demo_accepts_a_simulation_as_a_source_is_written(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["demo", "sim:device-lost?nodes=2&type=trn1.2xlarge"]) == 0
    assert "2 nodes" in capsys.readouterr().out


def test_targets_of_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("nodes.txt").write_text("trn-[001-002]  # rack 1\n")
    assert main(["targets", "@nodes.txt", "trn-003"]) == 0
    (group,) = json.loads(capsys.readouterr().out)
    assert group["targets"] == ["trn-001:10042", "trn-002:10042", "trn-003:10042"]


def test_grafana_without_options_lists_the_dashboards(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "grafana"]) == 0
    out, err = capsys.readouterr()
    assert [line.split()[0] for line in out.splitlines()] == ["cluster", "node", "efa", "job"]
    assert err == "trntop: write them with -o DIR\n"


def test_the_renamed_options_of_check() -> None:
    args = parse(["check", "x", "--dry-run", "--include-busy", "--no-save"])
    assert (args.dry_run, args.include_busy, args.save) == (True, True, False)
