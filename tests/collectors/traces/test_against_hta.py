"""Our overlap compared with HolisticTraceAnalysis's, on a trace that neither of us made.

HolisticTraceAnalysis is no dependency: the test runs where it and the capture are at hand.
"""

import warnings
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests import captures
from tests.captures import needs_captures
from trntop.collectors.traces import load, steps_of, total_of


@cache
def hta(module: str, path: Path, *, last_step: bool) -> tuple[Any, Any]:
    """An analyzer of HolisticTraceAnalysis, and the loaded trace of one rank."""
    trace = pytest.importorskip("hta.common.trace", exc_type=ImportError)
    analyzers = pytest.importorskip(f"hta.analyzers.{module}", exc_type=ImportError)
    loaded = trace.Trace(trace_files={1: str(path)}, trace_dir="/")
    loaded.load_traces(include_last_profiler_step=last_step, use_multiprocessing=False)
    return analyzers, loaded


def overlap_percent(*, last_step: bool) -> float:
    """By HolisticTraceAnalysis, of the one rank in the capture."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        analysis, loaded = hta(
            "communication_analysis", captures.TORCH_PROFILER, last_step=last_step
        )
        result = analysis.CommunicationAnalysis.get_comm_comp_overlap(loaded, visualize=False)
    return float(result["comp_comm_overlap_pctg"][0])


def breakdown(path: Path) -> dict[str, float]:
    """Seconds of idle, compute, non-compute and all time by HolisticTraceAnalysis."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        analysis, loaded = hta("breakdown_analysis", path, last_step=True)
        result = analysis.BreakdownAnalysis.get_temporal_breakdown(loaded, visualize=False)
    return {
        name: float(result[f"{name}_time(us)"][0]) / 1e6
        for name in ("idle", "compute", "non_compute", "kernel")
    }


@pytest.mark.dev
@needs_captures
def test_the_overlap_agrees_to_a_hundredth_of_a_point() -> None:
    (capture,) = load([captures.TORCH_PROFILER])
    ratio = total_of(capture).overlap_ratio
    assert ratio is not None
    assert 100 * ratio == pytest.approx(overlap_percent(last_step=True), abs=0.01)
    # By default it leaves out the last profiler step, here all but the first.
    first = steps_of(capture)[0]
    assert first.overlap_seconds is not None
    assert first.comm_seconds is not None
    share = 100 * first.overlap_seconds / first.comm_seconds
    assert share == pytest.approx(overlap_percent(last_step=False), abs=0.01)


@pytest.mark.dev
@needs_captures
def test_idle_and_non_compute_time_agree() -> None:
    total = total_of(*load([captures.TORCH_PROFILER]))
    expected = breakdown(captures.TORCH_PROFILER)
    assert total.seconds == pytest.approx(expected["kernel"], rel=1e-4)
    assert total.compute_seconds == pytest.approx(expected["compute"], rel=1e-4)
    assert total.idle_seconds == pytest.approx(expected["idle"], rel=1e-3)
    assert total.non_compute_seconds == pytest.approx(expected["non_compute"], rel=1e-3)
