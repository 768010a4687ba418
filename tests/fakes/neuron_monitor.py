#!/usr/bin/env python3
"""A SIMULATED neuron-monitor: the interface of AWS's program, with made-up numbers.

Options, configuration file and report follow the neuron-monitor user guide: the first report
comes at once with a tiny period, then one JSON object a line each period, holding the groups
that the configuration names, until a signal ends it. Two devices, four cores.

The environment variable FAKE_NEURON_MONITOR makes it misbehave:

    ok                     behaves (the default)
    exit:CODE              exits with CODE at once, with a last word on standard error
    exit-after:K:CODE      the same after K reports
    hang, hang-after:K     writes nothing (more)
    ignore-term            goes on reporting through SIGTERM
    ignore-term-with-child the same, and has a child that holds its standard output
    garbage                writes lines that are no reports
    big                    reports of about 300 kB
    flood-stderr           reports, and floods standard error without end
    burst:N                N reports at once, each period
    slow                   one report in ten periods
    partial                each report in many small writes, and half a one last
    crlf, bom              Windows line ends; a byte order mark before each line
    no-driver              what it reports on a machine without a Neuron driver

FAKE_NEURON_MONITOR_PIDS names a file to which its process ids are appended.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

DEVICES = 2
CORES_PER_DEVICE = 2
GIB = 1 << 30
VERSION = "neuron-monitor 2.22.61.0%kaena-tools/2.22@8b70825 built on Thu Jan  1 00:00:00 UTC 1970"
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
TINY = 0.00047258


def seconds(duration: str) -> float:
    """A duration such as `500ms`, `1s`, `1m30s`."""
    parts = re.findall(r"([\d.]+)(ms|s|m|h)", duration)
    if not parts or "".join(number + unit for number, unit in parts) != duration:
        raise SystemExit(f"invalid period: {duration!r}")
    return sum(float(number) * UNITS[unit] for number, unit in parts)


def core_values() -> dict[str, Any]:
    cores = range(DEVICES * CORES_PER_DEVICE)
    return {str(core): {"neuroncore_utilization": 60.0 + core, "flops": 10**12} for core in cores}


def core_memory() -> dict[str, Any]:
    categories = {
        "constants": GIB, "model_code": GIB // 8, "model_shared_scratchpad": 0,
        "runtime_memory": GIB // 16, "tensors": 4 * GIB,
    }  # fmt: skip
    return {str(core): categories for core in range(DEVICES * CORES_PER_DEVICE)}


def runtime_group(kind: str, tick: int) -> dict[str, Any]:
    match kind:
        case "neuroncore_counters":
            return {"neuroncores_in_use": core_values()}
        case "execution_stats":
            latency = {"p0": 0.01, "p50": 0.02, "p99": 0.03, "p100": 0.04}
            return {
                "error_summary": {"generic": 0, "numerical": 0, "hardware": 0},
                "execution_summary": {"completed": 10 + tick % 3, "timed_out": 0},
                "latency_stats": {"total_latency": latency, "device_latency": latency},
            }
        case "memory_used":
            return {
                "neuron_runtime_used_bytes": {
                    "host": GIB,
                    "neuron_device": 4 * 6 * GIB,
                    "usage_breakdown": {"host": {}, "neuroncore_memory_usage": core_memory()},
                },
                "loaded_models": [],
            }
        case "neuron_runtime_vcpu_usage":
            return {"vcpu_usage": {"user": 12.5, "system": 1.5}}
    raise SystemExit(f"unknown metric type: {kind!r}")


def system_group(kind: str) -> dict[str, Any]:
    match kind:
        case "vcpu_usage":
            return {"average_usage": {"user": 10, "system": 2.5, "idle": 87.5}}
        case "memory_info":
            return {"memory_total_bytes": 64 * GIB, "memory_used_bytes": 8 * GIB}
        case "neuron_hw_counters":
            counters = ("mem_ecc_corrected", "mem_ecc_uncorrected", "sram_ecc_uncorrected")
            return {
                "neuron_devices": [
                    {"neuron_device_index": device, **dict.fromkeys(counters, 0)}
                    for device in range(DEVICES)
                ]
            }
    raise SystemExit(f"unknown metric type: {kind!r}")


def report(config: dict[str, Any], period: float, tick: int, *, driver: bool) -> dict[str, Any]:
    frame = {"period": period, "error": ""}
    runtimes = [
        {
            "pid": 4242,
            "address": "",
            "neuron_runtime_tag": "4242",
            "error": "",
            "report": {
                group["type"]: runtime_group(group["type"], tick) | frame
                for group in runtime["metrics"]
            },
        }
        for runtime in config["neuron_runtimes"]
    ]
    kinds = [group["type"] for group in config["system_metrics"]]
    hardware: dict[str, Any] = {
        "neuron_device_type": "trainium",
        "neuroncore_version": "v2",
        "neuron_device_count": DEVICES,
        "neuron_device_memory_size": 32 * GIB,
        "neuroncore_per_device_count": CORES_PER_DEVICE,
        "error": "",
    }
    if not driver:
        runtimes = []
        kinds = [kind for kind in kinds if kind != "neuron_hw_counters"]
        hardware = {
            "neuron_device_count": 0,
            "neuroncore_per_device_count": 0,
            "error": "no neuron device found: is the Neuron Driver installed and running?",
        }
    return {
        "neuron_runtime_data": runtimes,
        "system_data": {kind: system_group(kind) | frame for kind in kinds},
        "instance_info": {"instance_id": "i-simulated", "error": ""},
        "neuron_hardware_info": hardware,
    }


DEFAULT_CONFIG: dict[str, Any] = {
    "period": "5s",
    "neuron_runtimes": [
        {
            "tag_filter": ".*",
            "metrics": [
                {"type": "neuroncore_counters"},
                {"type": "memory_used"},
                {"type": "neuron_runtime_vcpu_usage"},
                {"type": "execution_stats"},
            ],
        }
    ],
    "system_metrics": [
        {"type": "vcpu_usage"},
        {"type": "memory_info"},
        {"type": "neuron_hw_counters"},
    ],
}


def write(data: bytes, piece: int = 1 << 30) -> None:
    """To standard output, unbuffered; a reader that is gone ends the program."""
    try:
        for start in range(0, len(data), piece):
            os.write(1, data[start : start + piece])
    except BrokenPipeError:
        os._exit(1)


def write_all(data: bytes) -> None:
    while data:
        try:
            data = data[os.write(1, data) :]
        except BrokenPipeError:
            os._exit(1)


def wait_for_ever() -> None:
    while True:
        time.sleep(3600)


def flood() -> None:
    while True:
        os.write(2, b"warning: simulated complaint\n" * 500)


def note_pid(pid: int) -> None:
    if path := os.environ.get("FAKE_NEURON_MONITOR_PIDS"):
        with Path(path).open("a") as file:
            file.write(f"{pid}\n")


def complain_and_exit(code: int) -> None:
    print("simulated failure", file=sys.stderr, flush=True)
    raise SystemExit(code)


def main() -> None:
    parser = argparse.ArgumentParser(prog="neuron-monitor", description="simulated")
    parser.add_argument("--verbose", type=int, default=0)
    parser.add_argument("-c", "--config-file")
    parser.add_argument("--version", action="store_true")
    options = parser.parse_args()
    if options.version:
        print(VERSION)
        return
    fault, *numbers = os.environ.get("FAKE_NEURON_MONITOR", "ok").split(":")
    config = DEFAULT_CONFIG
    if options.config_file:
        with Path(options.config_file).open() as file:
            config = json.load(file)
    period = seconds(config.get("period", "5s"))
    note_pid(os.getpid())
    run(fault, [int(number) for number in numbers], config, period)


def run(fault: str, numbers: list[int], config: dict[str, Any], period: float) -> None:
    if fault.startswith("ignore-term"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    match fault:
        case "exit":
            complain_and_exit(numbers[0])
        case "hang":
            wait_for_ever()
        case "ignore-term-with-child":
            sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
            note_pid(subprocess.Popen(sleeper).pid)
        case "flood-stderr":
            threading.Thread(target=flood, daemon=True).start()
    step = 10 * period if fault == "slow" else period
    tick = 0
    due = time.monotonic()
    while True:
        if fault == "exit-after" and tick == numbers[0]:
            complain_and_exit(numbers[1])
        if fault == "hang-after" and tick == numbers[0]:
            wait_for_ever()
        emit(fault, numbers, config, step if tick else TINY, tick)
        tick += 1
        due += step
        time.sleep(max(0.0, due - time.monotonic()))


def emit(fault: str, numbers: list[int], config: dict[str, Any], period: float, tick: int) -> None:
    payload = report(config, period, tick, driver=fault != "no-driver")
    if fault == "big":
        payload["padding"] = "x" * 300_000
    line = json.dumps(payload, separators=(",", ":")).encode()
    match fault:
        case "garbage":
            write_all(b"panic: simulated\nnot a report, { neither\n[1, 2]\n")
        case "burst":
            write_all(b"".join(line + b"\n" for _ in range(numbers[0])))
        case "partial":
            write(line + b"\n", 97)
            write_all(line[: len(line) // 2] + b"\n")
        case "crlf":
            write_all(line + b"\r\n")
        case "bom":
            write_all(b"\xef\xbb\xbf" + line + b"\n")
        case _:
            write_all(line + b"\n")


if __name__ == "__main__":
    main()
