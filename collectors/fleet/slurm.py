"""Nodes of a Slurm job, `slurm:JOBID`, from `scontrol show job JOBID`.

Format: `Key=Value` separated by blanks, an empty line between the parts of a job array. `NodeList`
is a host list, `(null)` while the job is pending. Slurm removes a job some minutes after its end
(MinJobAge); its nodes stay.
"""

import re
import shutil

from trntop.core.errors import UsageError
from trntop.core.settings import Fleet
from trntop.core.text import clean
from trntop.remote.hostlist import expand_all

from ..child import OutputError, exit_reason, output
from .addresses import host_address, targets_of
from .target import Finder, FindError, Target

DEADLINE = 10.0
"""Seconds for scontrol: a busy controller is slow."""

_JOB = re.compile(r"\d{1,10}(?:[_+]\d{1,10})?", re.ASCII)
_FIELD = re.compile(r"(?:^|\s)(JobId|JobName|JobState|Reason|Partition|NodeList)=(\S*)")


class Slurm(Finder):
    """The nodes of one job.

    Args:
        job: its id; `123_4` is a task of an array, `123+1` a part of a heterogeneous job.
        fleet: the settings.
        deadline: seconds for scontrol.

    Raises:
        UsageError: the id is not valid.
    """

    def __init__(self, job: str, fleet: Fleet, deadline: float = DEADLINE) -> None:
        if not _JOB.fullmatch(job):
            raise UsageError(f"slurm:{clean(job, 40)} is not a valid job id")
        super().__init__(f"slurm:{job}", fleet.refresh)
        self._job = job
        self._fleet = fleet
        self._deadline = deadline

    async def find(self) -> list[Target]:
        """See `Finder`."""
        nodes: list[str] = []
        facts: dict[str, str] = {}
        pending = ""
        for name, value in _FIELD.findall(await self._show_job()):
            if name == "NodeList" and value not in ("", "(null)"):
                nodes.append(value)
            elif name == "Reason":
                pending = value
            elif name != "NodeList":
                facts.setdefault(name, clean(value, 64))
        state = facts.get("JobState", "")
        if not nodes:
            why = f" ({clean(pending, 64)})" if pending not in ("", "None") else ""
            raise FindError(f"{self.text}: no nodes, its state is {state or 'unknown'}{why}")
        shown = {
            "slurm_job": f"{facts.get('JobId', self._job)} {facts.get('JobName', '')}".strip(),
            "slurm_state": state,
            "slurm_partition": facts.get("Partition", ""),
        }
        try:
            hosts = expand_all(nodes)
            return targets_of(Target("", host_address(host, self._fleet), shown) for host in hosts)
        except UsageError as error:
            raise FindError(f"{self.text}: {error}") from None

    async def _show_job(self) -> str:
        program = shutil.which("scontrol")
        if program is None:
            raise FindError(f"{self.text}: scontrol is not installed, or not on PATH")
        try:
            result = await output([program, "show", "job", self._job], self._deadline)
        except OutputError as error:
            raise FindError(f"{self.text}: scontrol {error}") from None
        except OSError as error:
            raise FindError(f"{self.text}: scontrol: {error.strerror}") from None
        if result.code:
            why = f": {result.error}" if result.error else ""
            raise FindError(f"{self.text}: scontrol {exit_reason(result.code)}{why}")
        return result.data.decode(errors="replace")
