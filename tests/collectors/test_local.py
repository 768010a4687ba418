import pkgutil
import time
from importlib import import_module
from pathlib import Path
from threading import Event

import pytest

from tests.fakes import sysfs_tree
from trntop import collectors
from trntop.catalog import HOST, KUBERNETES_NODE
from trntop.collectors.local_source import LocalSource
from trntop.core.errors import SettingsError
from trntop.core.settings import Collect
from trntop.session.collector import Examination
from trntop.sources import BY_NAME, LOCAL_SOURCES


@pytest.fixture
def settings(tmp_path: Path) -> Collect:
    """A machine with two Neuron devices and two EFA devices, and no program installed."""
    sysfs_tree.neuron_tree(tmp_path, devices=2, cores=2)
    sysfs_tree.efa_tree(tmp_path, count=2)
    (tmp_path / "proc").symlink_to("/proc")
    return Collect(
        root=str(tmp_path),
        neuron_monitor="no-such-neuron-monitor",
        neuron_ls="no-such-neuron-ls",
        steps_socket=str(tmp_path / "steps.sock"),
        profiles=str(tmp_path / "profiles.json"),
        job_mapping=str(tmp_path / "jobs"),
        pod_resources=str(tmp_path / "kubelet.sock"),
        logs=(str(tmp_path / "*.log"),),
    )


def test_a_machine_has_every_source(settings: Collect) -> None:
    # The labels of a node are read in a pod that may.
    everything = {*LOCAL_SOURCES} - {KUBERNETES_NODE}
    assert {collector.source for collector in collectors.local("n", settings)} == everything


def test_a_disabled_source_is_left_out() -> None:
    made = collectors.local("n", Collect(disabled=(HOST,)))
    assert HOST not in {collector.source for collector in made}


def test_a_bad_pattern_is_named() -> None:
    with pytest.raises(SettingsError, match=r"\(\?P<step"):
        collectors.local("n", Collect(logs=("x.log",), log_patterns=("(?P<step",)))


def test_the_examination_reports_what_each_source_lacks(settings: Collect) -> None:
    findings = {finding.source: finding for finding in collectors.examine_all(settings)}
    assert tuple(findings) == LOCAL_SOURCES
    assert findings["efa"].ok
    assert findings["neuron-sysfs"].ok
    for source in (
        "neuron-monitor", "neuron-ls", "log", "profiles", "job-mapping", "pod-resources",
    ):  # fmt: skip
        assert not findings[source].ok
        assert findings[source].remedy


def test_a_poll_that_hangs_is_abandoned(monkeypatch: pytest.MonkeyPatch, settings: Collect) -> None:
    hang = Event()
    monkeypatch.setattr(collectors, "EXAMINATION_SECONDS", 1.0)
    monkeypatch.setattr(
        "trntop.collectors.efa.examine", lambda root: hang.wait() and Examination("efa", True, "")
    )
    started = time.monotonic()
    findings = {finding.source: finding for finding in collectors.examine_all(settings)}
    assert time.monotonic() - started < 10
    assert findings["efa"].found == "no response for 1 s: a read blocks in the kernel"
    hang.set()


def test_each_local_source_has_a_module_and_no_other_module_declares_one() -> None:
    modules = {
        f"trntop.collectors.{module.name}"
        for module in pkgutil.iter_modules(collectors.__path__)
        if not module.ispkg
    }
    declared = {name for name in modules if hasattr(import_module(name), "LOCAL")}
    assert declared == {BY_NAME[name].module for name in LOCAL_SOURCES}
    for name in LOCAL_SOURCES:
        assert isinstance(collectors.local_source(BY_NAME[name]), LocalSource)
