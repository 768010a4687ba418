"""The hand-over report: its order, and that foreign text stays text."""

import dataclasses
import html
import random
import re
from pathlib import Path

import pytest

from tests.builders import NOON, make_incident, make_node, make_view, view_of, with_state
from trntop.catalog import NEURON_MONITOR, STEPS
from trntop.core.model import Incident, Severity, State, View
from trntop.exporters.markdown import plain
from trntop.exporters.report import MAX_ROWS, report

HOUR = 3600.0


def page(
    *incidents: Incident,
    last: View | None = None,
    **options: object,
) -> str:
    first = make_view(2, time=NOON - 8 * HOUR)
    text = report(
        first,
        last or make_view(2),
        8 * HOUR,
        incidents,
        **options,  # type: ignore[arg-type]
    )
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    assert "\n\n\n" not in text
    assert text.startswith("# trntop report, 2025-11-20 12:00:00 UTC\n\n")
    return text


def test_a_calm_shift_is_short() -> None:
    text = page()
    assert "\n\n**At 12:00:00 UTC: HEALTHY: no open incidents.**\n\n" in text
    assert "- Nodes: 2, 2 × trn2.48xlarge (trn-000, trn-001)\n" in text
    assert "- Time: 2025-11-20 04:00:00 UTC to 2025-11-20 12:00:00 UTC, 8 h of data\n" in text
    assert "- Job: pretrain-13b, 2 nodes, step 1,204" in text
    assert "SIMULATED" not in text
    assert "##" not in text.replace("## Not monitored", "")


def test_open_incidents_come_first_the_worst_before_the_rest() -> None:
    warning = dataclasses.replace(
        make_incident(opened_at=NOON - 600, job="pretrain-13b"),
        detected_at=NOON - 592.0,
        returns=2,
    )
    critical = make_incident("hang", severity=Severity.CRITICAL, node=None, component=None)
    closed = make_incident("straggler", opened_at=NOON - 2 * HOUR, closed_at=NOON - HOUR)
    text = page(closed, warning, critical)
    assert "**At 12:00:00 UTC: DEGRADED: 2 open incidents (1 critical).**" in text
    assert text.index("### 1. Hang, critical, for 1 min") < text.index("### 2. Comm bound, warning")
    assert text.index("### 2.") < text.index("## Closed (1)") < text.index("## Offending nodes")
    assert (
        "\nrdmap32s27 on trn-001: 2.1 % retransmits (peers 0.0 %)\n\n"
        "- Since 2025-11-20 11:50:00 UTC (detected after 8 s, recurred 2 times)\n"
        "- Location: trn-001, efa:rdmap32s27, job pretrain-13b\n"
        "- trn-001: comm share 31 % of step time\n"
        "- 16 nodes wait 0.9 s a step\n"
        "- Next step: "
    ) in text
    assert "- Runbook: `trntop rules comm_bound`" in text
    title, rule, row = text[text.index("| from, UTC") :].splitlines()[:3]
    names = [cell.strip() for cell in title.split("|")[1:7]]
    assert names == ["from, UTC", "duration", "kind", "severity", "location", "summary"]
    assert [len(cell) for cell in rule.split("|")[:6]] == [len(c) for c in title.split("|")[:6]]
    assert row.startswith(
        "| 2025-11-20 10:00:00 | 1 h      | Straggler | warning  | trn-001, efa:rdmap32s27 | "
    )
    assert "| trn-001 | 2         | Straggler, Comm bound |" in text


def test_an_acknowledged_incident_shows_since_when() -> None:
    first, other = make_incident("hang"), make_incident("ecc_uncorrected", node="trn-002")
    text = page(first, other, acknowledged={first.id: NOON - 30})
    assert text.count("- Acknowledged 2025-11-20 11:59:30 UTC\n") == 1


def test_an_incident_of_severity_info_is_healthy() -> None:
    text = page(make_incident("version_skew", severity=Severity.INFO))
    assert "**At 12:00:00 UTC: HEALTHY: 1 open incident (info).**" in text


def test_no_data_is_inconclusive() -> None:
    empty = make_view(1, devices=0, efa=0, jobs=(), runtimes=0, state=State.STARTING)
    keys = dataclasses.replace(empty.cluster.nodes["trn-000"].inventory, keys={})
    node = dataclasses.replace(empty.cluster.nodes["trn-000"], inventory=keys)
    assert "INCONCLUSIVE, no data." in page(last=view_of(node))
    assert "INCONCLUSIVE, no data." in page(last=make_view(0))


def test_sources_that_are_down_are_listed() -> None:
    nodes = [make_node(index) for index in range(12)]
    nodes[3:] = [
        with_state(node, NEURON_MONITOR, State.STALE, "silent for 14 s") for node in nodes[3:]
    ]
    text = page(last=view_of(*nodes))
    assert "HEALTHY: no open incidents, but some sources are down." in text
    assert (
        "- neuron-monitor of 9 nodes (trn-003, trn-004, trn-005, trn-006, trn-007, trn-008, "
        "… 3 more), stale: silent for 14 s"
    ) in text
    # An optional source that never reported is listed, but does not change the verdict.
    node = make_node(0, states={STEPS: State.STARTING})
    text = page(last=view_of(node))
    assert "**At 12:00:00 UTC: HEALTHY: no open incidents.**" in text
    assert "- steps of 1 node (trn-000), starting" in text


def test_the_choice_is_reported() -> None:
    text = page(chosen="of the kind hang")
    assert "- Only incidents of the kind hang\n" in text
    assert "HEALTHY: no selected open incidents." in text


def test_simulated_values_are_marked() -> None:
    text = page(last=make_view(2, simulated=True))
    assert text.splitlines()[2] == "**SIMULATED**: these values come from a simulator."


@pytest.mark.parametrize(
    ("foreign", "shown"),
    [
        ("rdmap16s27 of trn-007", "rdmap16s27 of trn-007"),
        ("comm_bound, 31 % (a/b)", "comm_bound, 31 % (a/b)"),
        ("# head", "\\# head"),
        ("- item", "\\- item"),
        ("---", "\\---"),
        ("1. one", "1\\. one"),
        ("2) two", "2\\) two"),
        ("-5 °C", "-5 °C"),
        ("16 nodes", "16 nodes"),
        ("a|b", "a\\|b"),
        ("<script>alert(1)</script>", "\\<script\\>alert(1)\\</script\\>"),
        ("[x](javascript:1)", "\\[x\\](javascript:1)"),
        ("![x](http://y)", "!\\[x\\](http://y)"),
        ("**b** _i_ `c` ~~s~~ $m$", "\\*\\*b\\*\\* \\_i\\_ \\`c\\` \\~\\~s\\~\\~ \\$m\\$"),
        ("&lt;", "\\&lt;"),
        ("a\\|b", "a\\\\\\|b"),
        ("two\n\n# lines", "two # lines"),
    ],
)
def test_foreign_text_stays_text(foreign: str, shown: str) -> None:
    assert plain(foreign) == shown


def test_foreign_text_is_rendered_as_it_is() -> None:
    markdown = pytest.importorskip("markdown_it").MarkdownIt("commonmark").enable("table")
    pieces = [*"ab1_*`#<>[]()!|\\~&;-+=.: ", "&lt;", "---", "1. ", "**"]
    dice = random.Random(1)
    for _ in range(500):
        text = "".join(dice.choices(pieces, k=dice.randint(1, 12)))
        page = f"- {plain(text)}\n\n| a | b |\n|---|---|\n| {plain(text)} | x |\n"
        item, cell = re.findall(r"<(?:li|td)>(.*?)</(?:li|td)>", markdown.render(page))[:2]
        assert html.unescape(item) == html.unescape(cell) == " ".join(text.split())


def test_no_name_breaks_the_page() -> None:
    evil = "x\n\n# **owned** <img src=x> | a |"
    incident = dataclasses.replace(
        make_incident(evil, job=evil, node=evil, component=evil, summary=evil), evidence=()
    )
    closed = dataclasses.replace(incident, closed_at=NOON)
    text = page(incident, closed, last=make_view(1, jobs=(evil,)))
    assert "<img" not in text.replace("\\<img", "")
    assert "**owned" not in text
    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert all(line.startswith(("# trntop", "## ", "### 1. x # \\*")) for line in headings)
    (row,) = (line for line in text.splitlines() if line.startswith("| 2025-"))
    assert row.replace("\\|", "").count("|") == 7


def test_a_long_list_is_cut() -> None:
    closed = [
        make_incident(opened_at=NOON - 60 * number, closed_at=NOON, node=f"trn-{number:03}")
        for number in range(MAX_ROWS + 7)
    ]
    text = page(*closed)
    assert "and 7 earlier incidents (`trntop analyze --json` lists all)" in text
    assert "and 7 more nodes" in text


def test_a_time_beyond_all_calendars() -> None:
    odd = dataclasses.replace(make_incident(closed_at=1e300), opened_at=-1e300)
    assert "| – " in page(odd)


def test_the_runbook_that_is_named_exists() -> None:
    folder = Path(__file__).parents[2] / "docs" / "runbooks"
    text = page(make_incident("comm_bound"))
    assert "`trntop rules comm_bound`" in text
    assert (folder / "comm_bound.md").exists()
