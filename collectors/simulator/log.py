"""The training log of rank 0: a line of TorchTitan per step, with its colors."""

import time

import numpy as np

from .fleet import Fleet
from .jobs import Job
from .memory import SHARES
from .steps import TOKENS_PER_RANK, Records
from .template import dumps

FILE = "train.log"
GRAD_NORM = 0.31
GRAD_NOISE = 0.12

LINE = (
    "[titan] {stamp} - root - INFO - "
    "\x1b[31mstep: {step:2}  "
    "\x1b[32mloss: {loss:7.4f}  "
    "\x1b[38;2;180;60;0mgrad_norm: {grad_norm:7.4f}  "
    "\x1b[38;2;54;234;195mmemory: {gib:5.2f}GiB({percent:.2f}%)  "
    "\x1b[34mtps: {tps:,}  "
    "\x1b[36mtflops: {tflops:,.2f}  "
    "\x1b[35mmfu: {mfu:.2f}%\x1b[39m"
)
"""TorchTitan's `components/metrics.py`; the prefix of its logger is a guess."""


class TrainingLog:
    """The log on the first node of a job."""

    def __init__(self, fleet: Fleet, job: Job, seed: int, starts: list[float]) -> None:
        self._chip = fleet.chip
        self._job = job
        self._start = starts[int(job.nodes[0])]
        self._rng = np.random.default_rng([seed, 15, job.index])

    def payload(self, records: Records) -> bytes:
        """The line of a finished step."""
        step, share = records.step, sum(SHARES.values())
        end = self._start + step.end
        mfu = float(records.mfu[0, 0])
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(end))
        text = LINE.format(
            stamp=f"{stamp},{int(end % 1.0 * 1000):03d}",
            step=step.number,
            loss=records.loss,
            grad_norm=GRAD_NORM * (1.0 + GRAD_NOISE * float(self._rng.normal())),
            gib=share * self._chip.hbm_bytes / 2**30,
            percent=100.0 * share,
            tps=round(round(TOKENS_PER_RANK * self._job.step_ratio) / (step.end - step.begin)),
            tflops=mfu * self._chip.bf16_flops_per_second / 1e12,
            mfu=100.0 * mfu,
        )
        return dumps({"file": FILE, "job": self._job.name, "lines": [{"text": text}]}).encode()
