"""The rules for Prometheus: what they consist of, and that promtool is content with them."""

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders import make_view
from tools.rule_tests import unit_tests
from trntop.analysis.rulebook import KINDS, RULEBOOK, rules
from trntop.catalog import CATALOG, Kind, Page, page_of
from trntop.cli import main
from trntop.cli.rules import rule_groups
from trntop.core.settings import Settings, load
from trntop.exporters.metrics import judging, status
from trntop.exporters.metrics.exposition import Format
from trntop.exporters.metrics.pages import Exposition
from trntop.exporters.rules.alerts import name_of

ROOT = Path(__file__).parents[2]
DEPLOYED = ROOT / "deploy" / "prometheus"
OWN = """\
[analysis]
disabled = ["comm_bound", "straggler"]
memory = 0.8

[[rules]]
name = "hot_host"
when = "node_cpu_busy_ratio > 0.9"
severity = "info"
"""
WATCH = [
    "TrntopDown", "TrntopAbsent", "TrntopNoNode", "TrntopSourceDown", "TrntopSeriesDropped",
    "TrntopSlowerThanPeers",
]  # fmt: skip
CASES = ("healthy", "firing", "stale", "reset", "absent")

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed"
)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["rules", "prometheus", *arguments]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def parsed(text: str) -> Any:
    """YAML, by libyaml where PyYAML has it: ten times as fast."""
    return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def rows(text: str, key: str) -> dict[str, Mapping[str, Any]]:
    """The rules of a file that have `key`, by its value."""
    found = [rule for group in parsed(text)["groups"] for rule in group["rules"]]
    named = {rule[key]: rule for rule in found if key in rule}
    assert len(named) == sum(key in rule for rule in found)
    return named


@pytest.fixture
def own(tmp_path: Path) -> str:
    file = tmp_path / "config.toml"
    file.write_text(OWN)
    return str(file)


def test_deployed_files_are_current(capsys: pytest.CaptureFixture[str]) -> None:
    current = (DEPLOYED / "trntop.rules.yml").read_text() == printed(capsys)
    tests = unit_tests(rule_groups(Settings()))
    current = current and (DEPLOYED / "trntop.tests.yml").read_text() == tests
    assert current, "run python -m tools.rule_tests"


def test_fault_58_there_is_an_alert_for_each_kind_and_one_that_it_cannot_be_judged(
    capsys: pytest.CaptureFixture[str],
) -> None:
    alerts = rows(printed(capsys), "alert")
    names = [f"{name_of(kind)}{end}" for rule in RULEBOOK for kind in [rule.kind]
             for end in ("", "NoData")]  # fmt: skip
    assert list(alerts) == [*names, *WATCH]
    for name, alert in alerts.items():
        assert re.fullmatch(r"Trntop[A-Za-z]+", name)
        severity = alert["labels"]["severity"]
        assert severity in ("critical", "warning", "info", "{{ $labels.severity }}")
        summary = alert["annotations"]["summary"]
        assert summary[0].isupper() or summary.startswith("trntop ")
        assert summary.endswith(".")
        assert "{{" not in summary
        assert alert["annotations"]["description"].endswith((".", "?"))


def test_alerts_point_at_runbooks_and_dashboards(capsys: pytest.CaptureFixture[str]) -> None:
    alerts = rows(
        printed(
            capsys, "--runbook-url", "https://wiki/", "--dashboard-url", "https://grafana",
            "--selector", 'job="other"',
        ),
        "alert",
    )  # fmt: skip
    for kind in KINDS:
        links = alerts[name_of(kind)]["annotations"]
        assert links["runbook_url"] == f"https://wiki/{kind}.md"
        assert (ROOT / "docs" / "runbooks" / f"{kind}.md").is_file()
        assert links["dashboard_url"].startswith("https://grafana/d/trntop-")
    assert alerts["TrntopDown"]["expr"] == 'up{job="other"} == 0'
    boards = {
        alert["annotations"]["dashboard_url"].partition("/d/trntop-")[2].partition("?")[0]
        for alert in alerts.values()
        if "dashboard_url" in alert["annotations"]
    }
    assert boards == {"cluster", "node", "efa", "job"}
    for board in boards:
        dashboard = json.loads((ROOT / "deploy" / "grafana" / f"{board}.json").read_text())
        assert dashboard["uid"] == f"trntop-{board}"


def test_settings_and_custom_rules_are_in_force(
    capsys: pytest.CaptureFixture[str], own: str
) -> None:
    alerts = rows(printed(capsys, "--config", own), "alert")
    assert not {"TrntopCommBound", "TrntopStraggler", "TrntopSlowerThanPeers"} & alerts.keys()
    hot = alerts["TrntopOwnHotHost"]
    assert hot["expr"].endswith('{kind="hot_host"})')
    assert "runbook_url" not in hot["annotations"]
    assert (
        "needs node_cpu_busy_ratio."
        in alerts["TrntopOwnHotHostNoData"]["annotations"]["description"]
    )


def expressions(text: str) -> list[str]:
    return [rule["expr"] for rule in (rows(text, "alert") | rows(text, "record")).values()]


def names_in(expr: str) -> set[str]:
    """The metrics of trntop that an expression names, without those that rules make."""
    return set(re.findall(r"(?<![\w:])(trn(?:top)?_\w+)(?![\w:])", expr))


def test_every_metric_is_on_the_page_that_is_scraped_for_alerts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    view = make_view(2)
    page = Exposition(rules=rules(Settings().analysis)).render(view).body(Page.METRICS, Format.TEXT)
    shown = set(re.findall(r"^# TYPE (\w+)", page.decode(), re.MULTILINE))
    shown |= {
        judging.AGGREGATED.name,
        status.INCIDENT.name,
        status.INCIDENT_OPENED.name,
        status.PHASE.name,
    }
    shown |= {quantity.metric for quantity in CATALOG.values() if page_of(quantity) is Page.METRICS}
    assert set().union(*map(names_in, expressions(printed(capsys)))) <= shown


def test_counters_are_only_reserved_their_rates(capsys: pytest.CaptureFixture[str]) -> None:
    counters = {quantity.metric for quantity in CATALOG.values() if quantity.kind is Kind.COUNTER}
    found = [
        (expr, name) for expr in expressions(printed(capsys)) for name in counters & names_in(expr)
    ]
    assert found
    for expr, name in found:
        assert expr.count(name) == expr.count(f"rate({name}[")


def test_records_are_named_level_metric_operations(capsys: pytest.CaptureFixture[str]) -> None:
    for name, rule in rows(printed(capsys), "record").items():
        level, metric, operations = name.split(":")
        assert level in ("node", "cluster", "training_job", "incident", "exporter")
        assert metric.startswith("trntop_" if level == "exporter" else "trn_")
        assert not metric.endswith("_total")
        assert operations
        # A mean of means counts a node of two ranks like one of sixty-four.
        assert not re.search(r"avg without .*_ratio\)", rule["expr"]) or "mfu" in metric


def test_fault_58_each_alert_and_each_record_is_tested_in_good_and_bad_times(
    capsys: pytest.CaptureFixture[str], own: str
) -> None:
    for arguments in ((), ("--config", own)):
        text = printed(capsys, *arguments)
        settings = load(Path(arguments[1]), {}) if arguments else Settings()
        tests = parsed(unit_tests(rule_groups(settings)))["tests"]
        cases_seen: dict[str, set[str]] = {}
        fires: dict[str, set[bool]] = {}
        for test in tests:
            for check in test.get("alert_rule_test", ()):
                case = re.search(rf": ({'|'.join(CASES)})", test["name"])
                cases_seen.setdefault(check["alertname"], set()).update(
                    case.groups() if case else ()
                )
                fires.setdefault(check["alertname"], set()).add(bool(check["exp_alerts"]))
        alerts = rows(text, "alert")
        assert cases_seen.keys() == alerts.keys()
        for name, cases in cases_seen.items():
            assert cases == set(CASES), name
            assert fires[name] == {True, False}, name
        expressions = {
            check["expr"] for test in tests for check in test.get("promql_expr_test", ())
        }
        # Those are tested by the alerts that are made from them.
        within = {
            name for name in rows(text, "record") if name.startswith(("incident:", "exporter:"))
        }
        assert expressions | within == rows(text, "record").keys()


def promtool(folder: Path, command: str) -> None:
    run = subprocess.run(
        ["promtool", *command.split()], cwd=folder, capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "SUCCESS" in run.stdout


@needs_promtool
def test_promtool_is_content_with_rules_of_ones_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], own: str
) -> None:
    (tmp_path / "trntop.rules.yml").write_text(printed(capsys, "--config", own))
    promtool(tmp_path, "check rules --lint=all --lint-fatal trntop.rules.yml")


@needs_promtool
def test_promtool_is_content_with_what_is_deployed() -> None:
    promtool(DEPLOYED, "check rules --lint=all --lint-fatal trntop.rules.yml")
    promtool(DEPLOYED, "test rules trntop.tests.yml")
