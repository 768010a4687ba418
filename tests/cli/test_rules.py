"""`trntop rules`: the rules, as a user reads them."""

import json
from pathlib import Path

import pytest

from trntop.analysis.rulebook import RULEBOOK
from trntop.cli import main

OWN = '[[rules]]\nname = "hot_host"\nwhen = "node_cpu_busy_ratio > 0.9"\nhold = 30\n'


@pytest.fixture
def config(tmp_path: Path) -> str:
    file = tmp_path / "config.toml"
    file.write_text(f"{OWN}[analysis]\nmemory = 0.8\ndisabled = ['comm_bound']\n")
    return str(file)


def output(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["rules", *arguments]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_the_table_has_every_rule_with_the_numbers_in_force(
    capsys: pytest.CaptureFixture[str], config: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    out = output(capsys, "--config", config)
    rows = {line.split()[0]: line.split()[1:4] for line in out.splitlines() if line[:1].isalpha()}
    assert list(rows) == ["kind", *(rule.kind for rule in RULEBOOK), "hot_host"]
    assert rows["comm_bound"] == ["warning", "5", "off"]
    assert rows["hot_host"] == ["warning", "30", "own"]
    assert "node_cpu_busy_ratio > 0.9, until 0.855" in out
    assert all(len(line) <= 100 for line in out.splitlines())
    assert "above 30.0 %" in output(capsys, "--set", "analysis.comm_share=0.3")


def test_json(capsys: pytest.CaptureFixture[str], config: str) -> None:
    rules = json.loads(output(capsys, "--json", "--config", config))["rules"]
    assert [rule["kind"] for rule in rules] == [*(rule.kind for rule in RULEBOOK), "hot_host"]
    first = rules[0]
    assert set(first) == {
        "kind", "severity", "condition", "hold_seconds", "clear_hold_seconds", "state", "summary",
        "advice", "settings", "follows",
    }  # fmt: skip
    assert (first["kind"], first["state"]) == ("comm_bound", "off")
    assert first["settings"]["analysis.comm_share"] == 0.25
    assert (rules[-1]["state"], rules[-1]["hold_seconds"]) == ("own", 30.0)
    (row,) = json.loads(output(capsys, "comm_bound", "--json"))["rules"]
    assert row["state"] == "on"


def test_one_kind_comes_with_its_settings_and_its_runbook(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = output(capsys, "comm_bound", "--set", "analysis.comm_share=0.3")
    assert out.startswith("comm_bound\n")
    assert "analysis.comm_share = 0.3  (default 0.25)" in out
    assert "analysis.window = 20  (the default)" in out
    runbook = Path(__file__).parents[2] / "docs" / "runbooks" / "comm_bound.md"
    assert out.endswith(runbook.read_text())


def test_dashboards_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "grafana", "-o", str(tmp_path / "boards")]) == 0
    board = json.loads((tmp_path / "boards" / "trntop-node.json").read_text())
    assert board["uid"] == "trntop-node"
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 4)


def test_a_rule_of_ones_own_has_no_runbook(capsys: pytest.CaptureFixture[str], config: str) -> None:
    out = output(capsys, "hot_host", "--config", config)
    assert "{where}: {quantity} {value} since {since}" in out
    assert "#" not in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["comm_bond"], "unknown rule comm_bond; did you mean comm_bound?"),
        (["xyz"], "unknown rule xyz; known: comm_bound"),
        (["x\x1b[2J"], "unknown rule x\ufffd[2J"),
        (["--config", "/nonexistent.toml"], "nonexistent.toml"),
        (["--runbook-url", "x"], "--runbook-url is only for trntop rules prometheus"),
        (["prometheus", "-o", "x"], "--output is only for trntop rules grafana"),
        (["prometheus", "--json"], "--json cannot be combined with trntop rules prometheus"),
        (["grafana", "-o", "/dev/null/x"], "/dev/null/x"),
    ],
)
def test_bad_use(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", *arguments]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert message in err


@pytest.mark.parametrize("text", ["nonsense", 'job="a', "job=a", 'a="b"}', 'a="b",'])
def test_a_selector_that_is_not_valid(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "prometheus", "--selector", text]) == 2
    assert "is not a valid --selector; use matchers" in capsys.readouterr().err


def test_selectors(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "prometheus", "--selector", 'job="a", cluster=~"x|\\"y"']) == 0
    assert 'job="a"' in capsys.readouterr().out
