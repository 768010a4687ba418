import json

import numpy as np
import pytest

from tests.reports import (
    efa_payload,
    efa_reading,
    monitor_reading,
    report,
    runtime,
    step_reading,
)
from trntop.catalog import (
    HOST,
    JOB_MAPPING,
    LOG,
    NEURON_LS,
    NEURON_MONITOR,
    NEURON_SYSFS,
    POD_RESOURCES,
    STEPS,
    Entity,
)
from trntop.core.model import (
    Allocation,
    Compilation,
    Inventory,
    NodeView,
    Process,
    Reading,
    Sample,
    Stage,
    State,
    Status,
)
from trntop.core.settings import Settings
from trntop.pipeline.node import NodeState
from trntop.pipeline.source_buffer import MAX_JOBS
from trntop.session.monitor import Monitor


def monitor(*readings: Reading) -> Monitor:
    result = Monitor(Settings())
    for reading in readings:
        result.feed(reading)
    return result


def at(source: Monitor, now: float, node: str = "n") -> NodeView:
    return source.tick(now).cluster.nodes[node]


def test_fresh_late_stale() -> None:
    m = monitor(monitor_reading(report(runtime()), 100.0))
    assert at(m, 100.0).state is State.FRESH
    assert at(m, 102.4).state is State.FRESH
    late = at(m, 103.0)
    assert late.state is State.LATE
    assert late.frame.value("node_neuroncore_utilization_mean_ratio") == 0.75
    stale = at(m, 104.0)
    assert stale.state is State.STALE
    assert stale.frame.columns == {}
    assert stale.frame.why_absent("node_devices") == "neuron-monitor: silent for 4 s"
    assert stale.age() == 4.0


def test_the_status_of_a_collector_is_kept_until_the_next_reading() -> None:
    m = monitor()
    m.status(Status("n", "neuron-monitor", State.DOWN, "not installed", {"starts": 1}))
    down = at(m, 0.0)
    assert down.state is State.DOWN
    assert down.frame.why_absent("neuroncore_utilization_ratio") == "neuron-monitor: not installed"
    m.feed(monitor_reading(report(runtime()), 1.0))
    (source,) = at(m, 1.0).frame.sources
    assert source.state is State.FRESH
    assert source.counts == {"readings": 1, "starts": 1}


def test_fault_10_undecodable_payloads_are_counted_and_the_last_good_one_is_kept() -> None:
    m = monitor(
        monitor_reading(report(runtime()), 0.0), Reading("n", "neuron-monitor", 1.0, b"garbage")
    )
    view = at(m, 1.0)
    (source,) = view.frame.sources
    assert source.counts["undecodable"] == 1
    assert "not JSON" in source.reason
    assert view.frame.value("node_devices") == 1
    assert at(m, 9.0).frame.columns == {}


def test_a_source_that_reports_no_devices_is_down() -> None:
    hardware = {"neuron_device_count": 0, "error": "no driver"}
    m = monitor(monitor_reading(report(neuron_hardware_info=hardware), 0.0))
    view = at(m, 0.0)
    assert view.state is State.DOWN
    assert "no driver" in view.frame.sources[0].reason
    m.feed(monitor_reading(report(runtime()), 1.0))
    assert at(m, 1.0).state is State.FRESH


def test_unknown_sources_are_ignored() -> None:
    m = monitor(Reading("n", "future", 0.0, b"{}"))
    assert m.tick(0.0).cluster.nodes == {}
    assert m.unknown_sources == {"future": 1}


def test_totals_accumulate_the_period_counts() -> None:
    m = monitor(*(monitor_reading(report(runtime(completed=10)), t) for t in (0.0, 1.0, 2.0)))
    assert at(m, 2.0).frame.value("node_executions_completed_total") == 30


def efa_columns(tx: float, retransmits: float = 0.0) -> dict[str, float]:
    return {"tx_bytes": tx, "tx_pkts": tx / 1000, "retrans_pkts": retransmits}


def test_rates_of_counters() -> None:
    m = monitor(
        efa_reading(efa_payload(a=efa_columns(0), b=efa_columns(5e9)), 0.0),
        efa_reading(efa_payload(a=efa_columns(2e9, 20_000), b=efa_columns(6e9)), 2.0),
    )
    view = at(m, 2.0)
    assert view.frame.columns["efa_tx_bytes_per_second"].tolist() == [1e9, 0.5e9]
    assert view.frame.value("node_efa_tx_bytes_per_second") == 1.5e9
    assert view.frame.columns["efa_retransmit_ratio"].tolist() == [0.01, 0.0]
    assert view.frame.value("node_efa_tx_share_ratio") == pytest.approx(1.5 / 25)


@pytest.mark.parametrize("after", [0.0, 4.999e9, 1e18])
def test_fault_15_a_reset_or_a_jump_gives_no_rate(after: float) -> None:
    m = monitor(
        efa_reading(efa_payload(a=efa_columns(5e9)), 0.0),
        efa_reading(efa_payload(a=efa_columns(after)), 1.0),
    )
    view = at(m, 1.0)
    assert np.isnan(view.frame.columns["efa_tx_bytes_per_second"]).all()
    assert view.frame.value("node_efa_tx_bytes_per_second") is None
    m.feed(efa_reading(efa_payload(a=efa_columns(after + 1e9)), 2.0))
    if after < 1e18:
        assert at(m, 2.0).frame.columns["efa_tx_bytes_per_second"].tolist() == [1e9]


def test_a_lost_efa_device_stays_listed_and_returns() -> None:
    both = efa_payload(a=efa_columns(1e9), b=efa_columns(1e9))
    m = monitor(efa_reading(both, 0.0), efa_reading(efa_payload(b=efa_columns(2e9)), 1.0))
    view = at(m, 1.0)
    assert view.inventory.of(Entity.EFA) == ("a", "b")
    totals = view.frame.columns["efa_tx_bytes_total"]
    assert np.isnan(totals[0])
    assert totals[1] == 2e9
    assert view.frame.columns["efa_tx_bytes_per_second"][1] == 1e9
    m.feed(efa_reading(both | efa_payload(a=efa_columns(5e9), b=efa_columns(3e9)), 2.0))
    rates = at(m, 2.0).frame.columns["efa_tx_bytes_per_second"]
    assert np.isnan(rates[0])
    assert rates[1] == 1e9


def test_ranks_of_a_job_are_merged() -> None:
    m = monitor(
        step_reading(0.0, rank=0, comm=1.0, exposed=0.4),
        step_reading(0.1, rank=1, comm=0.6, exposed=0.2),
        step_reading(0.2, job="other", rank=0, comm=2.0),
    )
    view = at(m, 1.0)
    assert view.inventory.of(Entity.JOB) == ("job", "other")
    assert view.frame.columns["job_comm_share_ratio"].tolist() == [0.2, 0.5]
    assert view.frame.columns["job_ranks"].tolist() == [2, 1]
    # Rank 1 goes on, rank 0 does not: the mean is of those that report.
    m.feed(step_reading(15.0, rank=1, comm=0.6, exposed=0.2))
    view = at(m, 16.0)
    assert view.inventory.of(Entity.JOB) == ("job",)
    assert view.frame.columns["job_comm_share_ratio"].tolist() == [0.15]


def test_a_slow_job_and_a_fast_one() -> None:
    m = monitor(
        step_reading(0.0, job="slow", seconds=60.0, comm=6.0),
        *(step_reading(float(t), job="fast", seconds=1.0, comm=0.1) for t in range(0, 100, 1)),
    )
    assert at(m, 100.0).inventory.of(Entity.JOB) == ("fast", "slow")
    assert at(m, 117.0).inventory.of(Entity.JOB) == ("slow",)
    assert at(m, 190.0).inventory.of(Entity.JOB) == ()


def test_fault_13_another_logical_core_size_rebuilds_the_topology() -> None:
    m = monitor(monitor_reading(report(runtime(), per_device=2), 0.0))
    before = at(m, 0.0).inventory
    m.feed(monitor_reading(report(runtime(), per_device=4), 1.0))
    after = at(m, 1.0)
    assert after.inventory.version > before.version
    assert after.inventory.of(Entity.CORE) == (0, 1, 2, 3)
    assert after.frame.columns["neuroncore_utilization_ratio"].tolist() == [0.5, 1.0, 0.0, 0.0]


def test_groups_with_their_own_interval_are_kept() -> None:
    m = monitor(monitor_reading(report(runtime()), 0.0))
    partial = report(runtime())
    del partial["system_data"]
    m.feed(monitor_reading(partial, 1.0))
    assert "device_mem_ecc_corrected_events" in at(m, 1.0).frame.columns
    for t in (2.0, 3.0, 4.0, 5.0):
        m.feed(monitor_reading(partial, t))
    assert "device_mem_ecc_corrected_events" not in at(m, 5.0).frame.columns


def test_the_clock_is_set_back_an_hour() -> None:
    m = monitor(
        efa_reading(efa_payload(a=efa_columns(1e9)), 10_000.0),
        efa_reading(efa_payload(a=efa_columns(2e9)), 6_400.0),
    )
    view = at(m, 6_400.0)
    assert view.age() == 0.0
    assert "efa_tx_bytes_per_second" not in view.frame.columns
    m.feed(efa_reading(efa_payload(a=efa_columns(3e9)), 6_401.0))
    assert at(m, 6_401.0).frame.columns["efa_tx_bytes_per_second"].tolist() == [1e9]


def fed(node: NodeState, source: str, time: float, sample: Sample) -> None:
    node.feed(Reading("n", source, time, b""), sample)


def devices(*indices: int, **columns: list[float]) -> Sample:
    return Sample(
        keys={Entity.DEVICE: indices},
        columns={name: np.array(values) for name, values in columns.items()},
        period=1.0,
    )


def test_two_sources_of_one_entity_are_laid_along_all_its_keys() -> None:
    node = NodeState("n")
    fed(node, NEURON_SYSFS, 0.0, devices(1, 2, device_power_mean_ratio=[0.2, 0.3]))
    fed(node, NEURON_MONITOR, 0.1, devices(0, 1, device_memory_total_bytes=[1e9, 2e9]))
    view = node.view(0.5)
    assert view.inventory.of(Entity.DEVICE) == (0, 1, 2)
    np.testing.assert_array_equal(view.frame.columns["device_power_mean_ratio"], [np.nan, 0.2, 0.3])
    np.testing.assert_array_equal(
        view.frame.columns["device_memory_total_bytes"], [1e9, 2e9, np.nan]
    )
    version = view.inventory.version
    fed(node, NEURON_MONITOR, 1.1, devices(0, 1, device_memory_total_bytes=[1e9, 2e9]))
    assert node.view(1.5).inventory.version == version


def job(name: str, part: str, **values: float) -> Sample:
    columns = {key: np.array([value]) for key, value in values.items()}
    return Sample(keys={Entity.JOB: (name,)}, columns=columns, period=4.0, part=part)


def test_the_log_replaces_missing_step_telemetry() -> None:
    node = NodeState("n")
    fed(node, LOG, 0.0, job("a", "a/log", job_loss=3.0, job_mfu_ratio=0.4))
    fed(node, LOG, 0.0, job("b", "b/log", job_loss=5.0))
    fed(node, STEPS, 0.1, job("a", "a/0", job_loss=2.0, job_step_seconds=4.0))
    view = node.view(1.0)
    assert view.inventory.of(Entity.JOB) == ("a", "b")
    assert view.frame.columns["job_loss"].tolist() == [2.0, 5.0]
    assert view.frame.columns["job_mfu_ratio"][0] == 0.4


def test_step_time_from_the_rate_of_logged_steps() -> None:
    node = NodeState("n")
    for time, step in ((0.0, 100.0), (40.0, 110.0)):
        fed(node, LOG, time, job("a", "a/log", job_logged_step_total=step))
    frame = node.view(41.0).frame
    assert frame.columns["job_step_pace_seconds"].tolist() == [4.0]
    assert "job_step_seconds" not in frame.columns, "none was reported"


def test_the_step_rate_of_a_log_does_not_outlive_its_lines() -> None:
    node = NodeState("n")
    for time, step in ((0.0, 100.0), (4.0, 101.0)):
        fed(node, LOG, time, job("a", "a/log", job_logged_step_total=step, job_loss=2.0))
    assert node.view(16.0).frame.columns["job_step_pace_seconds"].tolist() == [4.0]
    late = node.view(17.0).frame.columns
    assert "job_step_pace_seconds" not in late
    assert late["job_loss"].tolist() == [2.0], "a loss is kept until the log is stale"
    fed(node, LOG, 40.0, job("a", "a/log", job_logged_step_total=110.0))
    assert node.view(40.5).frame.columns["job_step_pace_seconds"].tolist() == [4.0]


def test_facts_of_one_device_from_two_sources_are_joined() -> None:
    node = NodeState("n")
    fed(node, NEURON_SYSFS, 0.0, Sample(facts={"device_links": {0: {"serial_number": "x"}}}))
    fed(node, NEURON_LS, 0.0, Sample(facts={"device_links": {0: {"pci": "0000:10:1e.0"}}}))
    links = node.view(0.1).inventory.device_links
    assert links == {0: {"serial_number": "x", "pci": "0000:10:1e.0"}}
    fed(node, NEURON_SYSFS, 1.0, Sample(facts={"device_links": {0: {"lost": "No such device"}}}))
    fed(node, NEURON_SYSFS, 2.0, Sample(facts={"device_links": {0: {"serial_number": "x"}}}))
    assert node.view(2.1).inventory.device_links == links


def test_what_a_source_saw_goes_with_it() -> None:
    node = NodeState("n")
    process = Process(1, "python3 train.py", (0,))
    fed(node, NEURON_LS, 0.0, Sample(facts={"processes": (process,)}, period=1.0))
    fed(node, HOST, 0.0, Sample(facts={"compilation": Compilation(0.0, 1)}, period=1.0))
    early = node.view(1.0)
    assert early.inventory.processes == (process,)
    assert early.inventory.compilation is not None
    assert early.frame.phase is not None
    assert early.frame.phase.stage is Stage.COMPILING
    late = node.view(30.0)
    assert late.inventory.processes == ()
    assert late.inventory.compilation is None
    assert late.frame.phase is None


def test_a_lost_device_keeps_its_position() -> None:
    node = NodeState("n")
    fed(node, NEURON_SYSFS, 0.0, devices(0, 1, 2, device_power_mean_ratio=[0.1, 0.2, 0.3]))
    fed(node, NEURON_SYSFS, 1.0, devices(0, 2, device_power_mean_ratio=[0.1, 0.3]))
    view = node.view(1.5)
    assert view.inventory.of(Entity.DEVICE) == (0, 1, 2)
    np.testing.assert_array_equal(view.frame.columns["device_power_mean_ratio"], [0.1, np.nan, 0.3])


def test_the_line_rate_of_an_old_driver_comes_from_the_instance_type() -> None:
    old = {**efa_payload(a=efa_columns(0)), "driver": "2.12.1"}
    m = monitor(efa_reading(old, 0.0))
    assert "efa_link_bytes_per_second" not in at(m, 0.1).frame.columns
    type_of = {"instance_type": "trn2.48xlarge", "error": ""}
    m.feed(monitor_reading(report(runtime(), instance_info=type_of), 0.2))
    frame = at(m, 0.3).frame
    assert frame.columns["efa_link_bytes_per_second"].tolist() == [25e9]
    assert frame.value("node_efa_cards") == 1
    assert frame.value("node_efa_cards_expected") == 16


def test_a_degraded_rail_deviates_from_its_peers() -> None:
    m = monitor(
        efa_reading(efa_payload(a=efa_columns(0), b=efa_columns(0), c=efa_columns(0)), 0.0),
        efa_reading(efa_payload(a=efa_columns(4e9), b=efa_columns(4e9), c=efa_columns(1e9)), 1.0),
    )
    frame = at(m, 1.0).frame
    assert frame.columns["efa_tx_sibling_ratio"].tolist() == [1.0, 1.0, 0.25]
    assert frame.value("node_efa_tx_imbalance_ratio") == 0.75


def test_why_a_computed_value_is_absent_follows_its_inputs() -> None:
    m = monitor(monitor_reading(report(runtime()), 0.0))
    m.status(Status("n", "tensor-engine", State.DOWN, "this driver shows no counters"))
    frame = at(m, 0.5).frame
    for name in ("node_tensor_engine_busy_mean_ratio", "neuroncore_tensor_engine_busy_ratio"):
        assert frame.why_absent(name) == "tensor-engine: this driver shows no counters"
    assert frame.why_absent("efa_retransmit_ratio") == "no efa source"


def test_a_log_expires_by_its_own_interval() -> None:
    node = NodeState("n")
    for time in (0.0, 10.0, 20.0):
        sample = job("a", "a/log", job_loss=3.0)
        sample.period = None
        fed(node, LOG, time, sample)
    assert "job_loss" in node.view(75.0).frame.columns
    assert "job_loss" not in node.view(90.0).frame.columns


def test_the_efa_devices_nearest_to_a_device() -> None:
    devices = {
        "a": {"pci": "0000:10:1b.0", "numa_node": "0"},
        "b": {"pci": "0000:10:1c.0", "numa_node": "0"},
        "c": {"pci": "0000:20:1b.0", "numa_node": "0"},
    }
    devices_at = {
        0: {"pci": "0000:10:1e.0", "numa_node": "0"},
        1: {"pci": "0000:30:1e.0", "numa_node": "0"},
        2: {"numa_node": "1"},
        3: {},
    }
    inventory = Inventory(
        "n", keys={Entity.EFA: tuple(devices)}, efa_links=devices, device_links=devices_at
    )
    near = [inventory.near_efa_devices(device) for device in range(5)]
    assert near == [("a", "b"), ("a", "b", "c"), (), (), ()]


class TestAllocations:
    """Allocations: from several sources, and valid while they report."""

    JOB = b'{"files":{"all":["4711"]}}'
    POD = (
        b'{"pods":[{"namespace":"ml","name":"a","containers":[{"name":"c","devices":'
        b'[{"resource":"aws.amazon.com/neuron","ids":["0"]}]}]}]}'
    )

    def test_unreported_and_unallocated_differ(self) -> None:
        m = monitor(monitor_reading(report(runtime()), 100.0))
        assert at(m, 100.0).inventory.allocations is None
        m.feed(Reading("n", JOB_MAPPING, 100.0, b"{}"))
        assert at(m, 100.0).inventory.allocations == ()

    def test_each_source_sets_and_clears_its_own(self) -> None:
        m = monitor(
            Reading("n", JOB_MAPPING, 100.0, self.JOB), Reading("n", POD_RESOURCES, 100.0, self.POD)
        )
        pod = Allocation(namespace="ml", pod="a", container="c", devices=(0,))
        job = Allocation("4711", whole=True)
        assert at(m, 101.0).inventory.allocations == (job, pod)
        m.feed(Reading("n", JOB_MAPPING, 110.0, b"{}"))
        assert at(m, 110.0).inventory.allocations == (pod,)

    def test_a_kubelet_that_restarts_takes_nothing_away_until_it_is_stale(self) -> None:
        m = monitor(Reading("n", POD_RESOURCES, 100.0, self.POD))
        m.status(Status("n", POD_RESOURCES, State.DOWN, "no answer within 10 s"))
        assert len(at(m, 159.0).inventory.allocations or ()) == 1
        assert at(m, 159.0).frame.sources[0].state is State.DOWN, "and it reports that"
        assert at(m, 161.0).inventory.allocations is None

    def test_owners_of_devices(self) -> None:
        m = monitor(monitor_reading(report(runtime()), 100.0))
        inventory = at(m, 100.0).inventory
        held = inventory.held_devices(Allocation("1", devices=(7,), cores=(0, 1, 99)))
        assert held == (0, 7)


def test_fault_28_one_node_has_a_limit_of_jobs() -> None:
    """Any user may report steps: each job costs the rules milliseconds a tick."""

    def steps(job: int, rank: int, time: float) -> Reading:
        record = {"job": f"j{job}", "rank": rank, "step": 1, "step_seconds": 1.0}
        return Reading("n", STEPS, time, json.dumps(record).encode())

    m = monitor(*(steps(job, 0, 0.001 * job) for job in range(500)))
    m.feed(steps(3, 1, 1.0))  # another rank of a known job is kept
    inventory = at(m, 1.0).inventory
    assert len(set(inventory.of(Entity.JOB))) == MAX_JOBS
    assert len(inventory.of(Entity.RANK)) == MAX_JOBS + 1
    (source,) = [source for source in at(m, 1.0).frame.sources if source.name == STEPS]
    assert source.counts["dropped"] == 500 - MAX_JOBS
