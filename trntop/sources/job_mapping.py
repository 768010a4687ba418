"""The scheduler's allocation of the node or its devices to jobs."""

from trntop.catalog import JOB_MAPPING
from trntop.sources.allocations import decode_jobs
from trntop.sources.source import Role, Source

SOURCE = Source(
    name=JOB_MAPPING,
    decode=decode_jobs,
    role=Role.SCHEDULER,
    gives="the job to which a scheduler such as Slurm allocated the node or its devices",
    origin="files in the directory that the setting `collect.job_mapping` names, one for each "
    "Neuron device index, or `all`, with a job id a line: the form of dcgm-exporter's "
    "`--hpc-job-mapping-dir`",
    needs="a prolog and an epilog of the scheduler that write and remove them (deploy/slurm)",
    without="a free node cannot be distinguished from one that is allocated and idle",
)
