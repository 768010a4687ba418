"""Where readings come from: each module one source, or one part that sources share.

`local` makes the collectors of this machine; `simulator` makes readings up.
"""

import os
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from trntop.catalog import (
    EFA_SOURCE,
    HOST,
    JOB_MAPPING,
    KERNEL_LOG,
    LOG,
    NEURON_LS,
    NEURON_MONITOR,
    NEURON_SYSFS,
    POD_RESOURCES,
    PROFILES,
    STEPS,
    TENSOR_ENGINE,
)
from trntop.core.errors import SettingsError
from trntop.core.settings import Collect
from trntop.core.text import clean
from trntop.session.collector import Collector, Finding

EXAMINATION_SECONDS = 15.0
"""How long `examine_all` waits for what may hang."""


def local(node: str, settings: Collect, *, guest: bool = False) -> list[Collector]:
    """The collectors of this machine, without those that the settings disable.

    Args:
        node: name of this machine.
        settings: what is read, where and how often.
        guest: leave what only one can receive to an agent on this machine.

    Raises:
        SettingsError: a pattern of log lines is none, or the root no folder.
    """
    from trntop.pipeline.profiles import path_of
    from trntop.sources import allocations

    from . import job_mapping, pod_resources, training_log
    from .efa import EfaReader
    from .host import HostReader
    from .kernel_log import KernelLog
    from .neuron_ls import NeuronLs
    from .neuron_monitor import NeuronMonitor
    from .neuron_sysfs import NeuronSysfsReader
    from .polled import Polled
    from .profiles import ProfilesReader
    from .steps import StepsCollector
    from .tensor_engine import TensorEngineReader

    if not Path(settings.root).is_dir():
        raise SettingsError(f"collect.root: {clean(settings.root)} is no folder")
    training_log.compile_patterns(settings.log_patterns)
    root, period, slow = Path(settings.root), settings.period, settings.sysfs_period
    host = HostReader(root, settings.compile_cache, period=settings.host_period)
    profiles = ProfilesReader(path_of(settings, os.environ))
    jobs = job_mapping.JobMappingReader(Path(settings.job_mapping))
    pods = pod_resources.PodResourcesReader(Path(settings.pod_resources))
    collectors: list[Collector] = [
        NeuronMonitor(node, settings.neuron_monitor, period),
        # Some of its nodes ask the firmware, which may take its time.
        Polled(node, NEURON_SYSFS, NeuronSysfsReader(root, slow), slow, deadline=slow),
        Polled(node, TENSOR_ENGINE, TensorEngineReader(root), period),
        NeuronLs(node, settings.neuron_ls),
        Polled(node, EFA_SOURCE, EfaReader(root), period),
        StepsCollector(node, _path(settings.steps_socket), settings.steps_files, guest=guest),
        Polled(node, HOST, host, settings.host_period),
        KernelLog(node, root),
        Polled(node, PROFILES, profiles, ProfilesReader.PERIOD),
        Polled(node, JOB_MAPPING, jobs, allocations.PERIOD),
        Polled(
            node,
            POD_RESOURCES,
            pods,
            allocations.PERIOD,
            # It gives up by itself; and a kubelet that restarts is back soon.
            deadline=pod_resources.DEADLINE + 2.0,
            recheck=allocations.PERIOD,
        ),
    ]
    if settings.logs:
        collectors.append(
            training_log.TrainingLog(node, settings.logs, settings.job, settings.log_patterns)
        )
    return [one for one in collectors if one.source not in settings.disabled]


def examine_all(settings: Collect) -> list[Finding]:
    """What can be read on this machine, source by source; all at once, in 15 s at most.

    Raises:
        SettingsError: a pattern of log lines is none.
    """
    from trntop.pipeline.profiles import path_of

    from . import (
        efa,
        host,
        job_mapping,
        kernel_log,
        neuron_examination,
        neuron_ls,
        neuron_sysfs,
        pod_resources,
        profiles,
        steps,
        tensor_engine,
        training_log,
    )

    training_log.compile_patterns(settings.log_patterns)
    root = Path(settings.root)
    looks: dict[str, Callable[[], Finding]] = {
        NEURON_MONITOR: partial(neuron_examination.examine, settings.neuron_monitor, root=root),
        NEURON_SYSFS: partial(neuron_sysfs.examine, root),
        TENSOR_ENGINE: partial(tensor_engine.examine, root),
        NEURON_LS: partial(neuron_ls.examine, settings.neuron_ls),
        EFA_SOURCE: partial(efa.examine, root),
        STEPS: partial(steps.examine, _path(settings.steps_socket), settings.steps_files),
        LOG: partial(training_log.examine, settings.logs, settings.log_patterns),
        HOST: partial(host.examine, root, settings.compile_cache),
        KERNEL_LOG: partial(kernel_log.examine, root),
        PROFILES: partial(profiles.examine, path_of(settings, os.environ)),
        JOB_MAPPING: partial(job_mapping.examine, Path(settings.job_mapping)),
        POD_RESOURCES: partial(pod_resources.examine, Path(settings.pod_resources)),
    }
    return _all_at_once(looks, EXAMINATION_SECONDS)


def _all_at_once(looks: Mapping[str, Callable[[], Finding]], seconds: float) -> list[Finding]:
    """What each look finds; one that hangs in the kernel is given up after `seconds`."""
    found: dict[str, Finding] = {}

    def run(source: str, look: Callable[[], Finding]) -> None:
        try:
            found[source] = look()
        except Exception as error:  # one look must not cost the others
            found[source] = Finding(source, False, f"internal error: {type(error).__name__}")

    threads = [threading.Thread(target=run, args=one, daemon=True) for one in looks.items()]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    hung = f"no answer for {seconds:g} s: a read blocks in the kernel"
    return [found.get(source, Finding(source, False, hung, "look at dmesg")) for source in looks]


def _path(text: str) -> Path | None:
    return Path(text) if text else None
