import itertools
from typing import Any

import pytest

from tests.collectors.simulator.playing import START, Event, notes, play, scripted, steps
from trntop.collectors.simulator import SCENARIOS, parse, simulate

FLEET = "nodes=3&type=trn1.32xlarge&seed=5"


def runtime(event: Event, index: int = 0) -> Any:
    return event.data["neuron_runtime_data"][index]["report"]


def utilization(event: Event) -> float:
    cores = runtime(event)["neuroncore_counters"]["neuroncores_in_use"].values()
    return float(sum(core["neuroncore_utilization"] for core in cores) / len(cores))


def completed(event: Event) -> int:
    return int(runtime(event)["execution_stats"]["execution_summary"]["completed"])


def shares(events: list[Event], part: str) -> list[float]:
    return [event.data[part] / event.data["step_seconds"] for event in events]


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def during(events: list[Event], begin: float, end: float) -> list[Event]:
    return [event for event in events if begin <= event.second < end]


@pytest.mark.parametrize(
    ("scenario", "kinds"),
    [
        ("healthy", []),
        ("efa-degraded", ["efa_degraded"]),
        ("slow-node", ["straggler"]),
        ("hang", ["hang"]),
        ("silent-node", ["node_silent"]),
        ("recompile", ["recompile"]),
        ("memory-filling", ["memory_pressure"]),
        ("ecc", ["ecc_uncorrected"]),
        ("execution-errors", ["execution_errors"]),
        ("comm-bound", ["comm_bound"]),
        ("slow-device", ["straggler"]),
        ("efa-down", ["efa_down"]),
        ("latency-regression", ["latency_regression"]),
        ("device-lost", ["device_lost"]),
        ("idle-allocation", ["idle_allocation"]),
        ("version-skew", ["version_skew"]),
        ("checkpoint-stall", ["checkpoint_stall"]),
        ("demo", ["efa_degraded", "memory_pressure", "straggler", "node_silent"]),
    ],
)
def test_the_truth_of_every_scenario(scenario: str, kinds: list[str]) -> None:
    assert scenario in SCENARIOS
    incidents = scripted(f"sim:{scenario}?{FLEET}")
    assert [incident.kind for incident in incidents] == kinds
    for incident in incidents:
        assert incident.node in ("trn-001", "trn-002", None)
        assert incident.onset < incident.end
        first = {"demo": 75.0, "version-skew": 0.0}.get(scenario, 120.0)
        assert incident.onset >= START + first


def test_the_seed_chooses_the_victim_and_spares_node_0() -> None:
    victims = {scripted(f"sim:slow-node?nodes=4&seed={seed}")[0].node for seed in range(40)}
    assert victims == {"trn-001", "trn-002", "trn-003"}
    assert scripted("sim:slow-node?nodes=1")[0].node == "trn-000"


def test_what_lies_beyond_the_end_is_not_the_truth() -> None:
    assert scripted("sim:hang?minutes=2") == ()
    assert len(scripted("sim:hang?minutes=2.1")) == 1


def test_efa_degraded_slows_all_nodes_and_shows_on_one_device() -> None:
    spec = f"sim:efa-degraded?{FLEET}"
    (degraded,) = scripted(spec)
    assert degraded.job == "pretrain-13b"
    assert (degraded.onset, degraded.end) == (START + 120, START + 270)
    assert degraded.component is not None
    device = degraded.component.removeprefix("efa:")

    events = play(spec, end=320.0)
    records = steps(events)
    for begin, end, comm, exposed in ((0, 120, 0.17, 0.08), (130, 270, 0.33, 0.24)):
        part = [e for e in during(records, begin, end) if e.data["step_seconds"] < 6.0]
        for node in ("trn-000", "trn-001", "trn-002"):
            mine = [event for event in part if event.node == node]
            assert mean(shares(mine, "comm_seconds")) == pytest.approx(comm, abs=0.015)
            assert mean(shares(mine, "exposed_comm_seconds")) == pytest.approx(exposed, abs=0.015)
    assert mean(shares(during(records, 280, 320), "comm_seconds")) < 0.2

    devices = [e for e in events if e.source == "efa" and e.node == degraded.node]

    def change(begin: float, end: float, name: str) -> dict[str, int]:
        part = during(devices, begin, end)
        first, last = part[0].data["devices"], part[-1].data["devices"]
        return {key: last[key]["port"][name] - first[key]["port"][name] for key in first}

    again, packets = change(125, 269, "retrans_pkts"), change(125, 269, "tx_pkts")
    for name in again:
        expected = 0.02 if name == device else 0.0
        assert again[name] / packets[name] == pytest.approx(expected, abs=0.002)
    for name in ("retrans_timeout_events", "impaired_remote_conn_events"):
        events_of = change(125, 269, name)
        assert events_of.pop(device) > 30
        assert max(events_of.values()) < 5
    healthy, faulty = change(0, 118, "tx_bytes"), change(125, 269, "tx_bytes")
    assert faulty[device] / 143 < 0.5 * healthy[device] / 117
    assert sum(faulty.values()) / 143 < 0.9 * sum(healthy.values()) / 117
    assert max(change(272, 318, "retrans_pkts").values()) < 20


def test_the_slow_node_waits_least() -> None:
    spec = f"sim:slow-node?{FLEET}"
    (truth,) = scripted(spec)
    records = steps(play(spec, "steps", begin=130.0, end=290.0))
    slow = [event for event in records if event.node == truth.node]
    rest = [event for event in records if event.node != truth.node]
    ratio = mean([e.data["compute_seconds"] for e in slow]) / mean(
        [e.data["compute_seconds"] for e in rest]
    )
    assert ratio == pytest.approx(1.35, abs=0.02)
    assert max(e.data["exposed_comm_seconds"] for e in slow) < 0.5
    assert min(e.data["exposed_comm_seconds"] for e in rest) > 1.5
    assert {e.data["step"] for e in slow} == {e.data["step"] for e in rest}


def test_a_hang_looks_busy_and_moves_nothing() -> None:
    spec = f"sim:hang?{FLEET}"
    (truth,) = scripted(spec)
    events = play(spec, begin=100.0, end=330.0)
    stuck = during(events, 128.0, 299.0)
    assert not {event.source for event in stuck} & {"steps", "log"}
    for event in stuck:
        if event.source == "neuron-monitor":
            assert utilization(event) > 98.5
            assert completed(event) == 0
            assert runtime(event)["execution_stats"]["latency_stats"]["total_latency"] is None
    for node in ("trn-000", "trn-001", "trn-002"):
        sent = {
            device["port"]["tx_bytes"]
            for event in stuck
            if event.source == "efa" and event.node == node
            for device in event.data["devices"].values()
        }
        assert len(sent) == 8
    # The victim stops first, the others compute on up to the collective.
    last = {
        event.node: event.second
        for event in during(events, 100.0, 299.0)
        if event.source == "neuron-monitor" and completed(event)
    }
    assert min(last, key=lambda node: last[node]) == truth.node
    numbers = sorted({e.data["step"] for e in steps(events)})
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert during(steps(events), 301.0, 330.0)


def test_a_silent_node_sends_nothing_and_the_others_hang() -> None:
    spec = f"sim:silent-node?{FLEET}"
    (truth,) = scripted(spec)
    events = play(spec, begin=110.0, end=260.0)
    mine = [event.second for event in events if event.node == truth.node]
    assert not any(120.0 <= second < 240.0 for second in mine)
    assert min(mine) < 120.0 and any(second > 240.0 for second in mine)
    rest = during(events, 126.0, 239.0)
    assert not {event.source for event in rest} & {"steps", "log"}
    assert all(completed(e) == 0 for e in rest if e.source == "neuron-monitor")
    after = during(steps(events), 240.0, 260.0)
    assert {event.node for event in after} == {"trn-000", "trn-001", "trn-002"}


def test_a_recompilation_is_one_long_step_on_idle_cores() -> None:
    events = play(f"sim:recompile?{FLEET}", begin=100.0, end=220.0)
    lengths = [e.data["step_seconds"] for e in steps(events)]
    assert 55.0 < max(lengths) < 65.0
    monitor = [event for event in events if event.source == "neuron-monitor"]
    for event in during(monitor, 126.0, 179.0):
        assert utilization(event) < 2.0
        assert completed(event) == 0
        assert event.data["system_data"]["vcpu_usage"]["average_usage"]["user"] > 70.0
    models = [
        (runtime(e)["memory_used"]["loaded_models"][0]["uuid"], e.second > 181.0)
        for e in monitor
        if not 179.0 < e.second < 182.0
    ]
    assert len(set(models)) == 2
    assert len({uuid for uuid, _ in models}) == 2


def test_a_recompilation_shows_on_the_host_and_is_announced() -> None:
    events = play(f"sim:recompile?{FLEET}", begin=100.0, end=220.0)
    announced = {
        (event.data["stage"], round(event.data["since"] - START)): event.data["rank"]
        for event in notes(events)
        if event.node == "trn-001"
    }
    (compiling, begin), (training, end), *_ = announced
    assert (compiling, training) == ("compiling", "training")
    assert 120 <= begin < 126 and end == 180
    assert set(announced.values()) == {16}
    modules = []
    for event in events:
        if event.source == "host" and event.node == "trn-001":
            modules.append(event.data["compile_cache"]["modules"])
            running = event.data["compilers"]
            assert bool(running) == (begin < event.second < end)
            for compiler in running:
                assert compiler["since"] - START == pytest.approx(begin, abs=1.0)
                assert compiler["command"].startswith("neuronx-cc compile ")
    assert modules == sorted(modules)
    assert (modules[0], modules[-1]) == (12, 25)


def test_a_recompiled_program_has_no_profile() -> None:
    events = play(f"sim:recompile?{FLEET}", begin=100.0, end=260.0)
    profiled = {
        (profile["name"], profile["uuid"])
        for event in events
        if event.source == "profiles"
        for profile in event.data["profiles"]
    }
    assert len(profiled) == 1
    for event in events:
        if event.source == "neuron-monitor" and not 179.0 < event.second < 182.0:
            (model,) = runtime(event)["memory_used"]["loaded_models"]
            known = (model["name"].rpartition("/")[2], model["uuid"])
            assert (known in profiled) == (event.second < 180.0)


def test_the_memory_of_one_device_fills_and_is_freed() -> None:
    spec = f"sim:memory-filling?{FLEET}"
    (truth,) = scripted(spec)
    shares: dict[int, list[float]] = {}
    for event in play(spec, "neuron-monitor", begin=110.0, end=375.0):
        usage = runtime(event)["memory_used"]["neuron_runtime_used_bytes"]["usage_breakdown"]
        cores = [sum(core.values()) for core in usage["neuroncore_memory_usage"].values()]
        for device in range(16):
            share = sum(cores[2 * device : 2 * device + 2]) / 34359738368
            if event.node == truth.node and f"device:{device}" == truth.component:
                shares.setdefault(int(event.second), []).append(share)
            else:
                assert 0.69 < share < 0.71
    filling = [values[0] for values in shares.values()]
    assert filling[0] < 0.71
    assert max(filling) == pytest.approx(0.98, abs=0.001)
    assert shares[310][0] > 0.97 and shares[358][0] > 0.97
    assert shares[370][0] < 0.71
    assert all(b - a < 0.01 for a, b in itertools.pairwise(filling))


def test_an_uncorrectable_error_is_counted_once_and_stays() -> None:
    spec = f"sim:ecc?{FLEET}"
    (truth,) = scripted(spec)
    for event in play(spec, "neuron-monitor", begin=110.0, end=140.0):
        for device in event.data["system_data"]["neuron_hw_counters"]["neuron_devices"]:
            hit = (event.node, f"device:{device['neuron_device_index']}") == (
                truth.node,
                truth.component,
            )
            assert device["mem_ecc_uncorrected"] == int(hit and event.second > 120.0)


def test_an_uncorrectable_error_shows_in_sysfs_and_in_the_kernels_log() -> None:
    spec = f"sim:ecc?{FLEET}"
    (truth,) = scripted(spec)
    assert truth.component is not None
    faulty = truth.component.removeprefix("device:")
    events = play(spec, begin=100.0, end=150.0)
    for event in events:
        if event.source == "neuron-sysfs":
            for name, device in event.data["devices"].items():
                hit = event.second > 120.0 and (event.node, name) == (truth.node, faulty)
                assert device["hardware"]["mem_ecc_uncorrected"] == int(hit)
                assert device["unhealthy_components"] == ("hbm" if hit else "")
    lines = [
        (event.node, round(line["time"] - START), line["text"])
        for event in events
        if event.source == "kernel-log"
        for line in event.data["lines"]
    ]
    ((node, second, text),) = lines
    assert (node, second) == (truth.node, 120)
    assert "NEURON_HW_ERR=HBM_UNCORRECTABLE_ERROR" in text
    assert f" nd-id={faulty} " in text


def test_execution_errors_of_one_runtime() -> None:
    spec = f"sim:execution-errors?{FLEET}&runtimes=2"
    (truth,) = scripted(spec)
    failed = 0
    for event in play(spec, "neuron-monitor", begin=100.0, end=200.0):
        for process in event.data["neuron_runtime_data"]:
            stats = process["report"]["execution_stats"]
            errors = stats["execution_summary"]["completed_with_err"]
            assert errors == stats["error_summary"]["hardware"]
            if errors:
                assert event.node == truth.node
                assert truth.component == f"runtime:{process['pid']}"
                assert 120.0 <= event.second < 180.0
                failed += errors
    assert 60 <= failed <= 130


def test_failed_executions_show_in_sysfs_and_in_the_kernels_log() -> None:
    spec = f"sim:execution-errors?{FLEET}&runtimes=2"
    (truth,) = scripted(spec)
    events = [e for e in play(spec, begin=100.0, end=210.0) if e.node == truth.node]
    reported = sum(
        process["report"]["execution_stats"]["execution_summary"]["completed_with_err"]
        for event in events
        if event.source == "neuron-monitor"
        for process in event.data["neuron_runtime_data"]
    )
    trees = [event.data for event in events if event.source == "neuron-sysfs"]
    counted = sum(
        core["status"]["execute_completed_with_error"]
        for device in trees[-1]["devices"].values()
        for core in device["cores"].values()
    )
    assert counted == reported > 0
    (line,) = [
        line for event in events if event.source == "kernel-log" for line in event.data["lines"]
    ]
    assert "NEURON_HW_ERR=DMA_ERROR" in line["text"]


def test_the_demo_starts_over_with_other_victims() -> None:
    spec = "sim:demo?nodes=8&type=trn1.2xlarge&seed=1"
    received: dict[int, set[str]] = {}
    names = set()
    for reading in simulate(parse(spec), 0.0):
        cycle, second = divmod(reading.time, 840.0)
        if cycle == 2.0:
            break
        names.add(reading.node)
        if 705.0 < second < 750.0:
            received.setdefault(int(cycle), set()).add(reading.node)
    silent = {cycle: names - nodes for cycle, nodes in received.items()}
    assert all(len(nodes) == 1 for nodes in silent.values())
    assert len(silent) == 2
    assert len(set.union(*silent.values())) > 1


def test_the_demo_is_calm_until_its_first_incident() -> None:
    spec = f"sim:demo?{FLEET}"
    assert min(incident.onset for incident in scripted(spec)) == START + 75.0
    records = steps(play(spec, "steps", end=75.0))
    assert max(shares(records, "comm_seconds")) < 0.22
