"""Versions that differ between nodes, on small hand-made streams."""

import json
from collections.abc import Iterable, Mapping

from tests.analysis.harness import Detection, detections
from tests.reports import efa_payload, efa_reading, monitor_reading, report
from trntop.analysis.detectors.versions import VersionSkew
from trntop.core.model import Reading
from trntop.core.settings import Analysis


def skewed(*readings: Iterable[Reading]) -> list[Detection]:
    return detections(
        VersionSkew(Analysis(), 1.0), [reading for part in readings for reading in part]
    )


def devices(versions: Mapping[str, str], seconds: Iterable[int] = range(10)) -> list[Reading]:
    return [
        efa_reading(efa_payload(device={"tx_bytes": t}) | {"driver": version}, float(t), node)
        for t in seconds
        for node, version in versions.items()
    ]


def machines(types: Mapping[str, str]) -> list[Reading]:
    result = []
    for node, kind in types.items():
        payload = report()
        payload["instance_info"]["instance_type"] = kind
        result.append(monitor_reading(payload, 0.0, node))
    return result


def test_the_node_that_differs_is_named() -> None:
    (found,) = skewed(devices({"a": "2.17.3g", "b": "2.16.0", "c": "2.17.3g"}))
    assert found.key == "b"
    assert found.verdict.node == "b"
    assert found.verdict.fields == {
        "where": "b", "what": "EFA driver 2.16.0, 2 others have 2.17.3g",
    }  # fmt: skip
    assert [evidence.text for evidence in found.verdict.evidence] == [
        "EFA driver 2.17.3g: a, c",
        "EFA driver 2.16.0: b",
    ]


def test_several_that_differ_are_one_matter() -> None:
    (found,) = skewed(devices(dict.fromkeys("abcde", "2") | dict.fromkeys("bd", "1")))
    assert found.key == ("b", "d")
    assert found.verdict.node is None
    assert found.verdict.fields["where"] == "b, d"
    assert found.verdict.fields["what"] == "EFA driver 1, 3 others have 2"


def test_of_two_nodes_none_can_be_named() -> None:
    (found,) = skewed(devices({"a": "2", "b": "1"}))
    assert found.key == ("a", "b")
    assert found.verdict.node is None
    assert found.verdict.fields["what"] == "EFA driver 2 on a, 1 on b"


def test_other_types_and_what_is_unknown_are_no_skew() -> None:
    versions = {"a": "2", "b": "2", "c": "1"}
    types = {"a": "trn1.32xlarge", "b": "trn1.32xlarge", "c": "trn2.48xlarge"}
    assert skewed(machines(types), devices(versions)) == []
    assert skewed(devices({"a": "2", "b": "2", "c": ""})) == []
    assert skewed(devices({"a": "2"})) == []


def test_a_skew_that_is_mended() -> None:
    before = devices({"a": "2", "b": "1", "c": "2"})
    after = devices({"a": "2", "b": "2", "c": "2"}, range(10, 20))
    (found,) = skewed(before, after)
    assert 10 <= found.end <= 12


def test_every_software_is_compared() -> None:
    def sysfs(node: str, driver: str) -> Reading:
        data = {"driver": driver, "devices": {"0": {"cores": {}}}}
        return Reading(node, "neuron-sysfs", 0.0, json.dumps(data).encode())

    def listed(node: str, *runtimes: str) -> Reading:
        processes = [
            {"pid": 7 + index, "command": "python3", "neuron_runtime_version": runtime}
            for index, runtime in enumerate(runtimes)
        ]
        data = [{"neuron_device": 0, "neuron_processes": processes}]
        return Reading(node, "neuron-ls", 0.0, json.dumps(data).encode())

    first = [sysfs("a", "2.30"), sysfs("b", "2.30"), sysfs("c", "2.29")]
    first += [listed("a", "2.31"), listed("b", "2.31"), listed("c", "2.30")]
    (found,) = skewed(first, devices(dict.fromkeys("abc", "2")))
    assert found.key == "c"
    assert found.verdict.fields["what"] == "Neuron driver 2.29, 2 others have 2.30 (and 1 more)"
    # Processes with runtimes of their own: none is the node's.
    mixed = [listed("a", "2.31"), listed("b", "2.31"), listed("c", "2.31", "2.30")]
    assert skewed(mixed, devices(dict.fromkeys("abc", "2"))) == []


def test_another_image_counts_without_a_driver_version() -> None:
    def booted(images: Mapping[str, str]) -> list[Reading]:
        result = []
        for node, image in images.items():
            payload = report()
            payload["instance_info"]["ami_id"] = image
            result += [monitor_reading(payload, float(t), node) for t in range(10)]
        return result

    (found,) = skewed(booted({"a": "ami-1", "b": "ami-2", "c": "ami-1"}))
    assert found.verdict.fields["what"] == "machine image ami-2, 2 others have ami-1"
