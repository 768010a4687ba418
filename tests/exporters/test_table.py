import math
import re

import pytest

from tests.builders import NOON, make_incident, make_node, make_view, node_name, view_of
from trntop.catalog import EFA_SOURCE, NEURON_MONITOR, STEPS
from trntop.exporters.table import LEGEND, _cells, incidents_text, snapshot_text
from trntop.model import Severity, State, View

CRITICAL = make_incident("node_silent", severity=Severity.CRITICAL, component=None)


def shown(view: View, width: int = 100) -> str:
    return snapshot_text(view, width, utc=True)


def row(text: str, name: str) -> list[str]:
    """The cells of the first row that begins with `name`."""
    return next(line.split() for line in text.splitlines() if line.split()[:1] == [name])


def test_headline() -> None:
    head = shown(make_view(2)).splitlines()[0]
    assert head == "trntop  12:00:00 UTC  2 nodes  1 job (pretrain-13b)"
    assert "SIMULATED" in shown(make_view(1, simulated=True)).splitlines()[0]
    assert "recording ended" in shown(make_view(1, ended=True)).splitlines()[0]
    many = shown(make_view(1, jobs=[f"j{number}" for number in range(9)])).splitlines()[0]
    assert "9 jobs (j0, j1, j2, …)" in many


def test_row_of_a_node_with_marks() -> None:
    text = shown(make_view(2, incidents=[make_incident()]))
    assert row(text, "trn-000")[:6] == ["trn-000", "fresh", "92d", "4/4d", "55d", "321d"]
    assert row(text, "trn-000")[6:] == ["29r", "18r", "4.25r"]
    assert row(text, "trn-001")[-1] == "1", "its incident"
    assert text.splitlines()[-1] == LEGEND


def test_unknown_is_a_dash() -> None:
    text = shown(make_view(2, state=State.STALE, reason="silent for 14 s"))
    assert row(text, "trn-000")[:3] == ["trn-000", "stale", "14"]
    assert set(row(text, "trn-000")[4:]) == {"–"}
    assert f"trn-000  {NEURON_MONITOR}: silent for 14 s" in text
    assert not re.search(r"(?i)\bnan\b", text)


def test_idle_is_not_unknown() -> None:
    view = make_view(2, columns={"neuroncore_utilization_ratio": [0.0] * 4})
    assert row(shown(view), "trn-000")[2:4] == ["0d", "0/4d"]
    view = make_view(2, columns={"neuroncore_utilization_ratio": [math.nan] * 4})
    assert row(shown(view), "trn-000")[2:4] == ["–", "–"]


def test_silent_sources_are_listed_up_to_a_number() -> None:
    text = shown(make_view(10, states={STEPS: State.DOWN}, reason="no such directory"))
    assert text.count("steps: no such directory") == 8
    assert "and 2 sources more" in text


def test_one_node_shows_its_parts() -> None:
    text = shown(make_view(1, devices=2, cores_per_device=4))
    assert row(text, "1") == ["1", "61d", "58.6d", "96.0", "0", "94", "95", "96", "97"]
    assert row(text, "rdmap16s27") == ["rdmap16s27", "160d", "152d", "200", "0.0d", "0d"]
    assert "rdmap16s27" not in shown(make_view(2))


def test_parts_without_values() -> None:
    text = shown(make_view(1, states={NEURON_MONITOR: State.DOWN, EFA_SOURCE: State.DOWN}))
    assert set(row(text, "rdmap16s27")[1:]) == {"–"}
    assert set(row(text, "0")[1:]) == {"–"}


def test_the_job_that_communicates_most_stands_for_the_node() -> None:
    view = make_view(
        2,
        jobs=("a", "b", "c"),
        columns={
            "job_comm_seconds": [0.5, 2.0, math.nan],
            "job_step_seconds": [4.0, 5.0, 6.0],
        },
    )
    assert row(shown(view), "trn-000")[6:] == ["40r", "15r", "5.00r"]


def test_nothing_heard() -> None:
    assert shown(make_view(0)) == "trntop  12:00:00 UTC  0 nodes  nothing has been heard yet\n"


@pytest.mark.parametrize("width", [80, 100, 200])
@pytest.mark.parametrize(
    "view",
    [
        make_view(3, incidents=[make_incident(), CRITICAL], simulated=True),
        make_view(1, 16, 8, 16, reason="why " * 100, states={EFA_SOURCE: State.DOWN}),
        view_of(make_node(name="ip-10-0-12-34.us-west-2.compute.internal" * 3)),
        view_of(make_node(name="訓練ノード" * 20, jobs=["仕事" * 50])),
        make_view(1, incidents=[make_incident(summary="長い" * 60, node="節" * 70)]),
        make_view(0),
    ],
    ids=["fleet", "whole node", "long name", "wide name", "wide incident", "empty"],
)
def test_fits_the_width(view: View, width: int) -> None:
    for text in (shown(view, width), incidents_text(view.incidents, width, utc=True)):
        for line in text.splitlines():
            assert _cells(line) <= width, line
            assert line == line.rstrip()


def test_narrow_terminals_lose_the_least_columns_first() -> None:
    view = make_view(2, incidents=[make_incident()])
    assert "incidents" in shown(view, 100)
    narrow = shown(view, 60)
    assert "incidents" not in narrow
    assert "util" in narrow


def test_open_incidents_stand_above_the_fleet() -> None:
    closed = make_incident("hang", closed_at=NOON)
    text = shown(make_view(2, incidents=[CRITICAL, closed]))
    assert text.index("▲ critical  node_silent  trn-001") < text.index("trn-000")
    assert "hang" not in text


def test_colour_is_asked_for() -> None:
    view = make_view(2, incidents=[CRITICAL])
    assert "\x1b" not in shown(view)
    coloured = snapshot_text(view, 100, color=True, utc=True)
    assert "\x1b[31m▲ critical\x1b[0m" in coloured
    assert re.sub(r"\x1b\[\d+m", "", coloured) == shown(view)


def test_report() -> None:
    incidents = [
        make_incident(job="pretrain-13b", closed_at=NOON + 200),
        make_incident("node_silent", severity=Severity.CRITICAL, component=None),
    ]
    assert incidents_text(incidents, 80, utc=True).splitlines() == [
        "11:59:00  △ warning   comm_bound for 4 min  trn-001 efa:rdmap32s27 pretrain-13b",
        "          EFA card rdmap32s27 on trn-001 retransmits 2.1 % (siblings 0.0 %)",
        "            - trn-001: comm share 31 % of step time",
        "            - 16 nodes wait 0.9 s a step",
        "11:59:00  ▲ critical  node_silent  trn-001",
        "          EFA card rdmap32s27 on trn-001 retransmits 2.1 % (siblings 0.0 %)",
        "            - trn-001: comm share 31 % of step time",
        "            - 16 nodes wait 0.9 s a step",
        "2 incidents: 1 critical, 1 warning; 1 still open",
    ]


def test_report_of_nothing() -> None:
    assert incidents_text([], 80) == "no incidents\n"


def test_a_thousand_nodes_have_a_thousand_rows() -> None:
    node = make_node()
    view = view_of(*(make_node(index, 1, 1, 1) for index in range(100)), node)
    assert sum(line.startswith("trn-") for line in shown(view).splitlines()) == 100
    assert node_name(99) in shown(view)
