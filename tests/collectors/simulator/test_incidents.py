"""What each further kind of incident looks like in the payloads."""

import itertools
from typing import Any

import pytest

from tests.collectors.simulator.playing import START, Event, notes, play, scripted, steps

FLEET = "nodes=3&type=trn1.32xlarge&seed=5"


def runtime(event: Event) -> Any:
    return event.data["neuron_runtime_data"][0]["report"]


def utilization(event: Event) -> list[float]:
    cores = runtime(event)["neuroncore_counters"]["neuroncores_in_use"].values()
    return [core["neuroncore_utilization"] for core in cores]


def completed(event: Event) -> int:
    return int(runtime(event)["execution_stats"]["execution_summary"]["completed"])


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def test_collectives_slow_down_without_a_faulty_node() -> None:
    spec = f"sim:comm-bound?{FLEET}"
    (truth,) = scripted(spec)
    assert (truth.node, truth.component, truth.job) == (None, None, "pretrain-13b")
    records = steps(play(spec, "steps", begin=60.0, end=290.0))
    for name in ("trn-000", "trn-001", "trn-002"):
        shares = {
            late: mean(
                [
                    event.data["comm_seconds"] / event.data["step_seconds"]
                    for event in records
                    if event.node == name and (event.second > 130.0) == late
                ]
            )
            for late in (False, True)
        }
        assert shares[False] < 0.2
        assert 0.26 < shares[True] < 0.32


def test_one_slow_device_waits_least() -> None:
    spec = f"sim:slow-device?{FLEET}&depth=0.2"
    (truth,) = scripted(spec)
    assert truth.component is not None and truth.job is not None
    rank = 16 * int(str(truth.node)[-1]) + int(truth.component.removeprefix("device:"))
    records = [event.data for event in steps(play(spec, "steps", begin=130.0, end=290.0))]
    slow = [record for record in records if record["rank"] == rank]
    rest = [record for record in records if record["rank"] != rank]
    usual = mean([record["compute_seconds"] for record in rest])
    assert mean([record["compute_seconds"] for record in slow]) == pytest.approx(1.2 * usual, 0.01)
    assert max(record["exposed_comm_seconds"] for record in slow) < 0.5
    assert min(record["exposed_comm_seconds"] for record in rest) > 0.9
    # All compute the same, however long they take.
    assert mean([record["mfu"] for record in slow]) == pytest.approx(
        mean([record["mfu"] for record in rest]), rel=0.01
    )


def test_depth_grows_over_the_ramp() -> None:
    spec = f"sim:slow-node?{FLEET}&depth=0.5&onset=60&ramp=60&duration=120"
    (truth,) = scripted(spec)
    assert (truth.onset - START, truth.end - START, truth.depth) == (60, 180, 0.5)
    records = [e for e in steps(play(spec, "steps", end=190.0)) if e.node == truth.node]
    lengths = {round(e.second): e.data["compute_seconds"] for e in records}
    early, middle, late = (
        mean([length for second, length in lengths.items() if begin <= second < end])
        for begin, end in ((0, 60), (85, 105), (135, 180))
    )
    assert early < middle < late
    assert late == pytest.approx(1.5 * early, rel=0.02)
    assert middle == pytest.approx(1.25 * early, rel=0.1)


def test_a_rank_that_hangs_on_the_host_is_idle_while_the_others_spin() -> None:
    spec = f"sim:hang?{FLEET}&way=host"
    (truth,) = scripted(spec)
    for event in play(spec, "neuron-monitor", begin=132.0, end=299.0):
        assert completed(event) == 0
        user = event.data["system_data"]["vcpu_usage"]["average_usage"]["user"]
        if event.node == truth.node:
            assert max(utilization(event)) == 0.0
            assert user < 2.0
        else:
            assert min(utilization(event)) > 90.0
            assert user > 15.0


@pytest.mark.parametrize("seed", [1, 6])
def test_the_hanging_rank_stops_first(seed: int) -> None:
    spec = f"sim:hang?nodes=4&type=trn1.2xlarge&seed={seed}"
    (truth,) = scripted(spec)
    ended: dict[str, int] = {}
    for event in play(spec, "neuron-monitor", end=160.0):
        ended[event.node] = ended.get(event.node, 0) + completed(event)
    assert min(ended, key=lambda node: ended[node]) == truth.node
    assert sorted(ended.values())[1] - ended[str(truth.node)] >= 4


@pytest.mark.parametrize(
    ("way", "retransmits", "sends"),
    [("both", True, 0.75), ("retransmits", True, 1.0), ("throughput", False, 0.75)],
)
def test_a_degraded_efa_device(way: str, retransmits: bool, sends: float) -> None:
    spec = f"sim:efa-degraded?{FLEET}&way={way}&depth=0.25"
    (truth,) = scripted(spec)
    assert truth.component is not None
    devices = [e.data["devices"] for e in play(spec, "efa", 130.0, 260.0) if e.node == truth.node]
    change = {
        name: {
            device: devices[-1][device]["port"][name] - devices[0][device]["port"][name]
            for device in devices[0]
        }
        for name in ("tx_bytes", "tx_pkts", "retrans_pkts")
    }
    faulty = truth.component.removeprefix("efa:")
    usual = mean([sent for device, sent in change["tx_bytes"].items() if device != faulty])
    assert change["tx_bytes"][faulty] / usual == pytest.approx(sends, rel=0.05)
    again = {
        device: change["retrans_pkts"][device] / change["tx_pkts"][device] for device in devices[0]
    }
    assert (again.pop(faulty) > 0.007) == retransmits
    assert max(again.values()) < 1e-4


@pytest.mark.parametrize("way", ["gone", "state", "still"])
def test_an_efa_device_that_is_down(way: str) -> None:
    spec = f"sim:efa-down?{FLEET}&way={way}"
    (truth,) = scripted(spec)
    assert truth.component is not None
    faulty = truth.component.removeprefix("efa:")
    events = [event for event in play(spec, "efa", 100.0, 260.0) if event.node == truth.node]
    down = [event.data["devices"] for event in events if 122.0 < event.second < 239.0]
    assert all((faulty in devices) == (way != "gone") for devices in down)
    if way != "gone":
        assert len({devices[faulty]["port"]["tx_bytes"] for devices in down}) == 1
        assert {devices[faulty]["state"] for devices in down} == {
            "1: DOWN" if way == "state" else "4: ACTIVE"
        }
    healthy = next(device for device in down[0] if device != faulty)
    before = [event.data["devices"] for event in events if event.second < 119.0]
    rates = [
        (part[-1][healthy]["port"]["tx_bytes"] - part[0][healthy]["port"]["tx_bytes"])
        / (len(part) - 1)
        for part in (before, down)
    ]
    # One of eight is out; the steps are a little longer.
    assert rates[1] / rates[0] == pytest.approx(8 / 7, rel=0.08)
    assert events[-1].data["devices"][faulty]["state"] == "4: ACTIVE"


def test_messages_of_one_pair_take_longer() -> None:
    spec = "sim:latency-regression?nodes=5&type=trn1.32xlarge&depth=2"
    (truth,) = scripted(spec)
    assert truth.component is not None
    pairs: dict[tuple[str, str], list[Event]] = {}
    for event in play(spec, "probe", end=480.0):
        pairs.setdefault((event.node, event.data["peer"]), []).append(event)
    assert len(pairs) == len({frozenset(pair) for pair in pairs}) == 10
    faulty = (str(truth.node), truth.component.removeprefix("link:"))
    for pair, events in pairs.items():
        assert {round(b.second - a.second) for a, b in itertools.pairwise(events)} == {60}
        early, late = (
            mean([e.data["seconds"] for e in events if (120.0 < e.second < 420.0) == inside])
            for inside in (False, True)
        )
        assert 12e-6 < early < 22e-6
        assert late / early == pytest.approx(3.0 if pair == faulty else 1.0, rel=0.25)
    device = pairs[faulty][0].data["card"]
    assert len({events[0].data["card"] for events in pairs.values()}) > 1
    assert pairs[faulty][0].data == {
        "tool": "fi_pingpong",
        "peer": faulty[1],
        "card": device,
        "peer_card": device,
        "provider": "efa",
        "size_bytes": 64,
        "statistic": "mean",
        "seconds": pairs[faulty][0].data["seconds"],
        "load": "training",
    }


def test_probes_over_a_degraded_efa_device_take_longer() -> None:
    spec = "sim:efa-degraded?nodes=9&type=trn1.32xlarge&seed=7&probes=1"
    (truth,) = scripted(spec)
    device = str(truth.component).removeprefix("efa:")
    found: dict[bool, list[float]] = {False: [], True: []}
    for event in play(spec, "probe", end=270.0):
        if event.second > 180.0:
            ends = (event.node, event.data["peer"])
            faulty = truth.node in ends and event.data["card"] == device
            found[faulty].append(event.data["seconds"])
    assert mean(found[True]) > 2 * mean(found[False])


def test_only_the_agent_of_a_node_dies() -> None:
    spec = f"sim:silent-node?{FLEET}&way=agent"
    (truth,) = scripted(spec)
    assert truth.job is None
    events = play(spec, "steps", begin=124.0, end=239.0)
    assert {event.node for event in steps(events)} == {"trn-000", "trn-001", "trn-002"} - {
        truth.node
    }


def test_a_lost_device_disappears_and_the_job_stalls() -> None:
    spec = f"sim:device-lost?{FLEET}"
    (truth,) = scripted(spec)
    assert truth.component is not None and truth.job is not None
    lost = truth.component.removeprefix("device:")
    events = play(spec, begin=132.0, end=239.0)
    assert not steps(events)
    for event in events:
        mine = event.node == truth.node
        match event.source:
            case "neuron-sysfs":
                trees = event.data["devices"]
                gone = {name for name, tree in trees.items() if "lost" in tree}
                assert gone == ({lost} if mine else set())
                if mine:
                    assert trees[lost] == {"cores": {"0": {}, "1": {}}, "lost": "No such device"}
            case "tensor-engine":
                assert ("errors" in event.data) == mine
                texts = event.data["devices"][lost].values()
                assert all((text is None) == mine for text in texts)
            case "neuron-ls":
                assert len(event.data) == (15 if mine else 16)
            case "neuron-monitor":
                devices = event.data["system_data"]["neuron_hw_counters"]["neuron_devices"]
                assert len(devices) == (15 if mine else 16)
                idle = [core for core, used in enumerate(utilization(event)) if used == 0.0]
                assert idle == ([2 * int(lost), 2 * int(lost) + 1] if mine else [])
    assert steps(play(spec, begin=245.0, end=260.0))


def test_a_process_holds_memory_and_does_nothing() -> None:
    spec = f"sim:idle-allocation?{FLEET}"
    (truth,) = scripted(spec)
    assert truth.job is None and truth.component is not None
    events = play(spec, begin=60.0, end=300.0)
    assert truth.node not in {event.node for event in steps(events)}
    assert {event.data["rank"] for event in steps(events)} == set(range(32))
    for event in events:
        if event.node != truth.node:
            continue
        held = event.second >= 120.0
        if event.source == "neuron-monitor":
            processes = event.data["neuron_runtime_data"]
            assert [f"runtime:{process['pid']}" for process in processes] == [
                truth.component
            ] * held
            for process in processes:
                usage = process["report"]["memory_used"]["neuron_runtime_used_bytes"]
                assert usage["neuron_device"] > 100 << 30
                assert not any(utilization(event)) and not completed(event)
        elif event.source == "neuron-ls":
            assert len(event.data[0]["neuron_processes"]) == held
        elif event.source == "neuron-sysfs":
            assert bool(event.data["devices"]["3"]["cores"]["1"]["device_mem"]["total"]) == held


@pytest.mark.parametrize("way", ["efa", "neuron", "runtime"])
def test_one_node_runs_another_version(way: str) -> None:
    spec = f"sim:version-skew?{FLEET}&way={way}&minutes=1"
    (truth,) = scripted(spec)
    assert (truth.onset, truth.end) == (START, START + 60.0)
    changes: dict[str, dict[str, set[str]]] = {"efa": {}, "neuron": {}, "runtime": {}}
    for event in play(spec):
        found = {
            "efa": lambda data: data["driver"],
            "neuron-sysfs": lambda data: data["driver"],
            "neuron-ls": lambda data: data[0]["neuron_processes"][0]["neuron_runtime_version"],
        }.get(event.source)
        if found is not None:
            what = {"neuron-sysfs": "neuron", "neuron-ls": "runtime"}.get(event.source, "efa")
            changes[what].setdefault(found(event.data), set()).add(event.node)
    for what, versions in changes.items():
        nodes = sorted(versions.values(), key=len)
        assert len(nodes) == 1 + (what == way)
        if what == way:
            assert nodes[0] == {truth.node}


def test_a_checkpoint_does_not_get_done() -> None:
    spec = "sim:checkpoint-stall?nodes=1&type=trn1.2xlarge&checkpoints=60&saving=8"
    (truth,) = scripted(spec)
    assert (truth.node, truth.job) == (None, "pretrain-13b")
    events = play(spec, end=420.0)
    named = [
        (event.data["stage"], event.data["since"] - START)
        for event in notes(events)
        if event.node == "trn-000"
    ]
    lengths = [end - begin for (_, begin), (_, end) in zip(named[::2], named[1::2], strict=True)]
    assert sorted(lengths)[:-1] == pytest.approx([8.0] * (len(lengths) - 1))
    assert 165.0 < max(lengths) < 180.0
    hosts = [e for e in events if e.source == "host" and e.node == "trn-000"]
    written = [e.data["lustre"]["fsx-OST0000"]["written_bytes"] for e in hosts
               if 140.0 < e.second < 290.0]  # fmt: skip
    assert (written[-1] - written[0]) / 150.0 < 0.1e9


def test_errors_of_the_other_memory() -> None:
    spec = f"sim:ecc?{FLEET}&way=sram"
    (truth,) = scripted(spec)
    last = play(spec, "neuron-monitor", begin=125.0, end=130.0)
    counts = {
        (event.node, f"device:{device['neuron_device_index']}"): device["sram_ecc_uncorrected"]
        for event in last
        for device in event.data["system_data"]["neuron_hw_counters"]["neuron_devices"]
    }
    assert {index for index, count in counts.items() if count} == {(truth.node, truth.component)}
    (line,) = [
        line
        for event in play(spec, "kernel-log", begin=115.0, end=130.0)
        for line in event.data["lines"]
    ]
    assert "NEURON_HW_ERR=SRAM_UNCORRECTABLE_ERROR" in line["text"]


def test_pressure_begins_when_memory_is_nearly_full() -> None:
    (truth,) = scripted(f"sim:memory-filling?{FLEET}&ramp=100&depth=0.975")
    share = (0.95 - 0.70) / (0.975 - 0.70)
    assert truth.onset - START == pytest.approx(120 + 100 * share)


def test_failures_come_at_their_rate() -> None:
    spec = f"sim:execution-errors?{FLEET}&depth=0.5"
    failed = sum(
        runtime(event)["execution_stats"]["execution_summary"]["completed_with_err"]
        for event in play(spec, "neuron-monitor", end=200.0)
    )
    assert failed == pytest.approx(30, abs=4)
