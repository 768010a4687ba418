import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trntop.core.errors import DecodeError
from trntop.core.model import Process
from trntop.sources.neuron_ls import decode, title

TRAIN = {
    "pid": "77",
    "command": "/opt/venv/bin/python3 -W ignore -u /home/ada/train.py --token=hunter2",
    "neuron_runtime_version": "2.30.51.0",
}
DEVICES: list[dict[str, Any]] = [
    {
        "neuron_device": 0,
        "bdf": "cc:00.0",
        "cpu_affinity": "0-15,32-47",
        "numa_node": "1",
        "connected_to": [12, 3, 4, 1],
        "logical_neuroncore_config": 2,
        "neuron_processes": [TRAIN],
        "instance_type": "trn2.48xlarge",
        "instance_id": "i-simulated",
    },
    {
        "neuron_device": "1",
        "bdf": "0000:CD:00.0",
        "numa_node": "-1",
        "connected_to": None,
        "logical_neuroncore_config": "2",
        "neuron_processes": [
            {"pid": 5, "command": "neuron-ls -j -a"},
            TRAIN,
            {"pid": 9, "command": None},
            {"pid": -1, "command": "nothing"},
        ],
    },
]


def encode(value: object) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    "output",
    [
        DEVICES,
        {"neuron_devices": DEVICES, "ultraserver": [{"a": 1}]},
        {"devices": DEVICES},
        {"mlas": DEVICES, "error": ""},
        {"something": DEVICES, "names": ["x"], "none": []},
    ],
)
def test_devices_and_processes_of_every_form(output: object) -> None:
    sample = decode(encode(output))
    assert sample.facts["device_links"] == {
        0: {
            "pci": "0000:cc:00.0", "numa_node": "1", "connected_to": "12, 3, 4, 1",
            "cpu_affinity": "0-15,32-47",
        },
        1: {"pci": "0000:cd:00.0"},
    }  # fmt: skip
    assert sample.facts["processes"] == (
        Process(9, "", (1,)),
        Process(77, "python3 train.py", (0, 1), "2.30.51.0"),
    )
    assert sample.facts["lnc"] == 2
    assert sample.facts["facts"] == {
        "instance_type": "trn2.48xlarge",
        "instance_id": "i-simulated",
    }
    assert (sample.period, sample.columns, sample.problems) == (60.0, {}, ())


def test_errors_of_the_whole_machine_come_first() -> None:
    top = {
        "instance_type": "trn2u.48xlarge",
        "ultraserver_id": "us-\x1b1",
        "neuron_devices": DEVICES,
    }
    assert decode(encode(top)).facts["facts"] == {
        "instance_type": "trn2u.48xlarge",
        "instance_id": "i-simulated",
        "ultraserver_id": "us-\ufffd1",
    }


def test_entries_that_are_no_device_spare_the_rest() -> None:
    sample = decode(encode([*DEVICES, DEVICES[0], {"bdf": "cc:00.0"}, 3]))
    assert sorted(sample.facts["device_links"]) == [0, 1]
    assert sample.problems == ("3 entries without another device",)


def test_the_logical_core_size_is_known_only_when_it_is_stated() -> None:
    assert "lnc" not in decode(b'[{"neuron_device":0}]').facts
    mixed = b'[{"neuron_device":0,"logical_neuroncore_config":1},{"neuron_device":1,"logical_neuroncore_config":2}]'  # noqa: E501
    sample = decode(mixed)
    assert "lnc" not in sample.facts
    assert sample.problems == ("devices state different logical core sizes",)


@pytest.mark.parametrize(
    ("output", "why"),
    [
        ([], "neuron-ls lists no Neuron device"),
        ({"devices": []}, "neuron-ls lists no Neuron device"),
        ({"error": "no \x07 driver"}, "no \ufffd driver"),
        ([None, 3, {"bdf": "cc:00.0"}], "neuron-ls lists no Neuron device"),
    ],
)
def test_no_device(output: object, why: str) -> None:
    sample = decode(encode(output))
    assert sample.unusable == why
    assert sample.facts == {}


@pytest.mark.parametrize("data", [b"", b"panic: x", b"3", b"null", b'{"a":1}', b"[" * 100_000])
def test_not_an_output_of_neuron_ls(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(data)


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("/usr/bin/python3 /x/train.py --token hunter2", "python3 train.py"),
        ("python3.11 -X dev -m torch.distributed.run x", "python3.11 torch.distributed.run"),
        ("python3 -c import_os;secret()", "python3"),
        ("python3 - hunter2", "python3"),
        ("bash -lc KEY=hunter2 python3 train.py", "bash"),
        ("/bin/bash -e run.sh hunter2", "bash run.sh"),
        ("./serve --key=hunter2", "serve"),
        ("ray::train(token=hunter2)", "ray::train"),
        ("TOKEN=hunter2 train", "TOKEN"),
        ("  ", ""),
        ("tr\x1bain", "tr"),
    ],
)  # fmt: skip
def test_commands_keep_program_and_script_only(command: str, shown: str) -> None:
    assert title(command) == shown


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(sorted({*DEVICES[0], *TRAIN, "devices", "error", "other"})),
            inner,
            max_size=6,
        )
    ),
    max_leaves=30,
)


@given(VALUES)
def test_any_json_is_a_sample_or_an_error(value: object) -> None:
    try:
        sample = decode(encode(value))
    except DecodeError:
        return
    assert bool(sample.unusable) != bool(sample.facts)
    for process in sample.facts.get("processes", ()):
        assert process.pid > 0
        assert process.devices == tuple(sorted(set(process.devices)))
        assert set(process.devices) <= sample.facts["device_links"].keys()
    for links in sample.facts.get("device_links", {}).values():
        assert all(isinstance(text, str) and text for text in links.values())


@given(st.binary(max_size=200))
def test_any_bytes_are_a_sample_or_an_error(data: bytes) -> None:
    try:
        decode(data)
    except DecodeError:
        return


@given(
    st.lists(st.sampled_from(["--token", "-k", "SECRET", "/home/SECRET/data", "x=SECRET"])),
    st.sampled_from(["/usr/bin/python3 -u /a/b/train.py", "/opt/x/train", "bash run.sh"]),
)
def test_arguments_are_never_shown(arguments: list[str], program: str) -> None:
    assert "SECRET" not in title(" ".join([program, *arguments]))
