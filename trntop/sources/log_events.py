"""Lines of logs that report an event: compilations, cache lookups, time-outs, interruptions.

Forms, as public logs have them:

- libneuronxla (aws-neuron-sdk issue 825, optimum-neuron issues 129 and 407), the wrapper of the
  compiler, `NCC_WRAPPER` before 2024:
  `2023-07-07 13:56:01.000284: INFO ||NCC_WRAPPER||: Using a cached neff at …/MODULE_ID/…`
  `2024-01-11 05:53:27.000203:  741529  INFO ||NEURON_CC_WRAPPER||: Call compiler with cmd: […
  '…/model.MODULE_ID.hlo.pb', …]`
  `… INFO ||NEURON_CC_WRAPPER||: Compilation Successfully Completed for model.MODULE_ID.…`
- c10d (PyTorch's ProcessGroupNCCL.cpp; Megatron-LM issue 1207, LlamaFactory issue 7396):
  `[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1580, OpType=ALLREDUCE, …,
  Timeout(ms)=600000) ran for 600060 milliseconds before timing out.`
  `[PG 1 Rank 0] Exception (either an error or timeout) detected by watchdog at work: 1580, last
  enqueued NCCL work: 1582, last completed NCCL work: 1579.`
  Before PyTorch 2.2 the sizes are missing.
- SageMaker HyperPod: `srun --auto-resume=1` on Slurm (AWS's walk-throughs of auto-resume, for GPUs
  and for NeuronX Distributed), the agent of the training operator on EKS (package
  `hyperpod-elastic-agent`: `logging.py`, `set_agent_state`), and detections of the health
  monitoring agent (SageMaker developer guide, "Health Monitoring System"; CloudWatch keeps them in
  the streams `SagemakerHealthMonitoringAgent`):
  `[Auto Resume] Error: JobID: 5 StepID: 0 TaskID: 0 Task failed on node ip-10-1-184-86`
  `[Auto Resume] Info: JobID: 82 StepID: 0 Retrying step. Attempt number: 1`
  `[HyperPodElasticAgent] 2025-09-01 10:00:00,000 [INFO] [rank3-restart0] …: Transitioned from
  AgentState.RUNNING to AgentState.FAULTED`
  `{"level":"info", …, "details: ":{"severity":"warn", …, "reason":"XidHardwareFailure", …},
  "HealthMonitoringAgentDetectionEvent":"HealthEvent"}`
"""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime

MODULES = 4096
"""Compilations followed at once."""
SPANS = 256
"""Times of compilations that are kept apart, to count overlaps once."""
MAX_SECONDS = 24 * 3600.0

SIGNS = (
    b"C_WRAPPER||", b"atchdog", b"[Auto Resume]", b"[HyperPodElasticAgent]",
    b"HealthMonitoringAgentDetectionEvent",
)  # fmt: skip
"""One of them is in each line that reports an event."""

_TIME = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{1,6}):")
_MODULE = re.compile(r"\bMODULE_\w{1,64}(?:\+\w{1,64})?")
_WRAPPER = re.compile(r"\|\|(?:NEURON_CC_WRAPPER|NCC_WRAPPER)\|\|: (?P<what>[A-Z]\w+ )")
_WATCHDOG = re.compile(
    r"\bRank (?P<rank>\d{1,9})\] Watchdog caught collective operation timeout: "
    r"Work\w{1,16}\(SeqNum=(?P<number>\d{1,15}), OpType=(?P<kind>\w{1,64})"
)
_RAN = re.compile(r"\) ran for (\d{1,15}) milliseconds")
_COMPLETED = re.compile(
    r"\bRank (?P<rank>\d{1,9})\] Exception .{1,80}at work: (?P<number>\d{1,15}), "
    r"last enqueued \w{1,16} work: (?P<enqueued>\d{1,15}), "
    r"last completed \w{1,16} work: (?P<completed>\d{1,15})"
)
# The messages that change what a run does; those in between are left out. "Droping" is AWS's.
_RESUME = re.compile(
    r"\[Auto Resume\] \w{1,16}: JobID: (?P<job>\d{1,15}) (?:\w{1,16}: \d{1,15} ){0,2}"
    r"(?P<text>Task failed on node |Job failed - replacing nodes|Droping unhealthy nodes"
    r"|Job Expansion complete|Retrying step\. Attempt number: )(?P<rest>[\w.-]{0,64})"
)
_AGENT = re.compile(
    r"\[HyperPodElasticAgent\] .{0,200}\[rank(?P<rank>-?\d{1,9})-restart(?P<restart>\d{1,9})\] "
    r".{1,400}: Transitioned from AgentState\.\w{1,16} to AgentState\.(?P<state>FAULTED|STOPPING)"
)
_DETECTION = '"HealthMonitoringAgentDetectionEvent"'
_REASON = re.compile(r'"reason": ?"(?P<reason>\w{1,128})"')


def interruption(text: str) -> str:
    """What a line of HyperPod reports of a run that fails or restarts; empty for any other line."""
    if match := _RESUME.search(text):
        return f"HyperPod auto-resume of Slurm job {match['job']}: {match['text']}{match['rest']}"
    if match := _AGENT.search(text):
        done = "stops its training" if match["state"] == "STOPPING" else "has detected a fault"
        return f"HyperPod agent of rank {match['rank']} {done}, restarts {match['restart']}"
    if _DETECTION in text and (match := _REASON.search(text)):
        return f"HyperPod health monitoring agent: {match['reason']}"
    return ""


def collective_timeout(text: str) -> str:
    """What a line reports of a collective that timed out; empty for any other line."""
    if "atchdog" not in text:
        return ""
    if match := _WATCHDOG.search(text):
        kind = match["kind"].strip("_").lower()
        ran = _RAN.search(text)
        after = f" after {int(ran[1]) / 1000:.0f} s" if ran else ""
        return f"rank {match['rank']}: {kind} {match['number']} timed out{after}"
    if match := _COMPLETED.search(text):
        return (
            f"rank {match['rank']}: work {match['number']} timed out or failed; "
            f"last completed {match['completed']}, last enqueued {match['enqueued']}"
        )
    return ""


@dataclass(slots=True)
class Compilations:
    """Cache lookups, and the time in which at least one compilation ran.

    A compilation counts when its end is reported: one that fails is a miss without seconds.
    """

    hits: int = 0
    misses: int = 0
    seconds: float = 0.0
    _started: dict[str, float] = field(default_factory=dict)
    _spans: list[tuple[float, float]] = field(default_factory=list)

    def add(self, text: str) -> bool:
        """Adds a line; whether it is of the compiler's wrapper."""
        if "C_WRAPPER||" not in text or not (match := _WRAPPER.search(text)):
            return False
        module, time = _MODULE.search(text), _TIME.search(text)
        match match["what"].strip():
            case "Using":
                self.hits += 1
            case "Call":
                self.misses += 1
                if module and time and len(self._started) < MODULES:
                    self._started[module[0]] = _seconds(time[1])
            case "Compilation":
                began = self._started.pop(module[0], None) if module else None
                if time and began is not None and 0 <= _seconds(time[1]) - began <= MAX_SECONDS:
                    self._span(began, _seconds(time[1]))
        return True

    def drain(self) -> dict[str, float]:
        """The counts since the last call."""
        counts = {"hits": self.hits, "misses": self.misses, "seconds": self.seconds}
        self.hits, self.misses, self.seconds = 0, 0, 0.0
        return counts

    def _span(self, began: float, ended: float) -> None:
        """Adds a time, counting what overlaps earlier ones once."""
        apart, before = [], 0.0
        for start, stop in self._spans:
            if stop < began or start > ended:
                apart.append((start, stop))
            else:
                before += stop - start
                began, ended = min(began, start), max(ended, stop)
        self.seconds += ended - began - before
        self._spans = [*apart, (began, ended)][-SPANS:]


def _seconds(text: str) -> float:
    try:
        return datetime.strptime(text, "%Y-%m-%d %H:%M:%S.%f").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return float("nan")
