import dataclasses
import math
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.builders import (
    NOON,
    make_incident,
    make_node,
    make_view,
    node_name,
    view_of,
)
from trntop.catalog import CATALOG, EFA_SOURCE, FOREIGN, NEURON_MONITOR, SOURCES, STEPS, Entity
from trntop.exporters.process import ProcessUsage
from trntop.exporters.prometheus import INSTANCE_LABELS, Page, escape, labels, number
from trntop.model import Compilation, Inventory, Severity, State, View

GOLDEN = Path(__file__).parent / "golden"
USAGE = {
    "process_cpu_seconds_total": 12.25,
    "process_resident_memory_bytes": 41943040.0,
    "process_start_time_seconds": NOON - 3600,
    "process_open_fds": 12.0,
}
HOSTILE = [
    'quote"in',
    "back\\slash",
    "new\nline",
    "escape\x1b[31m",
    'closing} 1\n"},{',
    "\\n is no newline",
    "ends with \\",
    "=~,{}[]#",
    "# HELP x y",
    "日本語 ☃",
    "x" * 5_000,
    "stray \udc80 surrogate",
]


def page(**options: int) -> Page:
    return Page(usage=lambda: USAGE, **options)


def golden_view() -> View:
    """One healthy node, one simulated, one with a silent monitor and an unknown value."""
    return view_of(
        make_node(0, devices=1),
        make_node(1, devices=1, simulated=True),
        make_node(
            2,
            devices=1,
            states={NEURON_MONITOR: State.STALE, STEPS: State.DOWN},
            reason="silent for 14 s",
            columns={"efa_retrans_pkts_total": [3.0, math.nan]},
        ),
        incidents=[
            make_incident(),
            make_incident("node_silent", severity=Severity.CRITICAL, component=None),
            make_incident("memory_pressure", closed_at=NOON),
        ],
    )


def samples(text: bytes) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Series → value; fails on a duplicate."""
    found: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, f"twice: {key}"
            found[key] = sample.value
    return found


def named(text: bytes, name: str) -> list[tuple[Mapping[str, str], float]]:
    return [(dict(pairs), value) for (one, pairs), value in samples(text).items() if one == name]


def versionless(text: bytes) -> str:
    return re.sub(r"(trntop_build_info)\{.*\}", r"\1{…}", text.decode())


@pytest.mark.parametrize("name", ["metrics", "cores"])
def test_golden_page(name: str) -> None:
    text = getattr(page().render(golden_view()), name)
    assert versionless(text) == (GOLDEN / f"{name}.prom").read_text()


@pytest.mark.parametrize("name", ["metrics", "cores"])
@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_finds_nothing(name: str) -> None:
    text = getattr(page().render(golden_view()), name)
    result = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True)
    assert (result.returncode, result.stdout + result.stderr) == (0, b"")


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_reads_hostile_names() -> None:
    view = view_of(*(make_node(name=text, jobs=[text]) for text in HOSTILE))
    text = page().render(view).metrics
    result = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True)
    assert (result.returncode, result.stdout + result.stderr) == (0, b"")


def test_every_exported_quantity_is_on_its_page_and_no_other() -> None:
    # The bounds of the communication share are for nodes where no job reports it.
    pages = page().render(view_of(make_node(0), make_node(1, jobs=())))
    metrics = {name for name, _ in samples(pages.metrics)}
    cores = {name for name, _ in samples(pages.cores)}
    for quantity in CATALOG.values():
        of_core = quantity.entity in (Entity.CORE, Entity.PHYSICAL_CORE)
        assert (quantity.metric in cores) is (quantity.exported and of_core), quantity.name
        assert (quantity.metric in metrics) is (quantity.exported and not of_core), quantity.name


def test_values_are_the_columns() -> None:
    view = make_view(2, simulated=True)
    pages = page().render(view)
    found = samples(pages.metrics) | samples(pages.cores)
    for name, node in view.cluster.nodes.items():
        for quantity, column in node.frame.columns.items():
            if CATALOG[quantity].exported:
                values = [
                    value
                    for (metric, pairs), value in found.items()
                    if metric == CATALOG[quantity].metric and ("node", name) in pairs
                ]
                assert values == column.tolist(), quantity


def test_labels_of_a_core_stand_in_their_order() -> None:
    lines = page().render(view_of(make_node(0), make_node(1, simulated=True))).cores.decode()
    name = "trn_neuroncore_utilization_ratio"
    assert f'\n{name}{{neuron_device="0",neuroncore="0",node="trn-000"}} 0.9\n' in lines
    marked = 'neuron_device="1",neuroncore="2",node="trn-001",provenance="simulated"'
    assert f"\n{name}{{{marked}}} 0.93\n" in lines


def test_labels_of_a_physical_core() -> None:
    lines = page().render(make_view(1)).cores.decode()
    name = "trn_physical_core_tensor_engine_busy_ratio"
    assert f'\n{name}{{neuron_device="1",physical_core="7",node="trn-000"}} 0.37\n' in lines


def test_phase_of_a_node_is_one_series() -> None:
    compiling = make_node(1, jobs=(), compilation=Compilation(NOON - 60, 2))
    text = page().render(view_of(make_node(0), compiling, make_node(2, state=State.DOWN))).metrics
    assert named(text, "trn_node_phase") == [
        ({"node": "trn-000", "phase": "training"}, 1),
        ({"node": "trn-001", "phase": "compiling"}, 1),
    ]


def test_device_info() -> None:
    node = make_node(devices=2)
    links = {**node.inventory.device_links, 1: {"numa_node": "1"}, 2: {"name": "Trainium2"}}
    inventory = dataclasses.replace(node.inventory, device_links=links)
    text = page().render(view_of(dataclasses.replace(node, inventory=inventory))).metrics
    serial = "00000000c0ffee00"
    assert named(text, "trn_device_info") == [
        (
            {
                "neuron_device": "0",
                "pci": "00:1e.0",
                "numa_node": "0",
                "serial": serial,
                "node": "trn-000",
            },
            1,
        ),
        ({"neuron_device": "1", "numa_node": "1", "node": "trn-000"}, 1),
    ]


def test_absent_values_have_no_line() -> None:
    view = make_view(
        1,
        columns={
            "neuroncore_utilization_ratio": [0.5, math.nan, 0.0, math.inf],
            "efa_tx_bytes_total": [math.nan, math.nan],
            "node_vcpus": None,
        },
    )
    pages = page().render(view)
    of_core = {
        pairs["neuroncore"]: value
        for pairs, value in named(pages.cores, "trn_neuroncore_utilization_ratio")
    }
    assert of_core == {"0": 0.5, "2": 0.0}
    for name in (b"trn_efa_tx_bytes_total", b"trn_node_vcpus"):
        assert name not in pages.metrics, "not even a header"
    for text in (pages.metrics, pages.cores):
        assert not re.search(rb"(?i)\b(nan|inf)\b$", text, re.MULTILINE)


def test_stale_source_leaves_its_state_and_takes_its_values() -> None:
    view = make_view(1, states={NEURON_MONITOR: State.STALE}, reason="silent for 14 s")
    pages = page().render(view)
    up = {pairs["source"]: value for pairs, value in named(pages.metrics, "trntop_source_up")}
    heard = set(SOURCES) - set(FOREIGN)
    assert up == dict.fromkeys(heard, 1) | {NEURON_MONITOR: 0}
    ages = {
        pairs["source"]: value for pairs, value in named(pages.metrics, "trntop_source_age_seconds")
    }
    assert ages[NEURON_MONITOR] == 14
    assert b"trn_neuroncore_utilization_ratio" not in pages.cores
    assert b"trn_physical_core_tensor_engine_busy_ratio" in pages.cores
    assert b"trn_device_mem_ecc_corrected_events" not in pages.metrics
    assert b"trn_device_power_mean_ratio" in pages.metrics
    assert b"trn_efa_tx_bytes_total" in pages.metrics


@pytest.mark.parametrize(
    ("state", "up"),
    [
        (State.STARTING, 0),
        (State.FRESH, 1),
        (State.LATE, 1),
        (State.STALE, 0),
        (State.DOWN, 0),
        (State.ENDED, 0),
    ],
)
def test_source_state(state: State, up: int) -> None:
    text = page().render(make_view(1, state=state)).metrics
    assert {value for _, value in named(text, "trntop_source_up")} == {up}
    has_age = bool(named(text, "trntop_source_age_seconds"))
    assert has_age is (state is not State.STARTING)


def test_source_events_are_counters() -> None:
    text = page().render(make_view(1)).metrics
    events = {
        (pairs["source"], pairs["event"]): value
        for pairs, value in named(text, "trntop_source_events_total")
    }
    assert events[NEURON_MONITOR, "readings"] == 60
    assert events[EFA_SOURCE, "restarts"] == 0


def test_instance_info_holds_the_listed_facts_only() -> None:
    view = make_view(1, facts={"ami_id": "ami-1", "region": "", "ultraserver_id": "us-7"})
    ((pairs, value),) = named(page().render(view).metrics, "trn_instance_info")
    assert value == 1
    assert set(pairs) - {"node", "lnc", "simulated"} <= set(INSTANCE_LABELS)
    assert pairs["ultraserver_id"] == "us-7"
    assert pairs["lnc"] == "2"
    assert pairs["simulated"] == "false"
    assert "region" not in pairs


def test_incidents_are_open_ones_without_empty_labels_and_without_pids() -> None:
    incidents = [
        make_incident("hang", job="pretrain-13b", node=None, component=None),
        make_incident("execution_errors", component="runtime:4711"),
        make_incident("execution_errors", component="runtime:4712", opened_at=NOON),
        make_incident("comm_bound", closed_at=NOON),
    ]
    text = page().render(make_view(1, incidents=incidents)).metrics
    found = [pairs for pairs, _ in named(text, "trn_incident_active")]
    assert found == [
        {"kind": "hang", "severity": "warning", "training_job": "pretrain-13b"},
        {
            "kind": "execution_errors",
            "severity": "warning",
            "node": "trn-001",
            "component": "runtime",
        },
    ]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:20]))
def test_hostile_names_survive_a_parser(text: str) -> None:
    view = view_of(
        make_node(name=text, jobs=[text], facts={"instance_id": text}, states={"x": State.DOWN})
    )
    pages = page().render(view)
    # The parser is Python's: it is handed what could be encoded.
    shown = text.encode("utf-8", "replace").decode()
    ((info, _),) = named(pages.metrics, "trn_instance_info")
    assert (info["node"], info["instance_id"]) == (shown, shown)
    ((step, _),) = named(pages.metrics, "trn_job_step")
    assert step == {"training_job": shown, "node": shown}
    assert len(named(pages.cores, "trn_neuroncore_utilization_ratio")) == 4


def test_escape_and_labels() -> None:
    assert escape('a"b\\c\nd') == 'a\\"b\\\\c\\nd'
    assert labels([("a", 1), ("b", ""), ("c", "x")]) == '{a="1",c="x"}'
    assert labels([("a", "")]) == ""


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (-3.0, "-3"),
        (0.1, "0.1"),
        (1e-9, "1e-09"),
        (103079215104.0, "103079215104"),
        (2.0**53, "9007199254740992.0"),
        (1e300, "1e+300"),
    ],
)
def test_numbers_are_short_and_exact(value: float, text: str) -> None:
    assert number(value) == text
    assert float(text) == value


class TestSeriesGuard:
    def test_cuts_whole_families_from_the_end_and_counts(self) -> None:
        view = make_view(2)
        whole = samples(page().render(view).metrics)
        limit = 150
        cut = page(max_series=limit).render(view).metrics
        kept = samples(cut)
        ((pairs, dropped),) = named(cut, "trntop_series_dropped")
        assert pairs == {"page": "metrics"}
        assert dropped == len(whole) - len(kept) > 0
        assert len(kept) - 1 <= limit, "its own series does not count"
        order = list(dict.fromkeys(name for name, _ in whole))
        names = {name for name, _ in kept} - {"trntop_series_dropped"}
        assert names == set(order[: len(names)])
        for name in names:
            assert len(named(cut, name)) == sum(one == name for one, _ in whole)

    def test_says_zero_when_nothing_is_cut(self) -> None:
        pages = page().render(make_view(2))
        assert named(pages.metrics, "trntop_series_dropped") == [({"page": "metrics"}, 0)]
        assert named(pages.cores, "trntop_series_dropped") == [({"page": "cores"}, 0)]

    def test_churn_of_jobs_and_pids_leaves_nothing_behind(self) -> None:
        one = page()
        sizes = set()
        for day in range(200):
            node = make_node(jobs=[f"job-{day}"])
            pids = {Entity.RUNTIME: (day, day + 1)}
            inventory = dataclasses.replace(
                node.inventory, keys={**node.inventory.keys, **pids}, version=day
            )
            text = one.render(view_of(dataclasses.replace(node, inventory=inventory))).metrics
            sizes.add(len(samples(text)))
        assert len(sizes) == 1
        assert len(one._nodes) == 1

    def test_nodes_that_left_are_forgotten(self) -> None:
        one = page()
        one.render(make_view(3))
        text = one.render(make_view(1)).metrics
        assert b"trn-001" not in text
        assert list(one._nodes) == [node_name(0)]


class TestPrefixes:
    def test_are_kept_while_the_inventory_stands(self) -> None:
        one = page()
        node = make_node()
        one.render(view_of(node))
        before = one._nodes[node.name]
        later = dataclasses.replace(make_node(time=NOON + 1), inventory=node.inventory)
        one.render(view_of(later))
        assert one._nodes[node.name] is before

    def test_follow_the_inventory(self) -> None:
        one = page()
        one.render(view_of(make_node(efa=1)))
        assert b'efa_device="rdmap32s27"' in one.render(view_of(make_node(efa=2))).metrics
        assert b'provenance="simulated"' in one.render(view_of(make_node(simulated=True))).metrics

    def test_core_without_a_known_device_has_no_device_label(self) -> None:
        node = make_node()
        inventory = dataclasses.replace(node.inventory, core_device=np.empty(0, np.int64))
        text = page().render(view_of(dataclasses.replace(node, inventory=inventory))).cores
        assert b'trn_neuroncore_utilization_ratio{neuroncore="0",node="trn-000"} 0.9\n' in text


def test_without_a_view_the_exporter_speaks_of_itself() -> None:
    for view in (None, make_view(0)):
        pages = page().render(view)
        found = {name for name, _ in samples(pages.metrics)}
        assert found == {"trntop_build_info", "trntop_series_dropped", *USAGE}
        assert {name for name, _ in samples(pages.cores)} == {"trntop_series_dropped"}


def test_node_whose_inventory_is_bare() -> None:
    node = make_node(state=State.STARTING)
    bare = dataclasses.replace(node, inventory=Inventory(node.name))
    text = page().render(view_of(bare)).metrics
    assert named(text, "trn_instance_info") == [
        ({"node": "trn-000", "lnc": "1", "simulated": "false"}, 1)
    ]


def test_page_of_128_physical_cores_is_quick() -> None:
    one = page()
    node = make_node(devices=16, cores_per_device=4, efa=16)
    view = view_of(node)
    one.render(view)

    def spent() -> Iterator[float]:
        for _ in range(20):
            start = time.perf_counter()
            one.render(view)
            yield time.perf_counter() - start

    # Both pages; the budget is 2 ms, the best of twenty is what other load leaves of it.
    assert min(spent()) < 0.004


class TestProcessUsage:
    def test_reads_this_process(self) -> None:
        values = ProcessUsage().read()
        assert list(values) == [name for name, *_ in ProcessUsage.FAMILIES]
        assert values["process_resident_memory_bytes"] > 1 << 20
        assert 0 < values["process_start_time_seconds"] <= time.time() + 2
        assert values["process_open_fds"] >= 3

    def test_is_silent_where_there_is_no_proc(self, tmp_path: Path) -> None:
        assert ProcessUsage(tmp_path).read() == {}

    def test_takes_any_name_of_a_command(self, tmp_path: Path) -> None:
        (tmp_path / "stat").write_text("cpu 1 2\nbtime 1000\n")
        (tmp_path / "self" / "fd").mkdir(parents=True)
        fields = ["S", *("0" for _ in range(10)), "150", "50", *("0" for _ in range(6)), "300"]
        fields += ["0", "7"]
        (tmp_path / "self" / "stat").write_text(f"12 (a) b) {' '.join(fields)}\n")
        values = ProcessUsage(tmp_path).read()
        ticks = ProcessUsage()._ticks
        assert values["process_cpu_seconds_total"] == 200 / ticks
        assert values["process_start_time_seconds"] == 1000 + 300 / ticks


def test_rendering_loads_no_server() -> None:
    code = (
        "import sys, trntop.exporters.prometheus, trntop.exporters.document, "
        "trntop.exporters.table;"
        "print([m for m in ('starlette','uvicorn','textual','boto3','httpx','asyncio') "
        "if m in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert result.stdout.strip() == "[]"


if __name__ == "__main__":
    for name in ("metrics", "cores"):
        (GOLDEN / f"{name}.prom").write_text(
            versionless(getattr(page().render(golden_view()), name))
        )
