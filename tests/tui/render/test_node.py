"""The parts of a node's screen and of the incident's."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from tests.builders import NOON, make_incident, make_node, view_of
from tests.tui.render.contexts import CONTEXT, text
from tests.tui.sample_run import DEVICE, EFA_INCIDENT, VICTIM, view_model
from trntop.catalog import Entity
from trntop.core import units
from trntop.core.model import (
    Allocation,
    Evidence,
    Incident,
    Neff,
    NodeView,
    Phase,
    Process,
    Runtime,
    Severity,
    Stage,
    State,
)
from trntop.core.settings import Analysis
from trntop.pipeline.history import History
from trntop.sources import BY_NAME
from trntop.tui.render import devices, efa, host, node, run
from trntop.tui.view_model import ViewModel

PAINTS = {
    "identity": node.identity,
    "devices": devices.draw,
    "efa": efa.draw,
    "processes": node.processes,
    "host": host.draw,
    "sources": node.sources,
    "found": node.found,
}


def of(made: NodeView, *found: Incident) -> ViewModel:
    return ViewModel(
        view=view_of(made, incidents=found), history=History(60), limits=Analysis(), utc=True
    )


def changed(made: NodeView, **facts: Any) -> NodeView:
    """`made` with another inventory."""
    return dataclasses.replace(made, inventory=dataclasses.replace(made.inventory, **facts))


def drawn(paint: node.Paint, made: NodeView, width: int = 100, *found: Incident) -> str:
    return text(paint(of(made, *found), made, width, CONTEXT))


@pytest.mark.parametrize("name", PAINTS)
@pytest.mark.parametrize(
    ("width", "state"),
    [(20, State.FRESH), (36, State.DOWN), (58, State.FRESH), (118, State.STALE)],
)
def test_every_part_fits(name: str, width: int, state: State) -> None:
    made = make_node(0, 16, 8, 16, runtimes=3, state=state, reason="gone")
    lines = PAINTS[name](of(made, EFA_INCIDENT), made, width, CONTEXT)
    assert lines
    assert {line.cell_length for line in lines} == {width}


class TestIdentity:
    def test_identity_and_job(self) -> None:
        identity, work = drawn(node.identity, make_node(3, 16, 4, 16), 120).splitlines()
        assert work.startswith(" training d since 08:48:00 · step 1,204  util 94 % d  TE 34 % d")
        assert work.endswith("HBM bw 38 % d  comm 27 % r  loss 2.5r  MFU 38 % r")
        assert identity.startswith(" trn-003  trn2.48xlarge  16 devices · 64 cores (LNC=2)")
        assert identity.endswith("✓ fresh 0 s  1/1")

    def test_an_estimate_where_no_job_reports(self) -> None:
        assert "comm ~3-40 %" in drawn(node.identity, make_node(0, jobs=()), 120)

    def test_its_allocation(self) -> None:
        made = changed(make_node(0), allocations=(Allocation("4711", whole=True),))
        (identity, _) = drawn(node.identity, made, 100).splitlines()
        assert "4 cores (LNC=2)  allocated to job 4711  " in identity
        assert "i-00000000" not in identity, "who has it matters more than where it is"

    def test_its_incident_below_another(self) -> None:
        made = make_node(3)
        own = make_incident("ecc_uncorrected", node=made.name, summary="device 1 has errors")
        above = make_incident("hang", node="trn-000", severity=Severity.CRITICAL)
        identity, _, incident_line = drawn(node.identity, made, 100, above, own).splitlines()
        assert identity.startswith(" ▲ trn-003")
        assert incident_line.startswith(" ▲ warning")
        assert incident_line.endswith("device 1 has errors")
        assert len(drawn(node.identity, made, 100, own).splitlines()) == 2

    def test_nothing_known(self) -> None:
        work = drawn(node.identity, make_node(0, state=State.DOWN), 120).splitlines()[1]
        assert work == " phase –  util –  TE –  HBM bw –  comm –"


@pytest.mark.parametrize(
    ("floor", "ceiling", "shown"),
    [
        (0.03, 0.4, "~3-40"),
        (0.301, 0.304, "~30"),
        (0.3, 0.2, "~≥ 30"),
        (0.3, None, "~≥ 30"),
        (0.004, None, "–"),
        (None, 0.4, "~≤ 40"),
        (None, None, "–"),
    ],
)
def test_bounds(floor: float | None, ceiling: float | None, shown: str) -> None:
    assert units.share_bounds(floor, ceiling) == shown


def test_a_stalled_run_asks_for_a_person() -> None:
    phase = Phase(Stage.STALLED, NOON, "no step for 2 min")
    parts = run.phase(phase, CONTEXT, utc=True)
    assert "".join(text for text, _ in parts) == "stalled d since 12:00:00 · no step for 2 min"
    assert parts[0][1] == CONTEXT.palette.warning
    assert run.style_of(Stage.TRAINING, CONTEXT.palette) == CONTEXT.palette.muted
    assert run.style_of(Stage.COMPILING, CONTEXT.palette) == CONTEXT.palette.accent


class TestDevices:
    def test_a_heading_is_whole_where_utilization_is_absent(self) -> None:
        made = changed(make_node(0, 2, 4, 2), core_device=np.array([], int))
        assert devices.draw(of(made), made, 55, CONTEXT)[0].text.startswith("dev  util ")

    def test_128_physical_cores_fit_a_laptop(self) -> None:
        made = make_node(0, 16, 4, 16)
        lines = devices.draw(of(made), made, 55, CONTEXT)
        assert len(lines) == 17
        assert lines[0].text.rstrip() == "dev    util % TE % now 20 s d HBM GiB d bw % d pwr %"
        assert lines[1].text.rstrip() == "  0 ▆▆▆▆   92 ▆▆▆▆▆▆▆▆     34      50.9     38    60"

    def test_the_narrowest_keep_utilization_and_tensor_engines(self) -> None:
        made = make_node(0, 16, 4, 16)
        lines = devices.draw(of(made), made, 37, CONTEXT)
        assert lines[0].text.rstrip() == "dev    util % TE % d HBM GiB d bw % d"
        assert lines[1].text.rstrip() == "  0 ▆▆▆▆   92     34      50.9     38"

    @pytest.mark.parametrize("component", ["device:1", "core:5"])
    def test_a_device_that_an_incident_names_is_marked(self, component: str) -> None:
        made = make_node(0, 2, 4, 2)
        found = make_incident("straggler", node=made.name, component=component)
        _, first, second, *_ = drawn(devices.draw, made, 110, found).splitlines()
        assert first.startswith("  0")
        assert second.startswith("▲ 1")

    def test_all_numbers_where_there_is_room(self) -> None:
        first = drawn(devices.draw, make_node(0, 2, 4, 2), 110).splitlines()[1]
        assert first.split()[:5] == ["0", "90", "91", "92", "93"]
        assert first.split()[6:14] == [str(number) for number in range(30, 38)]
        assert first.split()[-3:] == ["1,102", "38", "60"]

    def test_a_full_core_does_not_run_into_its_neighbour(self) -> None:
        made = make_node(0, 1, 4, columns={"neuroncore_utilization_ratio": [1, 1, 0.5, 1]})
        assert "  0 ▆▆▆▆   88 " in drawn(devices.draw, made, 55), "no room for 100: colour alone"
        assert "100 100  50 100" in drawn(devices.draw, made, 110)

    @pytest.mark.parametrize(
        ("width", "cores", "title"),
        [
            (110, 4, "TE % now 20 s d "), (55, 4, "TE % now 20 s d "), (37, 1, " TE % d "),
        ],
    )  # fmt: skip
    def test_what_is_of_now_and_what_a_mean(self, width: int, cores: int, title: str) -> None:
        made = make_node(0, 2, cores, 2)
        assert title in devices.draw(of(made), made, width, CONTEXT)[0].text

    def test_without_tensor_engines_there_is_no_map_of_them(self) -> None:
        made = make_node(0, 2, 4, states={"tensor-engine": State.DOWN}, reason="needs SDK 2.25")
        made = changed(
            made,
            keys={**made.inventory.keys, Entity.PHYSICAL_CORE: ()},
            physical_device=np.empty(0, np.int64),
        )
        shown = drawn(devices.draw, made, 58)
        assert shown.splitlines()[1].split()[6] == "–"
        assert "– TE: tensor-engine: needs SDK 2.25" in shown

    def test_bandwidth_without_a_profile_names_the_command(self) -> None:
        made = make_node(0, states={"profiles": State.DOWN})
        last = drawn(devices.draw, made, 110).splitlines()[-1]
        assert last == ("– HBM bandwidth: no profile of train_step.neff: trntop profile add FILE")

    def test_an_absent_core_is_a_dot(self) -> None:
        shown = drawn(
            devices.draw,
            make_node(0, 1, 2, columns={"neuroncore_utilization_ratio": [0.5, np.nan]}),
        )
        assert "  0  50   ·    50 " in shown

    def test_absent_values_are_dashes(self) -> None:
        shown = drawn(devices.draw, make_node(0, 1, 2, state=State.STALE), 55)
        assert shown.splitlines()[1].split()[:5] == ["0", "·", "·", "–", "····"]
        assert set(shown.splitlines()[1].split()[5:]) == {"–"}

    def test_faults_of_a_device_are_below(self) -> None:
        columns = {"device_mem_ecc_uncorrected_total": [0, 2, 0, 0]}
        made = make_node(0, 4, 2, columns=columns)
        links = {
            2: {"unhealthy": "hbm, sram"},
            3: {"lost": "No such device", "unhealthy": "all"},
        }
        lines = drawn(devices.draw, changed(made, device_links=links)).splitlines()
        assert [line[0] for line in lines[1:5]] == [" ", "●", "▲", "●"]
        assert lines[5:] == [
            "● device 1: 2 uncorrected ECC errors",
            "▲ device 2: unhealthy: hbm, sram",
            "● device 3: lost (No such device)",
        ]

    def test_errors_by_neuron_monitor_where_the_driver_is_silent(self) -> None:
        made = make_node(
            0, 2, 2, states={"neuron-sysfs": State.DOWN},
            columns={"device_sram_ecc_uncorrected_events": [0, 7]},
        )  # fmt: skip
        assert "● device 1: 7 uncorrected ECC errors" in drawn(devices.draw, made)

    def test_missing_devices_have_a_reason(self) -> None:
        made = make_node(0, 0, 0, states={"neuron-monitor": State.DOWN}, reason="not installed")
        assert "no devices known: neuron-monitor: not installed" in drawn(devices.draw, made)


class TestEfa:
    def test_the_deviating_efa_device_is_marked(self) -> None:
        whole = view_model(trouble=True)
        made = whole.cluster.nodes[VICTIM]
        lines = text(efa.draw(whole, made, 60, CONTEXT)).splitlines()
        marked = [line for line in lines if line.startswith("●")]
        assert len(marked) == 1
        assert DEVICE in marked[0]
        assert "2.1" in marked[0]

    def test_an_outlier_is_marked_before_there_is_an_incident(self) -> None:
        whole = dataclasses.replace(
            view_model(trouble=True), view=view_of(view_model(trouble=True).cluster.nodes[VICTIM])
        )
        shown = text(efa.draw(whole, whole.cluster.nodes[VICTIM], 60, CONTEXT))
        assert [line[:14] for line in shown.splitlines() if line[0] == "▲"] == [f"▲ {DEVICE}  "]

    def test_outliers_need_better_peers(self) -> None:
        same = make_node(0, 1, 1, 4, columns={"efa_retrans_pkts_per_second": [5e4] * 4})
        assert efa.outliers(same, 0.002) == frozenset()
        assert efa.outliers(make_node(0, 1, 1, 0), 0.002) == frozenset()

    def test_efa_devices_are_in_natural_order(self) -> None:
        shown = drawn(efa.draw, make_node(0, 1, 1, 8))
        names = [line.split()[0] for line in shown.splitlines()[1:9]]
        assert names == [f"rdmap{16 * index}s27" for index in range(1, 9)]
        assert units.natural_sort_key("rdmap16s27") < units.natural_sort_key("rdmap112s27")

    def test_a_lost_efa_device_keeps_its_position(self) -> None:
        made = make_node(
            0, 1, 1, 3, columns={"efa_tx_bytes_total": [1, np.nan, 1], "node_efa_cards": [2]}
        )
        lines = drawn(efa.draw, made, 60).splitlines()
        assert lines[2] == "● rdmap32s27   lost"
        assert lines[-1] == "▲ 2/16 EFA devices up"

    def test_all_efa_devices_are_up(self) -> None:
        shown = drawn(efa.draw, make_node(0, 1, 1, 16), 60)
        assert "answer" not in shown
        assert "lost" not in shown

    def test_a_degraded_efa_device_is_marked_at_its_peers_share(self) -> None:
        made = make_node(0, 1, 1, 3, columns={"efa_tx_bytes_per_second": [2e10, 2e9, 2e10]})
        assert efa.draw(of(made), made, 60, CONTEXT)[2].text.startswith("  rdmap32s27")
        found = make_incident("efa_degraded", node=made.name, component="efa:rdmap32s27")
        line = efa.draw(of(made, found), made, 60, CONTEXT)[2]
        assert line.text.startswith("▲ rdmap32s27")
        assert any(
            "10" in part.text.split() and part.style == CONTEXT.palette.warning for part in line
        )

    def test_the_note_on_an_efa_device_with_an_incident_is_its_evidence(self) -> None:
        made = make_node(0, 1, 1, 2, columns={
            "efa_retrans_timeout_events_per_second": [0, 5], "efa_rx_drops_per_second": [1, 0],
        })  # fmt: skip
        item = (
            Evidence("2.0 % of its packets sent again", made.name, "efa_retransmit_ratio"),
            Evidence("3.8 errors/s (time-outs) in 20 s; limit 0.5", made.name),
            Evidence("16 nodes wait 0.9 s longer in each step"),
        )
        bare = make_incident(
            "efa_degraded", node=made.name, component="efa:rdmap32s27", severity=Severity.CRITICAL
        )
        found = dataclasses.replace(bare, evidence=item)
        calm, faulty = efa.draw(of(made, found), made, 80, CONTEXT)[-2:]
        assert calm.text.strip() == "▲ rdmap16s27: 1 receive drops/s"
        assert faulty.text.strip() == "● rdmap32s27: 3.8 errors/s (time-outs) in 20 s; limit 0.5"
        assert {part.style for part in faulty if part.text.strip()} == {CONTEXT.palette.critical}
        bare = dataclasses.replace(bare, evidence=item[:1])
        shown = efa.draw(of(made, bare), made, 80, CONTEXT)[-1].text.strip()
        assert shown == "● rdmap32s27: 5 time-outs/s"

    def test_events_and_links_that_are_down_are_shown(self) -> None:
        made = make_node(0, 1, 1, 2, columns={
            "efa_rx_drops_per_second": [0, 2.5],
            "efa_impaired_remote_conn_events_per_second": [0, 1],
        })  # fmt: skip
        links = {"rdmap16s27": {"state": "1: DOWN"}, "rdmap32s27": {"state": "4: ACTIVE"}}
        notes = drawn(efa.draw, changed(made, efa_links=links), 80).splitlines()[-2:]
        assert notes == [
            "▲ rdmap16s27: link 1: DOWN",
            "▲ rdmap32s27: 1 impaired connections/s, 2.5 receive drops/s",
        ]

    def test_missing_efa_devices_have_a_reason(self) -> None:
        assert "no EFA devices known" in drawn(efa.draw, make_node(0, 1, 1, 0))


class TestProcesses:
    def test_figures_and_what_they_hold(self) -> None:
        _, figures, facts = drawn(node.processes, make_node(0, runtimes=1), 110).splitlines()
        assert figures.split()[:4] == ["4711", "python3", "train.py", "200"]
        assert "5.5 ms" in figures
        assert "40.0 GiB" in figures
        assert facts.strip() == (
            "train_step.neff running · devices 0-1 · cores 0-3 · runtime 2.30.51"
        )

    def test_errors_are_highlighted(self) -> None:
        made = make_node(
            0, columns={"runtime_errors_hardware_per_second": [3.0],
                        "runtime_executions_timed_out_per_second": [0.0]},
        )  # fmt: skip
        lines = node.processes(of(made), made, 110, CONTEXT)
        assert any(
            part.text.strip() == "3" and part.style == CONTEXT.palette.critical for part in lines[1]
        )

    def test_a_runtime_with_an_error_message(self) -> None:
        broken = Runtime(4711, "job", error="out of device memory")
        made = changed(make_node(0), runtimes=(broken,), processes=())
        assert "out of device memory" in drawn(node.processes, made, 80)
        assert "job" in drawn(node.processes, made, 80)

    def test_facts_that_do_not_fit_end_in_an_ellipsis(self) -> None:
        assert drawn(node.processes, make_node(0, runtimes=1), 40).splitlines()[2].endswith("…")

    def test_one_that_only_holds_devices(self) -> None:
        neffs = (Neff("eval.neff"), Neff("train.neff", running=True))
        made = changed(
            make_node(0),
            runtimes=(Runtime(4711, "", neffs=neffs),),
            processes=(Process(99, "left behind", (0, 1, 3)),),
        )
        lines = drawn(node.processes, made, 80).splitlines()
        assert lines[1].split() == ["99", "left", "behind", "–", "–", "–", "–"]
        assert lines[2].strip() == "devices 0-1,3"
        assert lines[3].split()[:2] == ["4711", "-"]
        assert lines[4].strip() == "train.neff running, eval.neff"

    def test_none(self) -> None:
        made = make_node(0, runtimes=0)
        assert "no Neuron process known" in drawn(node.processes, made)


class TestHost:
    def test_a_line_per_subject(self) -> None:
        lines = drawn(host.draw, make_node(0), 80).splitlines()
        assert lines == [
            "cpu       ━━╸───────── 21 %  192 vCPUs  load 40.5  812 processes",
            "memory    ━━────────── 300 GiB  of 2.00 TiB  1.66 TiB available",
            "network   rx 10.0 MB/s d  tx 20.0 MB/s d",
            "disk      read 30.0 MB/s d  written 40.0 MB/s d",
            "lustre    read 50.0 MB/s d  written 60.0 MB/s d",
            "nfs       read 70.0 MB/s d  written 80.0 MB/s d",
            "compiler  0 running  12 modules in the cache",
        ]

    def test_what_needs_attention(self) -> None:
        columns = {"node_compilers": [2], "node_kernel_neuron_errors_total": [3]}
        shown = drawn(host.draw, make_node(0, columns=columns), 80)
        assert "compiler  2 running" in shown
        assert "kernel    ▲ 3 Neuron errors in the kernel log" in shown

    def test_without_a_host(self) -> None:
        down = dict.fromkeys(("host", "neuron-monitor", "kernel-log"), State.DOWN)
        shown = drawn(host.draw, make_node(0, states=down, reason="no psutil"), 80)
        assert shown == "no host data: host: no psutil"


def test_silent_sources_have_a_reason() -> None:
    made = make_node(0, states={"efa": State.DOWN}, reason="driver too old")
    shown = drawn(node.sources, made)
    assert "neuron-monitor ✓ fresh" in shown
    assert "efa            ✕ down" in shown
    assert "driver too old" in shown


def test_absent_quantities_have_a_reason() -> None:
    made = make_node(0)
    reasons = dict.fromkeys(("efa_retrans_pkts_total", "efa_retrans_bytes_total"), "driver 2.10")
    made = dataclasses.replace(made, frame=dataclasses.replace(made.frame, reasons=reasons))
    last = drawn(node.sources, made).splitlines()[-1]
    assert last == "– efa_retrans_pkts_total, efa_retrans_bytes_total: driver 2.10"


def test_the_bandwidth_has_one_name() -> None:
    made = make_node(0, states={"profiles": State.DOWN}, reason="none")
    shown = drawn(node.sources, made, 50)
    assert shown.splitlines()[-2:] == [
        "– HBM bandwidth: no profile of train_step.neff:",
        "  trntop profile add FILE",
    ]


@pytest.mark.parametrize("paint", [devices.draw, efa.draw, host.draw, node.processes])
def test_reasons_are_shown_in_full(paint: node.Paint) -> None:
    down = dict.fromkeys(BY_NAME, State.DOWN)
    made = make_node(0, 0, 0, 0, jobs=(), runtimes=0, states=down, reason="why " * 30 + "remedy")
    assert drawn(paint, made, 40).endswith("remedy")


def test_sources_before_the_first_word() -> None:
    made = make_node(0)
    made = dataclasses.replace(made, frame=dataclasses.replace(made.frame, sources=()))
    assert drawn(node.sources, made) == "no data from any source yet"


def test_sources_have_an_age_and_an_interval() -> None:
    shown = drawn(node.sources, make_node(0)).splitlines()
    assert shown[1].split() == ["neuron-sysfs", "✓", "fresh", "0", "s", "every", "10", "s"]


class TestIncidents:
    def test_open_and_past(self) -> None:
        made = make_node(1)
        past = make_incident("memory_pressure", closed_at=NOON - 10)
        shown = drawn(node.found, made, 120, make_incident(), past).splitlines()
        assert shown[0].startswith("▲ warning  11:59:00       1 min")
        assert shown[1].startswith("▲ closed")

    def test_of_the_jobs_that_run_here(self) -> None:
        made = make_node(1, jobs=("mine",))
        mine, other = (make_incident(node=None, job=job, summary=job) for job in ("mine", "other"))
        shown = drawn(node.found, made, 120, mine, other)
        assert "mine" in shown
        assert "other" not in shown

    def test_none(self) -> None:
        assert drawn(node.found, make_node(5)) == "✓ none"
