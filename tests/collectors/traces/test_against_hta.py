"""Our overlap beside HolisticTraceAnalysis's, on a trace that neither of us made.

HolisticTraceAnalysis is no dependency: the test runs where it and the capture are at hand.
"""

import warnings
from pathlib import Path

import pytest

from trntop.collectors.traces import load, steps_of, total_of

CAPTURE = Path(__file__).parents[4] / "shared" / "captures" / "torch-profiler-rank1.json.gz"


def overlap_percent(*, last_step: bool) -> float:
    """By HolisticTraceAnalysis, of the one rank in the capture."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trace = pytest.importorskip("hta.common.trace", exc_type=ImportError)
        analysis = pytest.importorskip("hta.analyzers.communication_analysis", exc_type=ImportError)
        loaded = trace.Trace(trace_files={1: str(CAPTURE)}, trace_dir="/")
        loaded.load_traces(include_last_profiler_step=last_step, use_multiprocessing=False)
        result = analysis.CommunicationAnalysis.get_comm_comp_overlap(loaded, visualize=False)
    return float(result["comp_comm_overlap_pctg"][0])


@pytest.mark.skipif(not CAPTURE.exists(), reason="the public captures are not beside this checkout")
def test_the_overlap_agrees_to_a_hundredth_of_a_point() -> None:
    (capture,) = load([CAPTURE])
    ratio = total_of(capture).overlap_ratio
    assert ratio is not None
    assert 100 * ratio == pytest.approx(overlap_percent(last_step=True), abs=0.01)
    # By default it leaves out the last profiler step, here all but the first.
    first = steps_of(capture)[0]
    assert first.overlap_seconds is not None
    assert first.comm_seconds is not None
    share = 100 * first.overlap_seconds / first.comm_seconds
    assert share == pytest.approx(overlap_percent(last_step=False), abs=0.01)
