"""Failed executions on small hand-made streams."""

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from tests.analysis.harness import Detection, detections
from tests.reports import monitor_reading, report, runtime
from trntop.analysis.detectors.errors import ExecutionErrors
from trntop.core.model import Reading, Severity
from trntop.core.settings import Analysis, Settings
from trntop.session.monitor import Monitor, play


def failed(readings: Iterable[Reading]) -> list[Detection]:
    return detections(ExecutionErrors(Analysis(), 1.0), readings)


def running(second: Callable[[int], dict[str, Any]], seconds: int = 60) -> list[Reading]:
    """A healthy process, and a second one."""
    return [monitor_reading(report(runtime(), second(t)), float(t)) for t in range(seconds)]


def erring(**errors: int) -> dict[str, Any]:
    result = runtime(101)
    result["report"]["execution_stats"]["error_summary"] |= errors
    return result


def test_the_process_that_fails_is_named() -> None:
    (found,) = failed(running(lambda t: runtime(101, timed_out=2 if t == 30 else 0)))
    assert found.key == ("n", 101)
    assert found.verdict.component == "runtime:101"
    assert 30 <= found.begin <= 31
    assert found.end <= 33
    assert found.verdict.severity is Severity.CRITICAL
    assert found.verdict.fields == {
        "node": "n", "count": "2 executions failed in process 101", "kinds": "timed out",
        "basis": "neuron-monitor",
    }  # fmt: skip


def test_a_failure_that_is_a_status_and_an_error_is_one() -> None:
    def second(t: int) -> dict[str, Any]:
        result = erring(hardware=3 * (t == 30))
        result["report"]["execution_stats"]["execution_summary"]["completed_with_err"] = 3 * (
            t == 30
        )
        return result

    (found,) = failed(running(second))
    assert found.verdict.fields["count"] == "3 executions failed in process 101"
    assert found.verdict.fields["kinds"] == "hardware errors"
    assert {evidence.text for evidence in found.verdict.evidence} == {
        "completed with errors in process 101: 3",
        "hardware errors in process 101: 3",
    }


@pytest.mark.parametrize(
    ("kind", "severity"),
    [
        ("generic", Severity.WARNING),
        ("transient", Severity.WARNING),
        ("numerical", Severity.CRITICAL),
        ("hardware", Severity.CRITICAL),
    ],
)
def test_severity_by_kind(kind: str, severity: Severity) -> None:
    (found,) = failed(running(lambda t: erring(**{kind: int(t == 30)})))
    assert found.verdict.severity is severity
    assert found.verdict.fields["kinds"] == f"{kind} errors"


def test_two_failing_processes_are_distinguished() -> None:
    stream = [
        monitor_reading(
            report(runtime(100, timed_out=4 * (t == 30)), runtime(101, timed_out=2 * (t == 30))),
            float(t),
        )
        for t in range(60)
    ]
    counts = {detection.key: detection.verdict.fields["count"] for detection in failed(stream)}
    assert counts == {
        ("n", 100): "4 executions failed in process 100",
        ("n", 101): "2 executions failed in process 101",
    }


def test_a_restarted_process_has_lost_and_found_nothing() -> None:
    stream = running(lambda t: runtime(101 if t < 30 else 202, timed_out=int(t == 20)))
    (found,) = failed(stream)
    assert found.key == ("n", 101)
    assert found.end <= 23


def test_a_process_without_a_pid_is_the_node_s_matter() -> None:
    def second(t: int) -> dict[str, Any]:
        return runtime(101, timed_out=int(t == 30)) | {"pid": None}

    (found,) = failed(running(second))
    assert found.key == ("n", None)
    assert found.verdict.component is None
    assert found.verdict.fields["count"] == "1 execution failed"


def test_generic_errors_that_outnumber_the_executions_are_no_failures() -> None:
    (found,) = failed(running(lambda t: erring(generic=23_700 * (t >= 30))))
    assert found.verdict.severity is Severity.INFO
    assert found.verdict.fields["count"] == "no execution failed in process 101"
    assert found.verdict.fields["kinds"] == "more generic errors than executions"
    assert {evidence.text for evidence in found.verdict.evidence} == {
        "more generic errors than executions in process 101: 23700"
    }


def test_a_failure_among_such_errors_counts() -> None:
    def second(t: int) -> dict[str, Any]:
        result = erring(generic=23_700)
        result["report"]["execution_stats"]["execution_summary"]["timed_out"] = int(t == 30)
        return result

    views = play(running(second), Monitor(Settings()))
    severities = [incident.severity for view in views for incident in view.incidents]
    assert severities[0] is Severity.INFO
    assert severities[-1] is Severity.CRITICAL


def test_failures_add_up() -> None:
    *_, newest = failed(running(lambda t: runtime(101, timed_out=int(t in (20, 40)))))
    assert newest.verdict.fields["count"] == "2 executions failed in process 101"
    assert newest.verdict.since == pytest.approx(20, abs=1)


def sysfs_reading(t: float, **status: int) -> Reading:
    """Two devices; core 1 of device 1 counts what is given."""
    cores = {str(core): {"status": {"success": 9, "hw_error": 0, "timeout": 5}} for core in (0, 1)}
    faulty = {"status": cores["1"]["status"] | status}
    devices = {"0": {"cores": cores}, "1": {"cores": cores | {"1": faulty}}}
    data = {"driver": "2.30.2.0", "period": 10, "devices": devices}
    return Reading("n", "neuron-sysfs", t, json.dumps(data).encode())


def test_the_driver_s_counts_replace_missing_runtime_counts() -> None:
    stream = [sysfs_reading(float(t), hw_error=2 * (t >= 30)) for t in range(0, 90, 10)]
    (found,) = failed(stream)
    assert found.key == ("n", None)
    assert found.verdict.component == "device:1"
    assert found.verdict.fields["count"] == "2 executions failed in device 1"
    assert found.verdict.fields["basis"] == "neuron-sysfs"
    # Next to neuron-monitor's they would be the same failures once more.
    assert failed([*stream, *running(lambda t: runtime(101), 90)]) == []


def test_the_driver_s_counts_that_are_reset_or_unread() -> None:
    assert failed(sysfs_reading(float(t), hw_error=7 * (t < 30)) for t in range(0, 90, 10)) == []
    stream = [sysfs_reading(float(t), hw_error=7) for t in range(0, 90, 10)]
    stream[3] = sysfs_reading(30.0, hw_error=-1)
    assert failed(stream) == []
