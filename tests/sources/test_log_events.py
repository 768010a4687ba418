"""Lines as public logs have them; the issues are named in `trntop.sources.log_events`."""

import json

import pytest

from trntop.sources.log import decode
from trntop.sources.log_events import SIGNS, Compilations, collective_timeout, interruption

WRAPPER = "INFO ||NEURON_CC_WRAPPER||:"
HIT = (
    "2023-07-07 13:56:01.000284: INFO ||NCC_WRAPPER||: Using a cached neff at /tmp/tmpd29vse1h/"
    "neuron-compile-cache/neuronxcc-2.7.0.40+f7c6cf2a3/MODULE_7411938889920977621+d41d8cd9/"
    "model.neff. Exiting with a successfully compiled graph."
)
CAUGHT = (
    "[rank0]:[E321 02:07:08.408271257 ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum=1580, OpType=ALLREDUCE, NumelIn=466119168, "
    "NumelOut=466119168, Timeout(ms)=600000) ran for 600060 milliseconds before timing out."
)


def call(time: str, module: str) -> str:
    return (
        f"{time}:  741529  {WRAPPER} Call compiler with cmd: ['neuronx-cc', '--target=trn1', "
        f"'compile', '--framework', 'XLA', '/tmp/ubuntu/neuroncc_compile_workdir/f3d0b9bd/"
        f"model.{module}.hlo.pb', '--output', '/tmp/x/model.{module}.neff', '--verbose=35']"
    )


def done(time: str, module: str) -> str:
    return (
        f"{time}:  741529  {WRAPPER} Compilation Successfully Completed for "
        f"model.{module}.hlo_module.pb"
    )


def test_lookups_that_hit() -> None:
    compilations = Compilations()
    assert compilations.add(HIT)
    assert compilations.drain() == {"hits": 1, "misses": 0, "seconds": 0.0}
    assert compilations.drain() == {"hits": 0, "misses": 0, "seconds": 0.0}


def test_compilations_that_overlap_count_once() -> None:
    compilations = Compilations()
    for line in (
        call("2024-01-11 05:53:27.000203", "MODULE_1+d41d8cd9"),
        call("2024-01-11 05:53:37.000203", "MODULE_2+d41d8cd9"),
        done("2024-01-11 05:53:47.000203", "MODULE_2+d41d8cd9"),
        done("2024-01-11 05:54:27.000203", "MODULE_1+d41d8cd9"),
        call("2024-01-11 05:55:00.000000", "MODULE_3+d41d8cd9"),
        done("2024-01-11 05:55:05.000000", "MODULE_3+d41d8cd9"),
    ):
        assert compilations.add(line)
    assert compilations.drain() == {"hits": 0, "misses": 3, "seconds": pytest.approx(65.0)}


def test_a_compilation_with_unknown_start_has_no_duration() -> None:
    compilations = Compilations()
    assert compilations.add(done("2024-01-11 05:53:47.000203", "MODULE_2+d41d8cd9"))
    assert compilations.drain()["seconds"] == 0.0


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (CAUGHT, "rank 0: allreduce 1580 timed out after 600 s"),
        (
            "[E ProcessGroupNCCL.cpp:737] [Rank 1] Watchdog caught collective operation timeout: "
            "WorkNCCL(SeqNum=469508, OpType=_REDUCE_SCATTER_BASE, Timeout(ms)=1800000) ran for "
            "1802212 milliseconds before timing out.",
            "rank 1: reduce_scatter_base 469508 timed out after 1802 s",
        ),
        (
            "[rank1]:[E626 06:24:44.906457629 ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID "
            "0(default_pg) Rank 1] Exception (either an error or timeout) detected by watchdog at "
            "work: 808, last enqueued NCCL work: 811, last completed NCCL work: 807.",
            "rank 1: work 808 timed out or failed; last completed 807, last enqueued 811",
        ),
        ("NCCL watchdog thread started", ""),
        ("step: 3 loss: 1.0", ""),
    ],
)
def test_collective_timeouts(line: str, found: str) -> None:
    assert collective_timeout(line) == found


def test_they_are_counted_and_listed() -> None:
    payload = {
        "file": "train.log",
        "timeouts": {"count": 3, "lines": [CAUGHT]},
        "compilations": {"hits": 2, "misses": 1, "seconds": 61.5},
    }
    sample = decode(json.dumps(payload).encode())
    assert sample.deltas == {
        "node_collective_timeouts_total": 3.0,
        "node_compile_cache_hits_total": 2.0,
        "node_compile_cache_misses_total": 1.0,
        "node_compile_seconds_total": 61.5,
    }
    assert sample.problems == ("rank 0: allreduce 1580 timed out after 600 s",)
    assert sample.keys == {}


AGENT = "[HyperPodElasticAgent] 2025-09-01 10:00:00,000 [INFO] [rank3-restart1] /opt/agent.py:391: "
RESUME = "[Auto Resume] Info: JobID: 82 StepID: 0"
DETECTION = (
    '{"level":"info","ts":"2024-08-21T18:35:35Z","msg":"NPD caught event: %v","details: ":{'
    '"severity":"warn","timestamp":"2024-08-22T20:59:29Z","reason":"XidHardwareFailure","message":'
    '"Node condition NvidiaErrorReboot is now: True, reason: XidHardwareFailure"},'
    '"HealthMonitoringAgentDetectionEvent":"HealthEvent"}'
)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (
            "[Auto Resume] Error: JobID: 5 StepID: 0 TaskID: 0 Task failed on node ip-10-1-184-86",
            "HyperPod auto-resume of Slurm job 5: Task failed on node ip-10-1-184-86",
        ),
        (
            f"{RESUME} Job failed - replacing nodes",
            "HyperPod auto-resume of Slurm job 82: Job failed - replacing nodes",
        ),
        (
            f"{RESUME} Retrying step. Attempt number: 1",
            "HyperPod auto-resume of Slurm job 82: Retrying step. Attempt number: 1",
        ),
        (f"{RESUME} Response from cluster agent: JobId=82, ResumeAction=RETRYSTEP", ""),
        (
            f"{AGENT}Transitioned from AgentState.RUNNING to AgentState.FAULTED",
            "HyperPod agent of rank 3 has detected a fault, restarts 1",
        ),
        (f"{AGENT}Transitioned from AgentState.READY to AgentState.RUNNING", ""),
        (DETECTION, "HyperPod health monitoring agent: XidHardwareFailure"),
        ("[Auto Resume] found checkpoint at /checkpoints/main.pt", ""),
    ],
)
def test_interruptions_by_hyperpod(line: str, found: str) -> None:
    assert interruption(line) == found
    assert any(sign in line.encode() for sign in SIGNS)


def test_the_newest_interruption_comes_first() -> None:
    lines = [f"{RESUME} Job failed - replacing nodes", f"{RESUME} Retrying step. Attempt number: 1"]
    sample = decode(json.dumps({"file": "train.log", "interruptions": lines}).encode())
    assert [text.rpartition(": ")[2] for text in sample.problems] == [
        "1",
        "Job failed - replacing nodes",
    ]
