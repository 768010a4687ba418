"""neuron-ls: the node's Neuron devices, their links, and the processes that hold them.

Format: AWS's neuron-ls user guide and public captures. Up to Neuron SDK 2.33 an array of devices;
from 2.34 on an object that holds one, whose field names no public page states: the
likely names are tried. Numbers may be strings.
"""

import re
from collections.abc import Mapping
from typing import Any, TypeGuard

import msgspec

from trntop.catalog import NEURON_LS
from trntop.core.errors import DecodeError
from trntop.core.model import Process, Sample
from trntop.core.text import clean
from trntop.sources import tolerant
from trntop.sources.source import Role, Source

PERIOD = 60.0
"""Seconds between two runs of neuron-ls."""
MAX_DEVICES = 256
MAX_PROCESSES = 1024
MAX_NAME = 64
MAX_LNC = 8
MAX_NUMBER = 10**9

_LISTS = ("neuron_devices", "devices", "mlas")
_FACTS = ("instance_type", "instance_id", "ultraserver_id")
_SHORT_BDF = re.compile(r"[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_NUMBER = re.compile(r"-?[0-9]{1,9}")
_NAME = re.compile(r"[\w.+:-]*")
"""What a program's name may hold; a process that names itself may add what is private."""
_VALUED = ("-W", "-X")
"""Python's options that have a value of their own behind them."""
_INLINE = re.compile(r"-\w*c|-")
"""The option that the program itself follows, or its input."""
_INTERPRETER = re.compile(r"(?:python|bash|sh)[\d.]*")
_decoder = msgspec.json.Decoder(Any)

Entry = Mapping[str, Any]


def decode(data: bytes) -> Sample:
    """One output of neuron-ls.

    Raises:
        DecodeError: it is not JSON, or has no list of devices.
    """
    tree, problems = tolerant.decode(data, _decoder)
    top, entries = _unpack(tree)
    devices: dict[int, Entry] = {}
    for entry in filter(_is_object, entries[:MAX_DEVICES]):
        index = _number(entry.get("neuron_device", entry.get("device")))
        if index is not None and index >= 0:
            devices.setdefault(index, entry)
    if unread := len(entries) - len(devices):
        problems += (f"{unread} entries without another device",)
    if not devices:
        return Sample(
            period=PERIOD,
            problems=problems,
            unusable=_text(top.get("error")) or "neuron-ls lists no Neuron device",
        )
    stated = {_number(entry.get("logical_neuroncore_config")) for entry in devices.values()}
    sizes = {size for size in stated if size is not None and 1 <= size <= MAX_LNC}
    if len(sizes) > 1:
        problems += ("devices state different logical core sizes",)
    facts: dict[str, Any] = {
        "device_links": {index: _links(entry) for index, entry in sorted(devices.items())},
        "processes": _processes(devices),
        "facts": _facts(top, *devices.values()),
    }
    if len(sizes) == 1:
        facts["lnc"] = sizes.pop()
    return Sample(facts=facts, period=PERIOD, problems=problems)


def cores(data: bytes) -> int:
    """The logical NeuronCores of an output of neuron-ls; 0 if it does not state them."""
    _, entries = _unpack(tolerant.decode(data, _decoder)[0])
    counts = (
        _number(entry.get("nc_count")) for entry in entries[:MAX_DEVICES] if _is_object(entry)
    )
    return sum(count for count in counts if count is not None and 0 < count <= MAX_DEVICES)


def title(command: str) -> str:
    """The program and its script, without folders and arguments: `python3 train.py`."""
    program, *rest = command.split() or [""]
    name = _name(program)
    if _INTERPRETER.fullmatch(name):
        while rest and rest[0].startswith("-"):
            option = rest.pop(0)
            if _INLINE.fullmatch(option):
                return name
            del rest[: option in _VALUED]
        if rest:
            return f"{name} {_name(rest[0])}".rstrip()
    return name


def _unpack(tree: object) -> tuple[Entry, list[Any]]:
    """The facts of the whole machine, and the list of devices."""
    if isinstance(tree, list):
        return {}, tree
    if not _is_object(tree):
        raise DecodeError("neither a list of devices nor an object that holds one")
    for key in _LISTS:
        if isinstance(found := tree.get(key), list):
            return tree, found
    lists = [value for value in tree.values() if isinstance(value, list) and value]
    lists = [value for value in lists if all(map(_is_object, value))]
    if len(lists) == 1:
        return tree, lists[0]
    if tree.get("error"):
        return tree, []
    raise DecodeError("no list of devices")


def _links(entry: Entry) -> dict[str, str]:
    pci = _text(entry.get("bdf")).lower()
    node = _number(entry.get("numa_node"))
    links = {
        "pci": f"0000:{pci}" if _SHORT_BDF.fullmatch(pci) else pci,
        "numa_node": "" if node is None or node < 0 else str(node),  # -1: the kernel knows none
        "connected_to": _neighbours(entry.get("connected_to")),
        "cpu_affinity": _text(entry.get("cpu_affinity")),
    }
    return {key: value for key, value in links.items() if value}


def _neighbours(value: object) -> str:
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, list):
        return ""
    indices = map(_number, value[:MAX_DEVICES])
    return ", ".join(str(index) for index in indices if index is not None and index >= 0)


def _facts(*entries: Entry) -> dict[str, str]:
    """The facts of the machine, each from the first that has it."""
    facts = [(key, _text(entry.get(key))) for entry in reversed(entries) for key in _FACTS]
    return {key: value for key, value in facts if value}


def _processes(devices: Mapping[int, Entry]) -> tuple[Process, ...]:
    """The processes of all devices, each once; without neuron-ls, which lists itself."""
    held: dict[int, list[int]] = {}
    entries: dict[int, Entry] = {}
    for index, entry in sorted(devices.items()):
        listed = entry.get("neuron_processes")
        for process in listed if isinstance(listed, list) else ():
            pid = _number(process.get("pid")) if _is_object(process) else None
            if pid is not None and pid > 0 and (pid in held or len(held) < MAX_PROCESSES):
                held.setdefault(pid, []).append(index)
                entries.setdefault(pid, process)
    processes = (
        Process(
            pid,
            title(command) if isinstance(command := entries[pid].get("command"), str) else "",
            tuple(dict.fromkeys(indices)),
            _text(entries[pid].get("neuron_runtime_version")),
        )
        for pid, indices in sorted(held.items())
    )
    return tuple(process for process in processes if process.command != "neuron-ls")


def _is_object(value: object) -> TypeGuard[Entry]:
    return isinstance(value, dict)


def _number(value: object) -> int | None:
    """A small whole number, however it is written."""
    if isinstance(value, str):
        value = value.strip()
        return int(value) if _NUMBER.fullmatch(value) else None
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < MAX_NUMBER:
        return value
    return None


def _text(value: object) -> str:
    return clean(value.strip(), MAX_NAME) if isinstance(value, str) else ""


def _name(word: str) -> str:
    found = _NAME.match(word.rpartition("/")[2])
    return clean(found[0], MAX_NAME) if found else ""


SOURCE = Source(
    name=NEURON_LS,
    decode=decode,
    role=Role.DEVICE,
    gives="PCI addresses, NUMA nodes and topology of the devices; which process holds which",
    origin="the program `neuron-ls`, as JSON",
    needs="aws-neuronx-tools",
    without="devices without PCI and NUMA, no list of processes",
)
