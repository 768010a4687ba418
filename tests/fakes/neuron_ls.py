#!/usr/bin/env python3
"""A SIMULATED neuron-ls: the interface of AWS's program, with made-up devices.

The array follows the neuron-ls user guide and public captures. Of the object that newer versions
write, only that it has fields of the instance above the devices is public: the rest is a guess.

The environment variable FAKE_NEURON_LS sets its behavior:

    array          an array of devices for -j (the default)
    object         an object that holds it for --output-format json; -j is unknown
    object-only    the same, but -a is unknown as well
    neither        knows no form of JSON
    no-driver      fails as on a machine without a Neuron driver
    no-device      an empty array
    hang           writes nothing, and holds on through SIGTERM
    garbage        writes a table
    silent         writes nothing and ends well
    huge           writes without end

FAKE_NEURON_LS_RUNS names a file to which its process ids and arguments are appended.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

DEVICES = 4


def device(index: int) -> dict[str, Any]:
    return {
        "neuron_device": index,
        "bdf": f"{0xC0 + index:02x}:00.0",
        "cpu_affinity": "0-15,32-47",
        "numa_node": str(index % 2),
        "connected_to": [(index + 1) % DEVICES, (index - 1) % DEVICES],
        "nc_count": 4,
        "logical_neuroncore_config": 2,
        "memory_size": 96 << 30,
        "neuroncore_ids": list(range(4 * index, 4 * index + 4)),
        "neuron_processes": [
            {
                "pid": 4242,
                "command": "/usr/bin/python3 -u /home/ada/train.py --token hunter2",
                "neuron_runtime_version": "2.30.51.0",
            },
            {"pid": os.getpid(), "command": "neuron-ls -j -a", "neuron_runtime_version": ""},
        ],
    }


def refuse(flag: str) -> None:
    print(f"unknown flag `{flag.lstrip('-')}'")
    raise SystemExit(1)


def main() -> None:
    arguments = sys.argv[1:]
    mode = os.environ.get("FAKE_NEURON_LS", "array")
    if notes := os.environ.get("FAKE_NEURON_LS_RUNS"):
        with Path(notes).open("a") as file:
            file.write(f"{os.getpid()} {' '.join(arguments)}\n")
    unknown = {
        "object": ["-j"],
        "object-only": ["-j", "-a"],
        "neither": ["-j", "--output-format"],
    }.get(mode, ["--output-format"])
    for flag in arguments:
        if flag in unknown:
            refuse(flag)
    devices = [device(index) for index in range(DEVICES)]
    match mode:
        case "object" | "object-only":
            instance = {"instance_type": "trn2.48xlarge", "instance_id": "i-simulated"}
            print(json.dumps(instance | {"neuron_devices": devices}, indent=2))
        case "no-driver":
            line = 'time="2025-11-20T12:00:00Z" level=fatal msg="no neuron device found"'
            print(line, file=sys.stderr)
            raise SystemExit(1)
        case "no-device":
            print("[]")
        case "hang":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            while True:
                time.sleep(3600)
        case "garbage":
            print("+--------+\n| NEURON |\n+--------+")
        case "silent":
            pass
        case "huge":
            while True:
                os.write(1, b"[" * 65536)
        case _:
            print(json.dumps(devices))


if __name__ == "__main__":
    main()
