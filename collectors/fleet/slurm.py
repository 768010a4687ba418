"""The nodes of a Slurm job, `slurm:JOBID`, as scontrol tells them.

Format: `scontrol show job JOBID`, `Key=Value` parted by blanks, a blank line between the parts of
a job array. `NodeList` is a host list, `(null)` as long as the job waits. Slurm forgets a job some
minutes after its end (MinJobAge); its nodes then stand as they were.
"""

import asyncio
import re
import shutil
from typing import Any

from trntop.core.errors import UsageError
from trntop.core.settings import Fleet
from trntop.core.text import clean
from trntop.remote.hostlist import expand_all

from ..child import Child, obituary
from .addresses import Place, host_address, targets_of
from .target import FindError, Target

DEADLINE = 10.0
"""Seconds that scontrol gets; a busy controller takes its time."""
GRACE = 0.2
MAX_BYTES = 4 << 20

_JOB = re.compile(r"\d{1,10}(?:[_+]\d{1,10})?", re.ASCII)
_FIELD = re.compile(r"(?:^|\s)(JobId|JobName|JobState|Reason|Partition|NodeList)=(\S*)")


class Slurm:
    """The nodes of one job.

    Args:
        job: its id; `123_4` is a task of an array, `123+1` a part of a heterogeneous job.
        fleet: how nodes are reached, and how often the job is looked at.
        deadline: seconds that scontrol gets.

    Raises:
        UsageError: the id is none.
    """

    def __init__(self, job: str, fleet: Fleet, deadline: float = DEADLINE) -> None:
        if not _JOB.fullmatch(job):
            raise UsageError(f"slurm:{clean(job, 40)}: a job's id is a number")
        self.text = f"slurm:{job}"
        self.period: float | None = fleet.refresh
        self._job = job
        self._fleet = fleet
        self._deadline = deadline

    async def find(self) -> list[Target]:
        """The job's nodes now.

        Raises:
            FindError: scontrol cannot be run, does not know the job, or the job has no nodes.
        """
        program = shutil.which("scontrol")
        if program is None:
            raise FindError(f"{self.text}: scontrol is not installed, or not on PATH")
        output = await self._run(program)
        nodes: list[str] = []
        facts: dict[str, str] = {}
        waits = ""
        for name, value in _FIELD.findall(output):
            if name == "NodeList" and value not in ("", "(null)"):
                nodes.append(value)
            elif name == "Reason":
                waits = value
            elif name != "NodeList":
                facts.setdefault(name, clean(value, 64))
        state = facts.get("JobState", "")
        if not nodes:
            why = f" ({clean(waits, 64)})" if waits not in ("", "None") else ""
            raise FindError(f"{self.text}: has no nodes, it is {state.lower() or 'unknown'}{why}")
        told = {
            "slurm_job": f"{facts.get('JobId', self._job)} {facts.get('JobName', '')}".strip(),
            "slurm_state": state,
            "slurm_partition": facts.get("Partition", ""),
        }
        try:
            hosts = expand_all(nodes)
            return targets_of(Place(host_address(host, self._fleet), told) for host in hosts)
        except UsageError as error:
            raise FindError(f"{self.text}: {error}") from None

    def close(self) -> None:
        """See `Finder`."""

    async def _run(self, program: str) -> str:
        """What scontrol writes of the job."""
        output = bytearray()
        full: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def take(chunk: bytes) -> None:
            if len(output) + len(chunk) <= MAX_BYTES:
                output.extend(chunk)
            elif not full.done():
                full.set_result(None)

        try:
            child = await Child.start([program, "show", "job", self._job], take)
        except OSError as error:
            raise FindError(f"{self.text}: scontrol: {error.strerror}") from None
        try:
            either: list[asyncio.Future[Any]] = [child.ended, full]
            await asyncio.wait(either, timeout=self._deadline, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended = child.ended.done()
            await child.end(GRACE)
        if full.done():
            raise FindError(f"{self.text}: scontrol wrote more than {MAX_BYTES >> 20} MiB")
        if not ended:
            raise FindError(f"{self.text}: scontrol has not answered within {self._deadline:g} s")
        if code := child.ended.result():
            said = child.errors.text()
            raise FindError(f"{self.text}: scontrol {obituary(code)}{f': {said}' if said else ''}")
        return output.decode(errors="replace")
