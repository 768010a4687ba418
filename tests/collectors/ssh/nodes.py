"""What is on a node: a small fake tree of sysfs, and the fake programs of the Neuron tools."""

import sys
from pathlib import Path

from tests.fakes import sysfs_tree
from trntop.core.settings import Collect

FAKES = Path(sysfs_tree.__file__).parent


def tree(root: Path) -> None:
    """Two Neuron devices of two cores and two EFA devices; `/proc` is this machine's."""
    sysfs_tree.neuron_tree(root, devices=2, cores=2)
    sysfs_tree.efa_tree(root, count=2)
    for name, text in (("sys_vendor", "Amazon EC2"), ("product_name", "trn2.48xlarge")):
        sysfs_tree.write(root / "sys/class/dmi/id" / name, text)
    (root / "proc").symlink_to("/proc")


def program(folder: Path, name: str, fake: str) -> Path:
    """An executable that runs a fake."""
    path = folder / name
    path.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E {FAKES / fake} "$@"\n')
    path.chmod(0o755)
    return path


def collect(folder: Path, **settings: object) -> Collect:
    """Settings that read a node whose tree and programs are in `folder`."""
    if not (folder / "root").exists():
        tree(folder / "root")
    values = {
        "root": str(folder / "root"),
        "neuron_monitor": str(program(folder, "neuron-monitor", "neuron_monitor.py")),
        "neuron_ls": str(program(folder, "neuron-ls", "neuron_ls.py")),
        **settings,
    }
    return Collect(**values)  # type: ignore[arg-type]
