"""Importing a trace of torch.profiler, compared with HolisticTraceAnalysis where that is installed.

Both read the file and compute the overlap of communication with compute. One trace is the public
capture of one rank, if it is next to the checkout; the other is made up, and larger.
"""

import json
import logging
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

from benchmarks.figure import Figure, median_seconds
from trntop.collectors import traces

CAPTURE = Path(__file__).parents[2] / "shared" / "captures" / "torch-profiler-rank1.json.gz"
STEPS = 20
KERNELS = 1000
"""Kernels of a step; each has a launch and two operators of the host."""
SHARE = 0.1
"""Of HolisticTraceAnalysis's time."""


def run(*, quick: bool) -> list[Figure]:
    their_way = _their_way()
    with tempfile.TemporaryDirectory() as folder:
        made_up = Path(folder) / "rank_1.json"
        made_up.write_text(json.dumps(_trace()))
        paths = [path for path in (CAPTURE, made_up) if path.exists()]
        return [
            figure
            for path in paths
            for figure in _figures(path, their_way, repeats=3 if quick else 9)
        ]


def _figures(path: Path, their_way: Callable[[Path], object] | None, repeats: int) -> list[Figure]:
    ours = median_seconds(lambda: _our_way(path), repeats)
    what = f"import a trace of {path.stat().st_size / 1e6:.2g} MB"
    figures = [Figure(what, ours * 1e3, "ms")]
    if their_way:
        theirs = median_seconds(lambda: their_way(path), repeats)
        beside = f"{theirs / ours:.0f} times faster than its {theirs * 1e3:.0f} ms"
        share = ours / theirs
        figures.append(Figure("the same ÷ HolisticTraceAnalysis", share, "×", SHARE, beside))
    return figures


def _our_way(path: Path) -> object:
    return [(traces.steps_of(capture), traces.total_of(capture)) for capture in traces.load([path])]


def _their_way() -> Callable[[Path], object] | None:
    logging.getLogger("hta").setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from hta.analyzers.communication_analysis import CommunicationAnalysis
            from hta.common.trace import Trace
    except ImportError:
        return None

    def analyse(path: Path) -> object:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trace = Trace(trace_files={1: str(path)}, trace_dir="/")
            trace.load_traces(include_last_profiler_step=True, use_multiprocessing=False)
            return CommunicationAnalysis.get_comm_comp_overlap(trace, visualize=False)

    return analyse


def _trace() -> dict[str, object]:
    """Steps of kernels in a row, each tenth a collective on a stream of its own."""
    events: list[dict[str, object]] = []

    def put(cat: str, name: str, start: float, dur: float, tid: int, **args: int) -> None:
        where = {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid}
        events.append(where | {"ts": start, "dur": dur, "args": {"External id": 1, **args}})

    for step in range(STEPS):
        begin = step * KERNELS * 100
        put("user_annotation", f"ProfilerStep#{step}", begin, KERNELS * 100, 1)
        for kernel in range(KERNELS):
            start, correlation = begin + kernel * 100, 7_000_000 + step * KERNELS + kernel
            put("cpu_op", "aten::linear", start, 40, 1)
            put("cpu_op", "aten::addmm", start + 5, 30, 1)
            put("cuda_runtime", "cudaLaunchKernel", start + 10, 5, 1, correlation=correlation)
            comm = kernel % 10 == 0
            name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL" if comm else "void cutlass::Kernel"
            dur, stream = (300, 20) if comm else (80, 7)
            put("kernel", name, start + 15, dur, stream, correlation=correlation, stream=stream,
                device=0)  # fmt: skip
    return {"distributedInfo": {"rank": 1}, "baseTimeNanoseconds": 0, "traceEvents": events}
