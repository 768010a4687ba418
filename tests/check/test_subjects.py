"""What is judged of a node besides its probes."""

import msgspec
import pytest

from tests.check.fleet import DEVICE, NOW, Fleet, efa_device, inspection
from tests.check.test_runner import texts
from trntop.check.model import Action, EfaDevice, Finding, Inspection, Outcome, ProbeSpec
from trntop.check.plan import Plan
from trntop.check.result import Check
from trntop.core.settings import Check as Limits
from trntop.core.settings import Settings


def check_of(count: int = 6, **odd: Inspection) -> Check:
    """A fleet whose probes are healthy; `trn_002=…` is the inspection of that node."""
    return _check(
        count,
        {name.replace("_", "-"): (found, found) for name, found in odd.items()},
    )


def _check(count: int, odd: dict[str, tuple[Inspection, Inspection]]) -> Check:
    fleet = Fleet(count)
    for name, inspections in odd.items():
        fleet.inspections[name] = lambda number, inspections=inspections: inspections[number - 1]  # type: ignore[misc]
    return fleet.run()


def only(check: Check) -> Finding:
    (finding,) = [finding for finding in check.findings if finding.outcome is not Outcome.PASS]
    return finding


def inspection_with(**changes: object) -> Inspection:
    return inspection("trn-002", **changes)


# EFA devices


def test_a_missing_efa_device() -> None:
    finding = only(
        check_of(trn_002=inspection_with(efa_devices=[efa_device(index) for index in range(7)]))
    )
    assert (finding.node, finding.outcome, finding.action) == (
        "trn-002", Outcome.FAIL, Action.REBOOT
    )  # fmt: skip
    assert finding.text == "7 found, 8 expected on trn1.32xlarge"
    assert "`kubectl cordon trn-002`" in finding.next_step


def test_fewer_efa_devices_on_all_nodes_may_be_intended() -> None:
    few = {
        f"trn-00{index}": (inspection("", efa_devices=[efa_device(0)]),) * 2
        for index in range(1, 7)
    }
    check = _check(6, few)
    assert check.outcome is Outcome.WARN
    assert check.findings[0].text.endswith("; most nodes have 1")


def test_no_efa_device_at_all() -> None:
    bare = {
        f"trn-00{index}": (inspection("", instance_type="", efa_devices=[], devices=None),) * 2
        for index in (1, 2)
    }
    fleet = Fleet(2)
    fleet.inspections = {name: lambda number, own=own: own[0] for name, own in bare.items()}  # type: ignore[misc]
    assert fleet.run().outcome is Outcome.FAIL
    assert fleet.run(Plan(spec=ProbeSpec(provider="tcp"))).outcome is Outcome.PASS


def test_an_unknown_instance_type_is_compared_with_the_others() -> None:
    nodes = {
        f"trn-00{index}": (inspection("", instance_type="trn9.huge"),) * 2 for index in range(1, 5)
    }
    assert _check(4, nodes).outcome is Outcome.PASS
    fewer = inspection("", instance_type="trn9.huge", efa_devices=[efa_device(0)])
    assert "1 found, 8 expected" in only(_check(4, nodes | {"trn-002": (fewer, fewer)})).text


def test_efa_devices_that_cannot_be_inspected() -> None:
    check = check_of(trn_002=inspection_with(efa_devices=None, problems=["/sys cannot be read"]))
    assert only(check).outcome is Outcome.UNKNOWN
    assert any(finding.text == "/sys cannot be read" for finding in check.findings)


def test_an_efa_device_that_disappears_during_the_check() -> None:
    before, after = (
        inspection_with(),
        inspection_with(efa_devices=[efa_device(index) for index in range(7)]),
    )
    found = texts(_check(6, {"trn-002": (before, after)}))
    assert found.keys() == {"trn-002"}
    components = [finding.component for finding in _check(6, {"trn-002": (before, after)}).findings]
    assert "efa:rdmap128s27" in components


def test_a_slower_line_rate_counts_if_the_driver_reports_it() -> None:
    slow = [efa_device(0, rate_gbps=50.0), *(efa_device(index) for index in range(1, 8))]
    finding = only(check_of(trn_002=inspection_with(efa_devices=slow)))
    assert finding.component == "efa:rdmap16s27"
    assert "50 Gb/s, 100 expected" in finding.text
    old = {"efa": "2.12.0g", "libfabric": "2.1.0", "kernel": "6.1.0"}
    older = [msgspec.structs.replace(device, driver="2.12.0g") for device in slow]
    check = check_of(trn_002=inspection_with(efa_devices=older, versions=old))
    assert {finding.check for finding in check.findings if finding.outcome is not Outcome.PASS} == {
        "versions"
    }


# Counters


def counted(index: int = 0, seconds: float = 60.0, **counts: int) -> tuple[Inspection, Inspection]:
    """A node one device of which counted something between the inspections; traffic on all."""

    def after(own: int) -> EfaDevice:
        idle = efa_device(own)
        port = idle.port | {"tx_pkts": idle.port["tx_pkts"] + 10_000}
        device = idle.device | {"keep_alive_rcvd": idle.device["keep_alive_rcvd"] + 12}
        for name, count in counts.items() if own == index else ():
            where = device if name in device else port
            where[name] = where.get(name, 0) + count
        return msgspec.structs.replace(idle, port=port, device=device)

    later = inspection("", efa_devices=[after(own) for own in range(8)], time=NOW + seconds)
    return inspection(""), later


def healthy(count: int = 6) -> dict[str, tuple[Inspection, Inspection]]:
    return {f"trn-{index:03}": counted() for index in range(1, count + 1)}


def test_large_totals_since_boot_are_no_fault() -> None:
    check = _check(6, healthy())
    assert check.outcome is Outcome.PASS, check.findings


def test_retransmits_during_the_check() -> None:
    finding = only(_check(6, healthy() | {"trn-002": counted(3, retrans_pkts=500)}))
    assert (finding.node, finding.component) == ("trn-002", "efa:rdmap64s27")
    assert "retransmitted 5.0 % of its packets (500 of 10,000), peers 0 %" in finding.text
    assert _check(6, healthy() | {"trn-002": counted(3, retrans_pkts=15)}).outcome is Outcome.PASS


def test_retransmits_everywhere_name_no_device() -> None:
    nodes = {f"trn-00{index}": _everywhere("retrans_pkts", 300) for index in range(1, 7)}
    finding = only(_check(6, nodes))
    assert finding.node == "" and "no device differs" in finding.text


def _everywhere(counter: str, count: int) -> tuple[Inspection, Inspection]:
    before, after = counted()
    efa_devices = [
        msgspec.structs.replace(
            device, port=device.port | {counter: device.port.get(counter, 0) + count}
        )
        for device in after.efa_devices or ()
    ]
    return before, msgspec.structs.replace(after, efa_devices=efa_devices)


@pytest.mark.parametrize(
    "counter", ["rx_drops", "retrans_timeout_events", "unresponsive_remote_events", "cmds_err"]
)
def test_events_during_the_check(counter: str) -> None:
    before, after = counted(0, **{counter: 3})
    if counter not in before.efa_devices[0].port | before.efa_devices[0].device:  # type: ignore[index]
        before, after = (
            msgspec.structs.replace(
                inspection,
                efa_devices=[
                    msgspec.structs.replace(each, port={counter: 0} | each.port)
                    for each in inspection.efa_devices or ()
                ],
            )
            for inspection in (before, after)
        )
    finding = only(_check(6, healthy() | {"trn-002": (before, after)}))
    assert (finding.outcome, finding.component) == (Outcome.WARN, "efa:rdmap16s27")
    assert f"counted 3 ({counter}) in 1 min" in finding.text


def test_a_dead_admin_queue_fails_whenever_it_died() -> None:
    dead = efa_device(2, device=DEVICE | {"no_completion_cmds": 1})
    finding = only(
        check_of(
            trn_002=inspection_with(
                efa_devices=[*map(efa_device, (0, 1)), dead, *map(efa_device, range(3, 8))]
            )
        )
    )
    assert (finding.outcome, finding.action) == (Outcome.FAIL, Action.REBOOT)
    assert finding.component == "efa:rdmap48s27"


def test_counters_that_were_reset() -> None:
    finding = only(_check(6, healthy() | {"trn-002": counted(1, rx_drops=-4000)}))
    assert finding.fault == "EFA driver reset"


# Devices, versions, setup


def test_neuron_devices() -> None:
    assert only(check_of(trn_002=inspection_with(devices=15))).text == (
        "15 found, 16 expected on trn1.32xlarge"
    )
    faulty = inspection_with(unhealthy={"device:3": "Neuron device 3: 2 uncorrected HBM errors"})
    finding = only(check_of(trn_002=faulty))
    assert (finding.action, finding.component) == (Action.ISOLATE, "device:3")


def test_version_skew_names_the_odd_one_out() -> None:
    odd = {"efa": "2.17.3g", "libfabric": "1.22.0", "kernel": "6.1.0"}
    finding = only(check_of(trn_002=inspection_with(versions=odd)))
    assert (finding.node, finding.text) == (
        "trn-002", "libfabric 1.22.0, 5 of 6 nodes have 2.1.0"
    )  # fmt: skip
    without = {"efa": "2.17.3g", "kernel": "6.1.0"}
    assert only(check_of(trn_002=inspection_with(versions=without))).text == (
        "no libfabric was found, 5 of 6 nodes have 2.1.0"
    )


def test_without_a_majority_no_node_is_named() -> None:
    odd = {"efa": "2.17.3g", "libfabric": "1.22.0", "kernel": "6.1.0"}
    finding = only(
        check_of(4, trn_002=inspection_with(versions=odd), trn_003=inspection_with(versions=odd))
    )
    assert finding.node == ""
    assert finding.text == ("libfabric: 2.1.0 on trn-001, trn-004; 1.22.0 on trn-002, trn-003")


@pytest.mark.parametrize(
    ("changes", "outcome", "text"),
    [
        ({"modules": {"efa": True, "neuron": False}}, Outcome.FAIL, "neuron is not loaded"),
        ({"uverbs": False}, Outcome.FAIL, "/dev/infiniband has no uverbs device"),
        ({"memlock_bytes": 65536.0}, Outcome.WARN, "64.0 KiB, at least 16.0 GiB required"),
        ({"huge_pages": 0}, Outcome.WARN, "0 pages of 2 MiB reserved, 5,128 required"),
        (
            {
                "efa_devices": [
                    efa_device(0, p2p="NVIDIA"),
                    *(efa_device(index) for index in range(1, 8)),
                ]
            },
            Outcome.WARN,
            "1 of 8 EFA devices cannot access Neuron device memory: p2p is NVIDIA",
        ),
    ],
)
def test_setup(changes: dict[str, object], outcome: Outcome, text: str) -> None:
    finding = only(check_of(trn_002=inspection_with(**changes)))
    assert (finding.node, finding.outcome) == ("trn-002", outcome)
    assert text in finding.text


def test_limits_are_settings() -> None:
    fleet = Fleet(3)
    fleet.inspections["trn-002"] = lambda _: inspection_with(memlock_bytes=65536.0, huge_pages=10)
    limits = Limits(memlock_gib=0, huge_pages=10)
    assert fleet.run(settings=Settings(check=limits)).outcome is Outcome.PASS


# Names of findings


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"efa_devices": []}, "no EFA devices"),
        ({"efa_devices": [efa_device(index) for index in range(7)]}, "EFA devices missing"),
        ({"efa_devices": None}, "EFA devices unknown"),
        ({"devices": 0}, "no Neuron devices"),
        ({"devices": 15}, "Neuron devices missing"),
        ({"unhealthy": {"device:3": "Neuron device 3: 2 HBM errors"}}, "Neuron device unhealthy"),
        ({"unhealthy": {"efa:rdmap16s27": "no counter can be read"}}, "EFA device unhealthy"),
        ({"modules": {"efa": False}}, "kernel module missing"),
        ({"uverbs": False}, "uverbs missing"),
        ({"memlock_bytes": 65536.0}, "memlock too low"),
        ({"huge_pages": 0}, "too few huge pages"),
        ({"busy": ["job 1"]}, "busy"),
        ({"tools": []}, "probe tool missing"),
    ],
)
def test_findings_are_named_by_the_fault(changes: dict[str, object], fault: str) -> None:
    assert only(check_of(trn_002=inspection_with(**changes))).fault == fault
