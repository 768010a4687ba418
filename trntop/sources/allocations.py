"""Allocations of parts of a node: to jobs of a scheduler such as Slurm, and to Kubernetes' pods.

    job-mapping    {"period", "files": {"0": ["4711"], "all": ["4712"]}, "errors": […]}
    pod-resources  {"period", "pods": [{"namespace", "name", "containers": [{"name",
                    "devices": [{"resource", "ids": […]}],
                    "claims": [{"namespace", "name", "driver", "pool", "device"}]}]}]}

Files have the form of dcgm-exporter's HPC job mapping: one for each
device index, with a job id a line; `all` is every device. Pods are as the kubelet's PodResources
API v1 lists them. Ids of AWS's device plugin are the flat indices by which neuron-monitor counts
devices and logical cores: CloudWatch's agent matches the two as they are.
"""

import re
from collections.abc import Iterable

import msgspec

from trntop.core.model import Allocation, Sample
from trntop.core.text import clean
from trntop.sources import tolerant
from trntop.sources.columns import SECONDS

PERIOD = 10.0
"""Seconds, where the payload does not state it."""
ALL = "all"
"""Name of the file for all devices."""
DEVICE_RESOURCES = ("aws.amazon.com/neuron", "aws.amazon.com/neurondevice")
"""The current name, and the one before 2024."""
CORE_RESOURCE = "aws.amazon.com/neuroncore"
DRIVER = "neuron.aws.com"
"""Of dynamic resource allocation; its devices are called `neurondevice3`."""
MAX_INDEX = 4096
MAX_HOLDERS = 256
"""Jobs or containers read of one payload."""
MAX_NAME = 64
MAX_POD_NAME = 253
"""Kubernetes allows as many."""
MAX_PROBLEMS = 16

_ID = re.compile(r"(?:neuron(?:device|core)?[-_]?)?([0-9]{1,4})")


class _Jobs(msgspec.Struct, gc=False):
    period: float = PERIOD
    files: dict[str, list[str]] = {}
    errors: list[str] = []


class _Devices(msgspec.Struct, gc=False):
    resource: str = ""
    ids: list[str] = []


class _Claim(msgspec.Struct, gc=False):
    namespace: str = ""
    name: str = ""
    driver: str = ""
    device: str = ""


class _Container(msgspec.Struct, gc=False):
    name: str = ""
    devices: list[_Devices] = []
    claims: list[_Claim] = []


class _Pod(msgspec.Struct, gc=False):
    namespace: str = ""
    name: str = ""
    containers: list[_Container] = []


class _Pods(msgspec.Struct, gc=False):
    period: float = PERIOD
    pods: list[_Pod] = []


_jobs_decoder = msgspec.json.Decoder(_Jobs)
_pods_decoder = msgspec.json.Decoder(_Pods)


def decode_jobs(data: bytes) -> Sample:
    """The jobs that the node or its devices are allocated to.

    Raises:
        DecodeError: the payload is not a JSON object of this kind.
    """
    mapping, found = tolerant.decode(data, _jobs_decoder)
    problems = [*found, *map(clean, mapping.errors)]
    devices: dict[str, set[int]] = {}
    whole: set[str] = set()
    for name, lines in mapping.files.items():
        index = None if name == ALL else index_of(name)
        if name != ALL and index is None:
            problems.append(f"{clean(name, MAX_NAME)}: not a device index or `{ALL}`")
            continue
        for line in lines:
            if not (job := clean(line.strip(), MAX_NAME)):
                continue
            held = devices.setdefault(job, set())
            if index is None:
                whole.add(job)
            else:
                held.add(index)
    return _sample(
        [
            Allocation(job, devices=tuple(sorted(held)), whole=job in whole)
            for job, held in sorted(devices.items())
        ],
        mapping.period,
        problems,
    )


def decode_pods(data: bytes) -> Sample:
    """The containers that Neuron devices or cores are allocated to.

    Raises:
        DecodeError: the payload is not a JSON object of this kind.
    """
    listed, found = tolerant.decode(data, _pods_decoder)
    problems = [*found]
    allocations = []
    for pod in listed.pods:
        for container in pod.containers:
            devices, cores = set[int](), set[int]()
            claim = ""
            for held in container.devices:
                if held.resource in DEVICE_RESOURCES:
                    devices |= _indices(held.ids, problems)
                elif held.resource == CORE_RESOURCE:
                    cores |= _indices(held.ids, problems)
            for given in container.claims:
                if given.driver == DRIVER:
                    devices |= _indices([given.device], problems)
                    claim = claim or clean(f"{given.namespace}/{given.name}")
            if devices or cores:
                allocations.append(
                    Allocation(
                        "",
                        clean(pod.namespace, MAX_NAME),
                        clean(pod.name, MAX_POD_NAME),
                        clean(container.name, MAX_NAME),
                        claim,
                        tuple(sorted(devices)),
                        tuple(sorted(cores)),
                    )
                )
    return _sample(allocations, listed.period, problems)


def index_of(text: str) -> int | None:
    """The index that an id ends in, `3` or `neurondevice3`; None when it is of another form."""
    match = _ID.fullmatch(text)
    index = int(match[1]) if match else MAX_INDEX
    return index if index < MAX_INDEX else None


def _indices(ids: Iterable[str], problems: list[str]) -> set[int]:
    indices = set()
    for text in ids:
        if (index := index_of(text)) is None:
            problems.append(f"{clean(text, MAX_NAME)}: not the index of a Neuron device or core")
        else:
            indices.add(index)
    return indices


def _sample(allocations: list[Allocation], period: float, problems: list[str]) -> Sample:
    if len(allocations) > MAX_HOLDERS:
        problems.append(f"{len(allocations):,} jobs or containers; only {MAX_HOLDERS} are read")
    return Sample(
        facts={"allocations": tuple(allocations[:MAX_HOLDERS])},
        period=period if 0 < period <= SECONDS.limit else PERIOD,
        problems=tuple(problems[:MAX_PROBLEMS]),
    )
