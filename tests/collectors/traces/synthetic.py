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
