"""The job to which a scheduler allocated the node or its devices, from files of its prolog.

The format is that of dcgm-exporter's `--hpc-job-mapping-dir`: a file per device index, with one job
id per line. A file `all` applies to every device.
"""

from pathlib import Path

import msgspec

from trntop.catalog import JOB_MAPPING
from trntop.core.text import clean
from trntop.session.collector import Examination
from trntop.sources import allocations
from trntop.sources.allocations import ALL, PERIOD, decode_jobs

from .local_source import LocalSource
from .polled import AbsentError, Polled
from .sysfs import read, reason

MAX_FILES = 256
MAX_JOBS = 64
"""Job ids read per file."""
REMEDY = "have Slurm's prolog write it and its epilog remove it: deploy/slurm"


class JobMappingReader:
    """Reads the payload of source `job-mapping`.

    Args:
        folder: their directory.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self) -> bytes:
        """The content of the files; without files, nothing is allocated.

        Raises:
            AbsentError: the directory does not exist.
            OSError: it cannot be read.
        """
        try:
            names = sorted(entry.name for entry in self._folder.iterdir() if entry.is_file())
        except (FileNotFoundError, NotADirectoryError):
            raise AbsentError(
                f"directory {clean(str(self._folder))} does not exist", REMEDY
            ) from None
        # A prolog writes a temporary file and renames it.
        names = [name for name in names if name == ALL or allocations.index_of(name) is not None]
        files: dict[str, list[str]] = {}
        errors = []
        if len(names) > MAX_FILES:
            errors.append(f"{len(names):,} files; only {MAX_FILES} are read")
        for name in names[:MAX_FILES]:
            try:
                lines = read(str(self._folder / name)).decode(errors="replace").splitlines()
            except FileNotFoundError:
                continue
            except OSError as error:
                errors.append(f"{clean(name)}: {reason(error)}")
                continue
            files[name] = [clean(line.strip()) for line in lines[:MAX_JOBS] if line.strip()]
        return msgspec.json.encode({"period": PERIOD, "files": files, "errors": errors})


def examine(folder: Path) -> Examination:
    """Whether a scheduler reports allocations."""
    try:
        sample = decode_jobs(JobMappingReader(folder)())
    except AbsentError as error:
        return Examination(JOB_MAPPING, False, error.found, error.remedy)
    except OSError as error:
        return Examination(JOB_MAPPING, False, f"{clean(str(folder))}: {reason(error)}", REMEDY)
    jobs = [allocation.holder for allocation in sample.facts["allocations"]]
    held = f"held by {', '.join(jobs[:4])}{', …' * (len(jobs) > 4)}" if jobs else "held by no job"
    return Examination(JOB_MAPPING, True, "; ".join([held, *sample.problems]))


LOCAL = LocalSource(
    lambda context: Polled(
        context.node, JOB_MAPPING, JobMappingReader(Path(context.settings.job_mapping)), PERIOD
    ),
    lambda settings: examine(Path(settings.job_mapping)),
)
