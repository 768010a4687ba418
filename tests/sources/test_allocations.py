import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trntop.core.errors import DecodeError
from trntop.core.model import Allocation
from trntop.sources.allocations import (
    MAX_HOLDERS,
    MAX_INDEX,
    PERIOD,
    decode_jobs,
    decode_pods,
    index_of,
)


def jobs(files: Any, **members: Any) -> bytes:
    return json.dumps({"period": 10, "files": files, "errors": []} | members).encode()


def pods(*containers: Any, namespace: str = "ml", name: str = "train-0") -> bytes:
    pod = {"namespace": namespace, "name": name, "containers": containers}
    return json.dumps({"period": 10, "pods": [pod]}).encode()


def container(resource: str = "aws.amazon.com/neuron", *ids: str, name: str = "main") -> Any:
    return {"name": name, "devices": [{"resource": resource, "ids": ids}]}


class TestJobs:
    def test_whole_nodes_and_single_devices(self) -> None:
        sample = decode_jobs(jobs({"all": ["4711"], "0": ["12"], "3": ["12", "13_4"]}))
        assert sample.facts == {
            "allocations": (
                Allocation("12", devices=(0, 3)),
                Allocation("13_4", devices=(3,)),
                Allocation("4711", whole=True),
            )
        }
        assert (sample.period, sample.problems, sample.columns) == (10, (), {})

    def test_no_allocations(self) -> None:
        sample = decode_jobs(b"{}")
        assert sample.facts == {"allocations": ()}
        assert sample.period == PERIOD

    def test_ids_are_cleaned_and_blank_ones_skipped(self) -> None:
        sample = decode_jobs(jobs({"0": ["", "  ", " 7\x1b[31m "]}))
        assert [allocation.job for allocation in sample.facts["allocations"]] == ["7\ufffd[31m"]

    def test_other_names_and_errors_are_reported(self) -> None:
        sample = decode_jobs(jobs({"gpu-uuid": ["1"], "1": ["2"]}, errors=["0: denied\n"]))
        assert sample.facts["allocations"] == (Allocation("2", devices=(1,)),)
        assert sample.problems == ("0: denied ", "gpu-uuid: not a device index or `all`")

    def test_their_number_is_bounded(self) -> None:
        sample = decode_jobs(jobs({"all": [str(job) for job in range(1000)]}))
        assert len(sample.facts["allocations"]) == MAX_HOLDERS
        assert sample.problems == ("1,000 jobs or containers; only 256 are read",)


class TestPods:
    @pytest.mark.parametrize("name", ["aws.amazon.com/neuron", "aws.amazon.com/neurondevice"])
    def test_devices(self, name: str) -> None:
        # The kubelet splits a resource by NUMA node.
        worker = {
            "name": "worker",
            "devices": [{"resource": name, "ids": ["8"]}, {"resource": name, "ids": ["1", "0"]}],
        }
        sample = decode_pods(pods(worker))
        (found,) = sample.facts["allocations"]
        assert found == Allocation(
            namespace="ml", pod="train-0", container="worker", devices=(0, 1, 8)
        )
        assert found.holder == "ml/train-0/worker"

    def test_cores(self) -> None:
        sample = decode_pods(pods(container("aws.amazon.com/neuroncore", "13", "12")))
        (found,) = sample.facts["allocations"]
        assert (found.devices, found.cores) == ((), (12, 13))

    def test_only_holders_of_neuron_devices_count(self) -> None:
        sample = decode_pods(pods(container("vpc.amazonaws.com/efa", "0"), {"name": "sidecar"}))
        assert sample.facts == {"allocations": ()}

    def test_dynamic_resource_allocation(self) -> None:
        claims = [
            {
                "namespace": "ml", "name": "train-0-neurons-zdk76", "driver": driver,
                "pool": "ip-10-0-0-1", "device": device,
            }
            for driver, device in (
                ("neuron.aws.com", "neurondevice5"),
                ("neuron.aws.com", "neurondevice4"),
                ("gpu.example.com", "neurondevice9"),
            )
        ]  # fmt: skip
        (found,) = decode_pods(pods({"name": "main", "claims": claims})).facts["allocations"]
        assert found.devices == (4, 5)
        assert found.claim == "ml/train-0-neurons-zdk76"

    def test_an_id_of_another_form_is_reported_and_spares_the_rest(self) -> None:
        sample = decode_pods(pods(container("aws.amazon.com/neuron", "0", "af3c9", "99999")))
        assert sample.facts["allocations"][0].devices == (0,)
        assert sample.problems == (
            "af3c9: not the index of a Neuron device or core",
            "99999: not the index of a Neuron device or core",
        )


@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("3", 3), ("neuron3", 3), ("neurondevice15", 15), ("neuroncore-7", 7), ("0", 0),
        ("4096", None), ("-1", None), ("", None), ("neuron", None), ("gpu0", None), ("٣", None),
    ],
)  # fmt: skip
def test_ids(text: str, index: int | None) -> None:
    assert index_of(text) == index


@pytest.mark.parametrize("decode", [decode_jobs, decode_pods])
@pytest.mark.parametrize("data", [b"", b"[]", b"null", b'{"pods": ['])
def test_what_is_no_payload(decode: Any, data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(data)


KEYS = [
    "period", "files", "errors", "all", "0", "pods", "name", "namespace", "containers", "devices",
    "resource", "ids", "claims", "driver", "device",
]  # fmt: skip
JSON = st.recursive(
    st.none()
    | st.integers()
    | st.floats()
    | st.sampled_from(["aws.amazon.com/neuron", "neuron.aws.com", "7", "x"])
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6)
    ),
    max_leaves=15,
)


@given(JSON)
def test_whatever_comes_indices_are_possible(tree: object) -> None:
    for decode in (decode_jobs, decode_pods):
        try:
            sample = decode(json.dumps(tree).encode())
        except DecodeError:
            continue
        assert sample.period is not None
        assert 0 < sample.period < 1e7
        for allocation in sample.facts["allocations"]:
            assert all(0 <= index < MAX_INDEX for index in (*allocation.devices, *allocation.cores))
            assert allocation.holder.isprintable()
