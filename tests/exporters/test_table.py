import dataclasses
import math
import re

import pytest
from rich.cells import cell_len

from tests.builders import NOON, make_incident, make_node, make_view, node_name, view_of
from trntop.catalog import (
    EFA_SOURCE,
    NEURON_MONITOR,
    NEURON_SYSFS,
    PROFILES,
    STEPS,
    TENSOR_ENGINE,
    Entity,
)
from trntop.core.model import Process, Runtime, Severity, State, View
from trntop.exporters.table import LEGEND, incidents_text, snapshot_text

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
    text = shown(make_view(2, incidents=[make_incident()]), 120)
    assert row(text, "trn-000")[:7] == ["trn-000", "fresh", "training", "92d", "34d", "55d", "38d"]
    assert row(text, "trn-000")[7:] == ["4/4d", "321d", "29r", "18r", "4.25r"]
    assert row(text, "trn-001")[-1] == "1", "its incident"
    assert text.splitlines()[-1] == LEGEND


def test_unknown_is_a_dash() -> None:
    text = shown(make_view(2, state=State.STALE, reason="silent for 14 s"))
    assert row(text, "trn-000")[:3] == ["trn-000", "stale", "14"]
    assert set(row(text, "trn-000")[4:]) == {"–"}
    assert f"\n{NEURON_MONITOR} stale: silent for 14 s\n" in text
    assert not re.search(r"(?i)\bnan\b", text)


def test_idle_is_not_unknown() -> None:
    view = make_view(2, columns={"neuroncore_utilization_ratio": [0.0] * 4})
    assert row(shown(view, 120), "trn-000")[3:8] == ["0d", "34d", "55d", "38d", "0/4d"]
    view = make_view(2, columns={"neuroncore_utilization_ratio": [math.nan] * 4})
    assert row(shown(view, 120), "trn-000")[3:8] == ["–", "34d", "55d", "38d", "–"]


def test_silent_sources_are_listed_once() -> None:
    text = shown(make_view(10, states={STEPS: State.DOWN}, reason="no such directory"))
    assert text.count("\nsteps down: no such directory\n") == 1


def test_one_node_shows_its_parts() -> None:
    text = shown(make_view(1, devices=2, cores_per_device=4), 200)
    device = row(text, "1")
    assert device[:9] == ["1", "61d", "58.6d", "96.0", "38d", "1,102d", "34d", "60", "0"]
    assert device[9:] == ["0", "1", "01:1e.0", "rdmap32s27"]
    efa_device = row(text, "rdmap16s27")
    assert efa_device[:6] == ["rdmap16s27", "160d", "152d", "200d", "100d", "0.0d"]
    assert efa_device[6:] == ["0d", "0d", "0d", "0d", "0"]
    process = row(text, "python3")
    assert process[:6] == ["python3", "train.py", "4711", "0-1", "0-7", "200"]
    assert process[-2:] == ["2.30.51", "train_step.neff*"]
    assert "training d since 08:48:00: step 1,204" in text
    assert row(text, "neuron-sysfs") == ["neuron-sysfs", "fresh", "0", "s", "10", "s"]
    assert "rdmap16s27" not in shown(make_view(2))


def test_lost_efa_devices_are_marked() -> None:
    counts = [math.nan, 5.0]
    view = make_view(1, columns={"efa_tx_bytes_total": counts})
    text = shown(view, 160)
    assert row(text, "rdmap16s27")[-1] == "lost"
    assert row(text, "rdmap32s27")[-1] != "lost"


def test_an_efa_device_whose_link_is_down_and_a_device_with_errors() -> None:
    node = make_node()
    inventory = dataclasses.replace(
        node.inventory,
        efa_links={"rdmap16s27": {"state": "1: DOWN"}},
        device_links={0: {"unhealthy": "hbm, sram"}, 1: {"lost": "No such device"}},
    )
    text = shown(view_of(dataclasses.replace(node, inventory=inventory)), 120)
    assert "1: DOWN" in text
    assert "unhealthy: hbm, sram" in text
    assert "lost: No such device" in text


def test_errors_counted_by_neuron_monitor_where_the_driver_is_silent() -> None:
    states = {NEURON_SYSFS: State.DOWN}
    columns = {"device_mem_ecc_uncorrected_events": [0.0, 7.0]}
    assert row(shown(make_view(1, states=states, columns=columns), 120), "1")[8] == "7"


def test_processes_of_either_source() -> None:
    node = make_node()
    inventory = dataclasses.replace(
        node.inventory,
        processes=(Process(99, "tail.py", (0, 1, 3)),),
        runtimes=(Runtime(4711, "task", error="out of device memory"),),
    )
    text = shown(view_of(dataclasses.replace(node, inventory=inventory)), 120)
    assert row(text, "tail.py")[:3] == ["tail.py", "99", "0-1,3"]
    assert row(text, "task")[:6] == ["task", "out", "of", "device", "memory", "4711"]


def test_an_estimated_communication_share_is_a_range() -> None:
    floor, ceiling = "node_comm_share_floor_ratio", "node_comm_share_ceiling_ratio"
    for columns, cell in (
        ({floor: [0.03], ceiling: [0.4]}, "~3-40"),
        ({floor: [0.3], ceiling: [0.2]}, "~≥ 30"),
        ({floor: [0.3], ceiling: None}, "~≥ 30"),
        ({floor: None, ceiling: [0.4]}, "~≤ 40"),
    ):
        view = make_view(2, jobs=(), states={STEPS: State.DOWN}, reason="none", columns=columns)
        text = shown(view)
        assert f" {cell} " in text, columns
        assert "~ comm: steps: none" in text
    view = make_view(2, states={STEPS: State.DOWN, EFA_SOURCE: State.DOWN}, reason="none")
    assert "– comm: steps: none" in shown(view)


def test_missing_values_have_a_reason() -> None:
    silent = {PROFILES: State.DOWN, TENSOR_ENGINE: State.DOWN}
    node = make_node(0, states=silent, reason="needs SDK 2.25")
    text = shown(view_of(node, make_node(1)))
    assert "~ HBM bw: no profile of train_step.neff: trntop profile add FILE (trn-000)" in text
    assert "– TE: tensor-engine: needs SDK 2.25 (trn-000)" in text
    text = shown(view_of(*(make_node(index, states=silent, reason="x") for index in range(3))))
    assert "– TE: tensor-engine: x\n" in text


def test_reasons_of_sources_are_below_or_next_to_them() -> None:
    text = shown(make_view(1, states={EFA_SOURCE: State.DOWN}, reason="no such directory"))
    assert re.search(r"^efa +down +14 s +1 s  no such directory$", text, re.MULTILINE)
    text = shown(make_view(1, states={EFA_SOURCE: State.DOWN}, reason="why " * 40), 80)
    assert "\n    why why" in text


def test_parts_without_values() -> None:
    silent = dict.fromkeys((NEURON_MONITOR, NEURON_SYSFS, EFA_SOURCE), State.DOWN)
    text = shown(make_view(1, states=silent), 120)
    assert set(row(text, "rdmap16s27")[1:]) == {"–", "0"}
    assert row(text, "0")[1:5] == ["–"] * 4


def test_the_job_that_communicates_most_represents_the_node() -> None:
    view = make_view(
        2,
        jobs=("a", "b", "c"),
        columns={
            "job_comm_seconds": [0.5, 2.0, math.nan],
            "job_step_seconds": [4.0, 5.0, 6.0],
        },
    )
    assert row(shown(view, 120), "trn-000")[9:] == ["40r", "15r", "5.00r"]


def test_no_data() -> None:
    assert shown(make_view(0)) == "trntop  12:00:00 UTC  0 nodes  no data yet\n"


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
            assert cell_len(line) <= width, line
            assert line == line.rstrip()


def test_narrow_terminals_lose_the_least_columns_first() -> None:
    view = make_view(2, incidents=[make_incident()])
    assert "incidents" in shown(view, 120)
    narrow = shown(view, 60)
    assert "util" in narrow
    title = next(line for line in narrow.splitlines() if line.startswith("node"))
    assert "incidents" not in title
    lost = "busy, exposed, incidents, phase, step, comm"
    assert f"not shown at this width: {lost} (wider terminal, or --json)" in " ".join(
        narrow.split()
    )
    assert "not shown" not in shown(view, 120)


def test_a_line_per_job() -> None:
    made = make_view(2, jobs=("a", "b"))
    assert row(shown(made, 80), "b") == [
        "b", "1,204r", "4.31r", "971,000r", "3,800r", "2.5r", "38r", "29r", "17r",
    ]  # fmt: skip
    columns = dict.fromkeys(("job_loss", "job_mfu_ratio", "job_step_seconds"))
    text = shown(make_view(2, jobs=("a",), columns=columns), 120)
    assert "loss" not in text
    assert "MFU" not in text
    assert row(text, "a")[2] == "4.00d", "by the step rate of the log"
    assert row(text, "trn-000")[-1] == "4.00d"


def test_an_idle_machine_has_no_floor() -> None:
    columns = {"node_comm_share_floor_ratio": [0.0], "node_comm_share_ceiling_ratio": None}
    text = shown(make_view(2, jobs=(), states={STEPS: State.DOWN}, columns=columns))
    assert "≥" not in text
    assert "– comm: steps: down" in text


def test_efa_devices_in_natural_order() -> None:
    node = make_node(0, efa=8)
    keys = {**node.inventory.keys, Entity.EFA: tuple(sorted(node.inventory.of(Entity.EFA)))}
    inventory = dataclasses.replace(node.inventory, keys=keys)
    text = shown(view_of(dataclasses.replace(node, inventory=inventory)))
    assert text.index("rdmap16s27") < text.index("rdmap96s27") < text.index("rdmap112s27")


def test_open_incidents_are_above_the_fleet() -> None:
    closed = make_incident("hang", closed_at=NOON)
    text = shown(make_view(2, incidents=[CRITICAL, closed]))
    assert text.index("● critical  Node silent  trn-001") < text.index("trn-000")
    assert "hang" not in text


def test_report() -> None:
    incidents = [
        make_incident(job="pretrain-13b", closed_at=NOON + 200),
        make_incident("node_silent", severity=Severity.CRITICAL, component=None),
    ]
    assert incidents_text(incidents, 90, utc=True).splitlines() == [
        "11:59:00  ▲ warning   Comm bound for 4 min 20 s  trn-001 efa:rdmap32s27 pretrain-13b",
        "          rdmap32s27 on trn-001: 2.1 % retransmits (peers 0.0 %)",
        "            - trn-001: comm share 31 % of step time",
        "            - 16 nodes wait 0.9 s a step",
        "          Next step: Check retransmits and rails on the EFA screen; then batch size and",
        "          bucket sizes.",
        "          Runbook: trntop rules comm_bound",
        "11:59:00  ● critical  Node silent  trn-001",
        "          rdmap32s27 on trn-001: 2.1 % retransmits (peers 0.0 %)",
        "            - trn-001: comm share 31 % of step time",
        "            - 16 nodes wait 0.9 s a step",
        "          Next step: Check that the node is up, neuron-monitor is running and the network",
        "          path is open.",
        "          Runbook: trntop rules node_silent",
        "2 incidents: 1 critical, 1 warning; 1 open",
    ]


def test_the_report_has_the_detection_time_and_the_number_of_returns() -> None:
    incident = dataclasses.replace(
        make_incident(closed_at=NOON), detected_at=NOON - 48, returns=2, evidence=()
    )
    assert incidents_text([incident], 120, utc=True).splitlines()[0] == (
        "11:59:00  ▲ warning   Comm bound for 1 min, detected after 12 s, recurred 2 times"
        "  trn-001 efa:rdmap32s27"
    )
    assert "detected" not in shown(
        make_view(incidents=[dataclasses.replace(incident, closed_at=None)])
    )


def test_report_of_nothing() -> None:
    assert incidents_text([], 80) == "no incidents\n"


def test_a_thousand_nodes_have_a_thousand_rows() -> None:
    node = make_node()
    view = view_of(*(make_node(index, 1, 1, 1) for index in range(100)), node)
    assert sum(line.startswith("trn-") for line in shown(view).splitlines()) == 100
    assert node_name(99) in shown(view)
