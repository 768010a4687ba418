"""The dashboards, without a Grafana: their form, their expressions, and what a Prometheus gives.

Rules named after dashboard-linter's are those of https://github.com/grafana/dashboard-linter.
"""

import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import promql_parser
import pytest
from msgspec.structs import replace

from trntop.analysis.rulebook import RULEBOOK
from trntop.catalog import CATALOG, Kind, Page, page_of
from trntop.core.errors import UsageError
from trntop.core.settings import Analysis
from trntop.exporters import shipped_dashboards
from trntop.exporters.metrics import allocations, judging, pages, process, status
from trntop.exporters.metrics.exposition import Family

FOLDER = Path(__file__).parents[2] / "deploy" / "grafana"
NAMES = shipped_dashboards.NAMES

SUBSTITUTES = {
    "$__rate_interval": "1m",
    "$__range": "1h",
    "$top": "10",
    **{f"${name}": ".+" for name in ("training_job", "instance", "job", "node")},
}
"""Variable → its value here. All, where all can be chosen."""

FAMILIES: dict[str, Kind] = {
    family.name: family.kind
    for module in (status, allocations, pages, judging)
    for family in vars(module).values()
    if isinstance(family, Family)
} | {family.name: family.kind for family, _ in process.families()}
"""Metrics that are not in the catalog."""

EXPORTED = {quantity.metric: quantity.kind for quantity in CATALOG.values() if page_of(quantity)}
FOREIGN = {"up"}
"""Prometheus' own."""

UNUSED = {
    "process_virtual_memory_bytes": "resident memory is what is limited",
    "process_max_fds": "see process_open_fds",
    "trntop_behind_seconds": "trntop and trntop incidents state it",
    "trn_rule_info": "alerts quote it",
    "trntop_nodes": "lists the exporters to choose from",
}
"""Metrics of `/metrics` that no dashboard shows → why."""

UNITS = {
    "short", "percentunit", "locale", "s", "bytes", "Bps", "bps", "pps", "cps", "ops", "flops",
    "dateTimeAsIso", "dateTimeAsIsoNoDateIfToday",
}  # fmt: skip
"""Grafana's units that are used, all of them on dashboard-linter's list."""


@pytest.fixture(scope="module", params=NAMES)
def board(request: pytest.FixtureRequest) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((FOLDER / f"{request.param}.json").read_text("utf-8"))
    return document


def panels(board: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """All that show values; rows are headings."""
    for section in board["panels"]:
        inside = section.get("panels", []) if section["type"] == "row" else [section]
        yield from (panel for panel in inside if panel["type"] != "text")


def targets(board: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Panel and target."""
    for panel in panels(board):
        for target in panel.get("targets", []):
            yield panel, target


def expressions(board: dict[str, Any]) -> Iterator[str]:
    """Of panels, annotations and variables."""
    yield from (target["expr"] for _, target in targets(board))
    yield from (annotation["target"]["expr"] for annotation in board["annotations"]["list"])
    yield from (selector_of(setting) for setting in queried(board))


def queried(board: dict[str, Any]) -> list[dict[str, Any]]:
    return [setting for setting in board["templating"]["list"] if setting["type"] == "query"]


def selector_of(variable: dict[str, Any]) -> str:
    """The selector in `label_values(SELECTOR, label)`."""
    found = re.fullmatch(r"label_values\((.+), \w+\)", variable["query"]["query"])
    assert found is not None
    return found[1]


def substituted(expr: str) -> str:
    for name, value in SUBSTITUTES.items():
        # Where one alone is chosen it is compared, and any one does here.
        expr = expr.replace(f'="{name}"', f'=~"{value}"').replace(name, value)
    return expr.replace("=~~", "=~").replace("=~=~", "=~")


def metrics(expr: str) -> set[str]:
    return set(re.findall(r"(?<![\w\"])(?:trn|trntop|process)_[a-z0-9_]+|\bup(?=\{)", expr))


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    """What makes them; its library is for development alone."""
    pytest.importorskip("grafana_foundation_sdk")
    return importlib.import_module("tools.dashboards.__main__")


@pytest.mark.dev
@pytest.mark.parametrize("name", NAMES)
def test_what_is_committed_is_what_is_made(name: str, generator: ModuleType) -> None:
    made = generator.encode(generator.boards()[name])
    assert (FOLDER / f"{name}.json").read_text("utf-8") == made, "run python -m tools.dashboards"


@pytest.mark.dev
def test_there_are_no_others(generator: ModuleType) -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == set(NAMES) == generator.boards().keys()


@pytest.mark.dev
def test_the_typed_round_trip_loses_nothing(board: dict[str, Any], generator: ModuleType) -> None:
    typed = type(generator.boards()["node"])
    assert json.loads(generator.encode(typed.from_json(board))) == board


def test_every_dashboard_has_its_own_lasting_name(board: dict[str, Any]) -> None:
    name = board["uid"].removeprefix("trntop-")
    assert name in NAMES
    assert board["title"].casefold().endswith(name)
    assert "id" not in board
    assert board["tags"] == ["trntop"]
    assert board["description"]


def test_panels_do_not_overlap(board: dict[str, Any]) -> None:
    covered: set[tuple[int, int]] = set()
    numbers: set[int] = set()
    for section in board["panels"]:
        inside = section.get("panels", []) if section["type"] == "row" else []
        for panel in (section, *inside):
            assert panel["id"] not in numbers
            numbers.add(panel["id"])
        position = section["gridPos"]
        assert position["x"] + position["w"] <= 24
        cells = {
            (x, y)
            for x in range(position["x"], position["x"] + position["w"])
            for y in range(position["y"], position["y"] + position["h"])
        }
        assert not cells & covered, section["title"]
        covered |= cells
    folded = [bool(section.get("collapsed")) for section in board["panels"]]
    assert folded == sorted(folded), "collapsed rows are at the bottom"


def test_rows_are_filled(board: dict[str, Any]) -> None:
    """No hole between panels: what begins a line is followed up to the right edge."""
    lines: dict[int, int] = {}
    for section in board["panels"]:
        position = section["gridPos"]
        lines[position["y"]] = lines.get(position["y"], 0) + position["w"]
    assert {y: width for y, width in lines.items() if width != 24} == {}


# dashboard-linter's rules; none has an exception


def test_template_datasource_rule(board: dict[str, Any]) -> None:
    (setting,) = [row for row in board["templating"]["list"] if row["type"] == "datasource"]
    assert (setting["name"], setting["label"], setting["query"]) == (
        "datasource",
        "Data source",
        "prometheus",
    )


@pytest.mark.parametrize("name", ["job", "instance"])
def test_template_job_and_instance_rules(board: dict[str, Any], name: str) -> None:
    (setting,) = [row for row in board["templating"]["list"] if row["name"] == name]
    assert setting["type"] == "query"
    assert setting["datasource"]["uid"] == "$datasource"
    assert setting["label"] == name.title()
    assert setting["multi"]
    assert setting["allValue"] == ".+"


def test_template_label_promql_rule(board: dict[str, Any]) -> None:
    for setting in queried(board):
        promql_parser.parse(substituted(selector_of(setting)))


def test_template_on_time_change_reload_rule(board: dict[str, Any]) -> None:
    assert [setting["refresh"] for setting in queried(board)] == [2] * len(queried(board))


def test_panel_datasource_rule(board: dict[str, Any]) -> None:
    for panel, target in targets(board):
        assert panel["datasource"] == target["datasource"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "$datasource"}


def test_panel_title_description_rule(board: dict[str, Any]) -> None:
    for panel in panels(board):
        assert panel["title"]
        assert len(panel["description"]) > 20, panel["title"]


def test_panel_units_rule(board: dict[str, Any]) -> None:
    for panel in panels(board):
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS, panel["title"]
        for override in panel["fieldConfig"]["overrides"]:
            for item in override["properties"]:
                assert item["id"] != "unit" or item["value"] in UNITS, panel["title"]


def test_panel_no_targets_rule(board: dict[str, Any]) -> None:
    for panel in panels(board):
        assert panel["targets"]
        letters = [target["refId"] for target in panel["targets"]]
        assert len(set(letters)) == len(letters)


def test_target_promql_rule(board: dict[str, Any]) -> None:
    for expr in expressions(board):
        promql_parser.parse(substituted(expr))


def test_target_rate_interval_rule(board: dict[str, Any]) -> None:
    for expr in expressions(board):
        for function, window in re.findall(r"(\w+) ?\([^()\[\]]*\[([^\]]+)\]", expr):
            if function in ("rate", "irate", "increase"):
                assert window == "$__rate_interval", expr


@pytest.mark.parametrize("label", ["job", "instance"])
def test_target_job_and_instance_rules(board: dict[str, Any], label: str) -> None:
    for _, target in targets(board):
        for selector in re.findall(r"\{[^{}]*\}", target["expr"]):
            assert f'{label}=~"${label}"' in selector, target["expr"]


def test_target_counter_agg_rule(board: dict[str, Any]) -> None:
    for expr in expressions(board):
        for before in re.findall(r"(\w*)\(?[a-z_]+_total\{", expr):
            assert before in ("rate", "irate", "increase"), expr


def test_uneditable_dashboard_rule(board: dict[str, Any]) -> None:
    assert board["editable"] is False


# Descriptions, and whether they are true


def test_every_metric_exists(board: dict[str, Any]) -> None:
    for expr in expressions(board):
        found = metrics(expr)
        assert found <= EXPORTED.keys() | FAMILIES.keys() | FOREIGN, expr


def test_only_counters_are_queried_as_rates(board: dict[str, Any]) -> None:
    kinds = EXPORTED | FAMILIES
    for expr in expressions(board):
        for name in re.findall(r"rate\(([a-z_0-9]+)\{", expr):
            assert kinds[name] is Kind.COUNTER, expr


def test_every_metric_of_the_main_page_is_used() -> None:
    used: set[str] = set()
    for name in NAMES:
        document = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
        used |= {metric for expr in expressions(document) for metric in metrics(expr)}
    page = {quantity.metric for quantity in CATALOG.values() if page_of(quantity) is Page.METRICS}
    page |= FAMILIES.keys()
    assert page - used == UNUSED.keys()


def test_descriptions_name_the_origin_of_values(board: dict[str, Any]) -> None:
    by_metric = {quantity.metric: quantity for quantity in CATALOG.values()}
    for panel in panels(board):
        for target in panel["targets"]:
            for name in metrics(target["expr"]) & by_metric.keys():
                line = f"- `{name}`: {by_metric[name].help} ({by_metric[name].provenance})"
                assert line in panel["description"]


def test_absent_is_a_dash_and_never_0(board: dict[str, Any]) -> None:
    for panel in panels(board):
        fields = panel["fieldConfig"]["defaults"]
        assert fields["noValue"] == "–"
        *_, null = fields["mappings"]
        assert null["options"] == {
            "match": "null+nan",
            "result": {"index": null_index(fields), "text": "–"},
        }
        for expr in (target["expr"] for target in panel["targets"]):
            assert "vector(0)" not in expr
        if panel["type"] == "timeseries":
            assert fields["custom"]["spanNulls"] is False


def null_index(fields: dict[str, Any]) -> int:
    """The index of the mapping of absent values."""
    return sum(len(mapping["options"]) for mapping in fields["mappings"][:-1])


def test_every_kind_is_explained() -> None:
    document = (FOLDER / "cluster.json").read_text("utf-8")
    for rule in RULEBOOK:
        assert f"`{rule.kind}`" in document
        assert json.dumps(rule.advice, ensure_ascii=False)[1:-1] in document


def test_single_values_are_those_of_now(board: dict[str, Any]) -> None:
    for panel, target in targets(board):
        now = panel["type"] in ("stat", "table")
        assert (target["instant"], target["range"]) == (now, not now), panel["title"]


def test_limits_are_the_rulebooks() -> None:
    defaults = Analysis()
    limits = {
        ("cluster", "Comm share of step", "timeseries"): defaults.comm_share,
        ("cluster", "Comm share of step", "stat"): defaults.comm_share,
        ("cluster", "Exposed comm share", "stat"): defaults.exposed_comm_share,
        ("cluster", "HBM, fullest device", "timeseries"): defaults.memory,
        ("efa", "Worst retransmit rate", "stat"): defaults.retransmits,
    }
    for (name, title, kind), limit in limits.items():
        document = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
        (panel,) = [
            panel for panel in panels(document) if panel["title"] == title and panel["type"] == kind
        ]
        calm, over = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
        assert calm["color"] == "text"
        assert over["value"] == limit


def test_open_incidents_are_first(board: dict[str, Any]) -> None:
    first = next(panels(board))
    position = first["gridPos"]["x"], first["gridPos"]["y"]
    assert (first["title"], first["type"], position) == ("Open incidents", "table", (0, 0))


def test_no_two_panels_of_one_type_have_the_same_title(board: dict[str, Any]) -> None:
    titles = [(panel["title"], panel["type"]) for panel in panels(board) if panel["type"] != "row"]
    assert len(titles) == len(set(titles))


def test_simulated_nodes_are_marked(board: dict[str, Any]) -> None:
    (first,) = [panel for panel in panels(board) if panel["title"] == "Data source"]
    assert first["gridPos"]["y"] < 9, "it is visible at once"
    assert first["fieldConfig"]["defaults"]["mappings"][0]["options"]["1"]["text"] == "SIMULATED"


def test_links_lead_to_the_other_dashboards_and_carry_the_choice_along() -> None:
    documents = {name: json.loads((FOLDER / f"{name}.json").read_text("utf-8")) for name in NAMES}
    variables = {
        document["uid"]: {setting["name"] for setting in document["templating"]["list"]}
        for document in documents.values()
    }
    found = set()
    for document in documents.values():
        (others,) = document["links"]
        assert (others["tags"], others["includeVars"], others["keepTime"]) == (
            ["trntop"],
            True,
            True,
        )
        for url in re.findall(r'"url": "(/d/[^"]+)"', json.dumps(document)):
            uid, variable = re.match(r"/d/([\w-]+)\?var-(\w+)=\$\{__value\.raw\}&", url).groups()  # type: ignore[union-attr]
            assert variable in variables[uid]
            assert "${__url_time_range}" in url
            for carried in re.findall(r"\$\{(\w+):queryparam\}", url):
                assert carried in variables[uid]
            found.add(uid)
    assert found == {"trntop-node", "trntop-efa", "trntop-job"}


def test_incidents_are_annotations_at_the_time_the_data_gives(board: dict[str, Any]) -> None:
    opened = [
        annotation for annotation in board["annotations"]["list"] if annotation["useValueForTime"]
    ]
    assert [panel["name"] for panel in opened] == [
        "Opened: critical", "Opened: warning", "Opened: info",
    ]  # fmt: skip
    for panel in opened:
        assert "trn_incident_opened_timestamp_seconds{" in panel["target"]["expr"]
        assert panel["target"]["expr"].endswith(") * 1000")  # milliseconds


def test_tables_show_what_they_ask_for(board: dict[str, Any]) -> None:
    for panel in panels(board):
        if panel["type"] != "table":
            continue
        letters = [f"Value #{target['refId']}" for target in panel["targets"]]
        letters = letters if len(letters) > 1 else ["Value"]
        (options,) = [
            transformation["options"]
            for transformation in panel["transformations"]
            if transformation["id"] == "organize"
        ]
        shown = options["renameByName"]
        assert set(letters) == {
            name for name in {**shown, **options["excludeByName"]} if name.startswith("Value")
        }
        titles = list(shown.values())
        assert len(set(titles)) == len(titles)
        (sort,) = panel["options"]["sortBy"]
        assert sort["displayName"] in titles
        for override in panel["fieldConfig"]["overrides"]:
            assert override["matcher"]["options"] in titles


# As shipped


def test_shipped_ones_are_those_of_the_repository() -> None:
    for name in NAMES:
        assert shipped_dashboards.read(name) == (FOLDER / f"{name}.json").read_text("utf-8")


def test_they_are_written_into_a_folder(tmp_path: Path) -> None:
    written = shipped_dashboards.write(tmp_path / "new", Analysis())
    assert [path.name for path in written] == [f"trntop-{name}.json" for name in NAMES]
    for name, path in zip(NAMES, written, strict=True):
        assert path.read_text("utf-8") == shipped_dashboards.read(name)
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="file: File exists"):
        shipped_dashboards.write(tmp_path / "file", Analysis())


@pytest.mark.parametrize("setting", shipped_dashboards.LIMITS)
def test_thresholds_are_the_limits_in_force(setting: str, tmp_path: Path) -> None:
    usual = Analysis()
    shipped_dashboards.write(tmp_path, replace(usual, **{setting: 0.123}))
    color = shipped_dashboards.LIMITS[setting]
    default = {"color": color, "value": getattr(usual, setting)}
    boards = {name: shipped_dashboards.read(name) for name in NAMES}
    for name, board in boards.items():
        before = thresholds(json.loads(board))
        after = thresholds(json.loads((tmp_path / f"trntop-{name}.json").read_text("utf-8")))
        changed = [step | {"value": 0.123} if step == default else step for step in before]
        assert after == changed
    assert any(default in thresholds(json.loads(board)) for board in boards.values())


def thresholds(made: Any) -> list[dict[str, Any]]:
    """The steps of all thresholds in a dashboard."""
    if isinstance(made, list):
        return [step for panel in made for step in thresholds(panel)]
    if not isinstance(made, dict):
        return []
    return ([made] if made.keys() == {"color", "value"} else []) + thresholds([*made.values()])


def test_the_library_is_not_needed_for_them() -> None:
    code = (
        "import sys; from trntop.exporters import shipped_dashboards as s; s.read('node');"
        "print('grafana_foundation_sdk' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert run.stdout == "False\n"
