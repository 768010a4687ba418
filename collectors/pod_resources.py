"""The Neuron devices of pods, from the kubelet's Unix socket.

Format: https://github.com/kubernetes/kubelet/blob/master/pkg/apis/podresources/v1/api.proto,
decoded without the runtime of Protocol Buffers: the messages only have some strings.
"""

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from trntop.catalog import POD_RESOURCES
from trntop.core.text import clean
from trntop.session.collector import Examination
from trntop.sources.allocations import (
    CORE_RESOURCE,
    DEVICE_RESOURCES,
    DRIVER,
    PERIOD,
    decode_pods,
)

from .grpc_call import call
from .local_source import LocalSource
from .polled import AbsentError, Polled
from .protobuf import WireError, all_of, text_of

METHOD = "/v1.PodResourcesLister/List"
DEADLINE = 10.0
"""Timeout of the kubelet in seconds."""
NO_CLIENT = "the Python package h2 is not installed", ".venv/bin/pip install '.[kubernetes]'"

_RESOURCES = (*DEVICE_RESOURCES, CORE_RESOURCE)


class PodResourcesReader:
    """Reads the payload of source `pod-resources`.

    Args:
        path: the kubelet's socket.
        deadline: its timeout in seconds.
    """

    def __init__(self, path: Path, deadline: float = DEADLINE) -> None:
        self._path = path
        self._deadline = deadline

    def __call__(self) -> bytes:
        """The containers with Neuron devices.

        Raises:
            AbsentError: there is no kubelet, or h2 is missing.
            OSError: there is no usable response.
        """
        try:
            found = stat.S_ISSOCK(self._path.stat().st_mode)
        except (FileNotFoundError, NotADirectoryError):
            found = False
        if not found:
            raise AbsentError(f"no socket {clean(str(self._path))}: no kubelet here")
        try:
            answer = call(self._path, METHOD, self._deadline)
        except ImportError as error:
            raise AbsentError(*NO_CLIENT) from error
        try:
            pods = list(_pods(answer))
        except WireError as error:
            raise OSError(f"the kubelet's response cannot be decoded: {error}") from error
        return msgspec.json.encode({"period": PERIOD, "pods": pods})


def _pods(answer: bytes) -> Iterator[dict[str, Any]]:
    """ListPodResourcesResponse: the pods with Neuron devices."""
    for pod in all_of(answer, 1):
        containers = [_container(content) for content in all_of(pod, 3)]
        held = [content for content in containers if content.keys() - {"name"}]
        if held:
            yield {"namespace": text_of(pod, 2), "name": text_of(pod, 1), "containers": held}


def _container(container: bytes) -> dict[str, Any]:
    """ContainerResources: its Neuron devices."""
    devices = [
        {"resource": resource, "ids": [text.decode(errors="replace") for text in all_of(given, 2)]}
        for given in all_of(container, 2)
        if (resource := text_of(given, 1)) in _RESOURCES
    ]
    claims = [
        {
            "namespace": text_of(given, 3),
            "name": text_of(given, 2),
            "driver": DRIVER,
            "pool": text_of(part, 3),
            "device": text_of(part, 4),
        }
        for given in all_of(container, 5)
        for part in all_of(given, 4)
        if text_of(part, 2) == DRIVER
    ]
    held = {"devices": devices, "claims": claims}
    return {"name": text_of(container, 1)} | {key: value for key, value in held.items() if value}


def examine(path: Path) -> Examination:
    """Whether the kubelet reports allocations."""
    try:
        sample = decode_pods(PodResourcesReader(path)())
    except AbsentError as error:
        remedy = error.remedy or "none without Kubernetes; else mount its directory"
        return Examination(POD_RESOURCES, False, error.found, remedy)
    except PermissionError:
        return Examination(
            POD_RESOURCES, False, f"{clean(str(path))}: no permission", "run as root"
        )
    except OSError as error:
        found = f"{clean(str(path))}: {error.strerror or error}"
        return Examination(POD_RESOURCES, False, found, "check the log of the kubelet")
    held = len(sample.facts["allocations"])
    found = f"{held} container{'s' * (held != 1)} with Neuron devices"
    return Examination(POD_RESOURCES, True, "; ".join([found, *sample.problems]))


LOCAL = LocalSource(
    lambda context: Polled(
        context.node,
        POD_RESOURCES,
        PodResourcesReader(Path(context.settings.pod_resources)),
        PERIOD,
        # The call has its own timeout; a restarted kubelet is back soon.
        deadline=DEADLINE + 2.0,
        retry_interval=PERIOD,
    ),
    lambda settings: examine(Path(settings.pod_resources)),
)
