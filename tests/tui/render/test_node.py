"""The parts of a node's screen and of the incident's."""

import dataclasses

import numpy as np
import pytest

from tests.builders import NOON, make_incident, make_node, view_of
from tests.tui.render.pens import PEN, PLAIN, text
from tests.tui.scenes import CARD, EFA_INCIDENT, VICTIM, scene
from trntop.history import History
from trntop.model import Incident, NodeView, Runtime, State
from trntop.settings import Analysis
from trntop.tui.render import devices, efa, incidents, node, welcome
from trntop.tui.scene import Scene

PAINTS = {
    "identity": node.identity,
    "devices": devices.draw,
    "efa": efa.draw,
    "runtimes": node.runtimes,
    "sources": node.sources,
    "found": node.found,
}


def of(made: NodeView, *found: Incident) -> Scene:
    return Scene(
        view=view_of(made, incidents=found), history=History(60), limits=Analysis(), utc=True
    )


def drawn(paint: node.Paint, made: NodeView, width: int = 100, *found: Incident) -> str:
    return text(paint(of(made, *found), made, width, PEN))


@pytest.mark.parametrize("name", PAINTS)
@pytest.mark.parametrize("width", [20, 36, 58, 78, 118])
@pytest.mark.parametrize("state", [State.FRESH, State.STALE, State.DOWN])
def test_every_part_fits(name: str, width: int, state: State) -> None:
    made = make_node(0, 16, 8, 16, runtimes=3, state=state, reason="gone")
    lines = PAINTS[name](of(made, EFA_INCIDENT), made, width, PEN)
    assert lines
    assert {line.cell_length for line in lines} == {width}


@pytest.mark.parametrize("name", PAINTS)
def test_every_part_in_ascii(name: str) -> None:
    made = make_node(0, 2, 2, 2, runtimes=1)
    shown = text(PAINTS[name](of(made, make_incident(node="trn-000")), made, 100, PLAIN))
    assert shown.replace("–", "-").replace("·", ".").isascii()


def test_identity() -> None:
    shown = drawn(node.identity, make_node(3, 16, 4, 16), 120)
    assert shown.startswith(" trn-003  trn2.48xlarge  16 devices · 64 cores (LNC=2)")
    assert shown.endswith("✓ fresh 0 s  1/1")


class TestDevices:
    def test_128_cores_fit_a_small_terminal(self) -> None:
        made = make_node(0, 16, 8, 16)
        lines = devices.draw(of(made), made, 36, PEN)
        assert len(lines) == 17
        assert text(lines).count("▆") == 16 * 8

    def test_numbers_in_the_cells_where_there_is_room(self) -> None:
        shown = drawn(devices.draw, make_node(0, 2, 4, 2))
        assert shown.splitlines()[1].startswith("  0  90  91  92  93     92")
        assert "HBM GiB of 96" in shown

    def test_an_absent_core_is_a_dot(self) -> None:
        shown = drawn(
            devices.draw,
            make_node(0, 1, 2, columns={"neuroncore_utilization_ratio": [0.5, np.nan]}),
        )
        assert " 50    · " in shown

    def test_absent_values_are_dashes(self) -> None:
        shown = drawn(devices.draw, make_node(0, 1, 2, state=State.STALE))
        assert shown.splitlines()[1].count("–") == 2
        assert "0" not in shown.splitlines()[1].replace("  0 ", "", 1)

    def test_full_memory_and_broken_memory_say_so(self) -> None:
        shown = drawn(
            devices.draw,
            make_node(0, 2, 2, columns={"device_mem_ecc_uncorrected_events": [0, 2]}),
        )
        assert "● ECC 2" in shown.splitlines()[2]
        assert "ECC" not in shown.splitlines()[1]

    def test_no_devices_says_why(self) -> None:
        made = make_node(0, 0, 0, states={"neuron-monitor": State.DOWN}, reason="not installed")
        assert "no devices known: neuron-monitor: not installed" in drawn(devices.draw, made)


class TestEfa:
    def test_the_odd_card_is_marked(self) -> None:
        whole = scene(trouble=True)
        made = whole.cluster.nodes[VICTIM]
        lines = text(efa.draw(whole, made, 60, PEN)).splitlines()
        marked = [line for line in lines if line.startswith("●")]
        assert len(marked) == 1
        assert CARD in marked[0]
        assert "2.1d" in marked[0]

    def test_an_outlier_is_marked_before_there_is_an_incident(self) -> None:
        whole = dataclasses.replace(
            scene(trouble=True), view=view_of(scene(trouble=True).cluster.nodes[VICTIM])
        )
        shown = text(efa.draw(whole, whole.cluster.nodes[VICTIM], 60, PEN))
        assert [line[:14] for line in shown.splitlines() if line[0] == "▲"] == [f"▲ {CARD}  "]

    def test_outliers_need_siblings_that_are_better(self) -> None:
        same = make_node(0, 1, 1, 4, columns={"efa_retrans_pkts_per_second": [5e4] * 4})
        assert efa.outliers(same) == frozenset()
        assert efa.outliers(make_node(0, 1, 1, 0)) == frozenset()

    def test_cards_stand_in_their_natural_order(self) -> None:
        shown = drawn(efa.draw, make_node(0, 1, 1, 8))
        names = [line.split()[0] for line in shown.splitlines()[1:]]
        assert names == [f"rdmap{16 * place}s27" for place in range(1, 9)]
        assert efa.natural("rdmap16s27") < efa.natural("rdmap112s27")

    def test_no_cards_says_why(self) -> None:
        assert "no EFA cards known" in drawn(efa.draw, make_node(0, 1, 1, 0))


class TestRuntimes:
    def test_figures(self) -> None:
        shown = drawn(node.runtimes, make_node(0, runtimes=1), 110)
        assert shown.splitlines()[1].split()[:3] == ["4711", "0", "200"]
        assert "5.5 ms" in shown
        assert "40.0 GiB" in shown

    def test_errors_stand_out(self) -> None:
        made = make_node(
            0, columns={"runtime_errors_hardware_per_second": [3.0],
                        "runtime_executions_timed_out_per_second": [0.0]},
        )  # fmt: skip
        lines = node.runtimes(of(made), made, 110, PEN)
        assert any(part.text.strip() == "3" and part.style == PEN.ink.critical for part in lines[1])

    def test_a_runtime_that_says_why(self) -> None:
        made = make_node(0)
        broken = Runtime(4711, "job", error="out of device memory")
        made = dataclasses.replace(
            made, inventory=dataclasses.replace(made.inventory, runtimes=(broken,))
        )
        assert "out of device memory" in drawn(node.runtimes, made, 140)

    def test_none(self) -> None:
        assert "no Neuron process known" in drawn(node.runtimes, make_node(0, runtimes=0))


def test_sources_say_why_they_are_silent() -> None:
    made = make_node(0, states={"efa": State.DOWN}, reason="driver too old")
    shown = drawn(node.sources, made)
    assert "neuron-monitor ✓ fresh" in shown
    assert "efa            ✕ down" in shown
    assert "driver too old" in shown


def test_absent_quantities_say_why() -> None:
    made = make_node(0)
    reasons = dict.fromkeys(("efa_retrans_pkts_total", "efa_retrans_bytes_total"), "driver 2.10")
    made = dataclasses.replace(made, frame=dataclasses.replace(made.frame, reasons=reasons))
    last = drawn(node.sources, made).splitlines()[-1]
    assert last == "– driver 2.10: efa_retrans_pkts_total, efa_retrans_bytes_total"


def test_sources_before_the_first_word() -> None:
    made = make_node(0)
    made = dataclasses.replace(made, frame=dataclasses.replace(made.frame, sources=()))
    assert drawn(node.sources, made) == "no source has spoken yet"


class TestIncidents:
    def test_open_and_past(self) -> None:
        made = make_node(1)
        past = make_incident("memory_pressure", closed_at=NOON - 10)
        shown = drawn(node.found, made, 120, make_incident(), past).splitlines()
        assert shown[0].startswith("▲ warning  11:59:00   1 min")
        assert shown[1].startswith("▲ past")

    def test_none(self) -> None:
        assert drawn(node.found, make_node(5)) == "✓ none"

    def test_detail(self) -> None:
        whole = scene(trouble=True)
        shown = text(incidents.detail(whole, EFA_INCIDENT, 60, PEN))
        assert shown.startswith("● critical  efa_degraded")
        assert f"where  {VICTIM} efa:{CARD}" in shown
        assert "11:59:16, still lasts, 44 s" in shown
        assert "· 16 nodes wait 0.9 s longer in each step" in shown
        assert max(map(len, shown.splitlines())) <= 60

    def test_detail_of_nothing(self) -> None:
        assert text(incidents.detail(scene(), None, 60, PEN)) == "nothing has happened"

    def test_place(self) -> None:
        assert incidents.place(make_incident(node=None, job="j")) == "j"
        assert incidents.place(make_incident(node=None)) == "cluster"

    def test_wrap(self) -> None:
        assert incidents.wrap("a bb ccc", 4) == ["a bb", "ccc"]
        assert incidents.wrap("", 4) == [""]
        assert incidents.wrap("longword", 4) == ["longword"]


class TestWelcome:
    def test_what_was_found_and_what_to_do(self) -> None:
        made = make_node(0, state=State.DOWN, reason="not on the PATH")
        shown = text(welcome.draw(of(made), 100, PEN, demo=True))
        assert "✕ neuron-monitor  not on the PATH" in shown
        assert "d  watch a simulated 16-node run" in shown

    def test_no_demo_no_promise(self) -> None:
        made = make_node(0, state=State.DOWN, reason="exit code 1")
        shown = text(welcome.draw(of(made), 100, PEN, demo=False))
        assert "exit code 1" in shown
        assert "simulated" not in shown
