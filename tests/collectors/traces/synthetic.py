"""Traces made for tests, of the form that the real tools write; their figures are made up."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

BASE = 1_763_650_000_000_000_000
"""Unix nanoseconds at which they begin."""

Event = dict[str, Any]


def event(name: str, start: float, dur: float, cat: str = "kernel", tid: int = 7) -> Event:
    """A complete event; times in microseconds."""
    return {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": tid, "ts": start, "dur": dur}


def step(
    number: int, start: float, dur: float, cat: str = "user_annotation", tid: int = 1
) -> Event:
    return event(f"ProfilerStep#{number}", start, dur, cat, tid)


def nccl(start: float, dur: float) -> Event:
    return event("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)", start, dur, tid=20)


def collective(
    start: float,
    dur: float,
    name: str,
    elements: tuple[int, int],
    kernel: str = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
    dtype: str = "BFloat16",
    ranks: int = 8,
) -> Event:
    """With the arguments that torch.profiler gives the kernels of collectives since 2.2."""
    args = {
        "Collective name": name, "In msg nelems": elements[0], "Out msg nelems": elements[1],
        "Group size": ranks, "dtype": dtype, "In split size": "[]", "Out split size": "[]",
        "Process Group Name": "0", "Process Group Ranks": "[0, 1, 2, 3, 4, 5, 6, 7]",
    }  # fmt: skip
    return event(kernel, start, dur, tid=20) | {"args": args}


def gemm(start: float, dur: float) -> Event:
    return event("void cutlass::Kernel<gemm>(Params)", start, dur)


def kineto(path: Path, events: Iterable[Any], **members: Any) -> Path:
    """A trace of torch.profiler."""
    document = {
        "schemaVersion": 1,
        "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8},
        "baseTimeNanoseconds": BASE,
        "traceEvents": list(events),
    }
    given = {key: value for key, value in (document | members).items() if value is not None}
    path.write_text(json.dumps(given))
    return path


def nrt(kind: str, phase: str, time: int, tracking_id: int | None = None, core: int = 0) -> Event:
    """An event of the runtime's system trace; times in nanoseconds after `BASE`.

    No public capture of `cc_running` exists: its form is that of `nc_exec_running`.
    """
    return {
        "event_type": kind, "phase": phase, "tracking_id": tracking_id, "nc_idx": core,
        "timestamp_ns": BASE + time, "data": {"exec_id": 1, "device_core_idx": core},
    }  # fmt: skip


def system_trace(path: Path, events: Iterable[Any], member: str = "events") -> Path:
    path.write_text(json.dumps({member: list(events)}))
    return path
