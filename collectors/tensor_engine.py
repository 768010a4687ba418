"""Tensor-engine cycle counters of Neuron cores, from the driver's sysfs tree (`pe_cntrs`).

The driver reads the hardware at each read of a file. Source: the Neuron driver (neuron_dhal_vc.c),
which has the counters since 2.24.7.
"""

from pathlib import Path

import msgspec

from trntop.catalog import TENSOR_ENGINE, Entity
from trntop.session.collector import Examination
from trntop.sources import tensor_engine

from . import sysfs
from .local_source import LocalSource
from .neuron_tree import GONE, TENSOR_ENGINE_ATTRIBUTES, Device, Tree
from .polled import AbsentError, Polled
from .sysfs import Files, Root, files_of

MAX_ERRORS = 8
"""Unreadable cores that are listed."""
UPDATE = "update aws-neuronx-dkms to 2.24.7 or newer"


class TensorEngineReader:
    """Reads the payload of source `tensor-engine`; call it from one thread only.

    Args:
        root: directory of `/sys`.
    """

    def __init__(self, root: Root = Path("/")) -> None:
        self._files = files_of(root)
        self._tree = Tree(self._files, {}, TENSOR_ENGINE_ATTRIBUTES)
        self._cores: dict[int, _Cores] = {}

    def __call__(self) -> bytes:
        """One reading of all cores.

        Raises:
            AbsentError: there is no device, or none with these counters.
        """
        tree = self._tree
        tree.update()
        if not any(device.attributes for device in tree.devices.values()):
            raise AbsentError(
                f"driver {tree.driver or 'of unknown version'} has no tensor-engine"
                " counters (pe_cntrs)",
                UPDATE,
            )
        known, self._cores = self._cores, {}
        for index, device in tree.devices.items():
            cores = known.get(index)
            if cores is None or cores.device is not device:
                cores = _Cores(self._files, device)
            self._cores[index] = cores
        errors: list[str] = []
        devices = {
            str(index): cores.lost(errors) if index in tree.gone else cores.read(errors)
            for index, cores in self._cores.items()
        }
        return msgspec.json.encode({"devices": devices, "errors": errors[:MAX_ERRORS]})


class _Cores:
    def __init__(self, files: Files, device: Device) -> None:
        self.device = device
        self._files = {
            attribute.core: files.keep_open(f"{device.folder}/{attribute.path}")
            for attribute in device.attributes
        }

    def read(self, errors: list[str]) -> dict[str, str | None]:
        """The text of each core; None if it cannot be read."""
        texts = self._blank()
        for core, file in self._files.items():
            try:
                texts[str(core)] = sysfs.text(file.read())
            except OSError as error:
                errors.append(f"neuron{self.device.index}/neuron_core{core}: {sysfs.reason(error)}")
        return texts

    def lost(self, errors: list[str]) -> dict[str, str | None]:
        """The cores of a lost device, without values."""
        self._files.clear()
        errors.append(f"neuron{self.device.index}: {GONE}")
        return self._blank()

    def _blank(self) -> dict[str, str | None]:
        return dict.fromkeys(map(str, self.device.cores))


def examine(root: Path = Path("/")) -> Examination:
    """Whether the counters can be read.

    Args:
        root: directory of `/sys`.
    """
    try:
        sample = tensor_engine.decode(TensorEngineReader(root)())
    except AbsentError as error:
        return Examination(TENSOR_ENGINE, False, error.found, error.remedy)
    cores = len(sample.keys[Entity.PHYSICAL_CORE])
    readable = "physical_core_tensor_engine_idle_cycles_total" in sample.columns
    found = f"tensor-engine counters of {cores} physical cores"
    if sample.problems:
        found += f"; {sample.problems[0]}"
    return Examination(
        TENSOR_ENGINE, readable, found, "" if readable else "run trntop as a user who can read /sys"
    )


LOCAL = LocalSource(
    lambda context: Polled(
        context.node, TENSOR_ENGINE, TensorEngineReader(context.root), context.settings.period
    ),
    lambda settings: examine(Path(settings.root)),
)
