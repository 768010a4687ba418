"""EFA cards: their counters in `/sys/class/infiniband`.

Sources: the EFA driver (efa_verbs.c, efa_sysfs.c) and the kernel's core/sysfs.c. Reading a
port's counters costs the card four or five admin commands, at most once in 10 ms; the device's
own counters cost none. `state` is hard-coded ACTIVE in the driver: a dead card shows by
vanishing, or by reads that fail.
"""

import contextlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from trntop.catalog import EFA_DEVICE_COUNTERS, EFA_PORT_COUNTERS, EFA_SOURCE, Entity
from trntop.core.versions import numbers
from trntop.session.collector import Examination
from trntop.sources import efa

from . import sysfs
from .local_source import LocalSource
from .polled import AbsentError, Polled
from .sysfs import Entry, Files, Readable, Root, files_of, first_line, line_of

FOLDER = "sys/class/infiniband"
VERSION = "sys/module/efa/version"
AMAZON = "0x1d0f"
"""PCI vendor; other machines' InfiniBand cards, and NVLink bridges, stand in the same folder."""
EFA_DEVICES = "0xefa"
"""What the PCI device ids of EFA cards begin with: 0xefa0 to 0xefa4 so far."""
MAX_CARDS = 256
MAX_ERRORS = 4
"""Unreadable counters of a card that are named."""
SPLIT = (1, 14)
"""Since this driver the device's own counters have a folder of their own."""

_KNOWN = EFA_PORT_COUNTERS.keys() | EFA_DEVICE_COUNTERS.keys()
DRIVER_REMEDY = "load the EFA driver (modprobe efa), on an instance with EFA attached"


@dataclass
class _Card:
    """What was found of a card, until its folder is another one."""

    folder: int
    """The folder's inode number, which a card that comes back does not get again."""
    facts: dict[str, Any] = field(default_factory=dict)
    texts: dict[str, Readable] = field(default_factory=dict)
    counters: dict[str, tuple[tuple[str, str, Readable], ...]] = field(default_factory=dict)
    """Place (`port`, `device`) → name, path below the card's folder, and file of each counter."""

    def outdated(self, folder: int) -> bool:
        """Whether to look again: it is another card, or was just being set up."""
        return self.folder != folder or not any(self.counters.values())


class EfaReader:
    """Gives the payload of source `efa`; call it from one thread only.

    Args:
        root: where `/sys` hangs.
    """

    def __init__(self, root: Root = Path("/")) -> None:
        self._files = files_of(root)
        self._cards: dict[str, _Card | None] = {}
        """By name; None for what is no EFA card."""
        self._seen = False

    def __call__(self) -> bytes:
        """One reading of all cards.

        Raises:
            AbsentError: there is no card, and there was none before.
        """
        cards = self._look()
        if not cards and not self._seen:
            raise AbsentError("no EFA card in /sys/class/infiniband", DRIVER_REMEDY)
        self._seen = True
        driver = line_of(self._files, VERSION) or None
        devices = {name: _read(card) for name, card in cards.items()}
        return msgspec.json.encode({"driver": driver, "devices": devices})

    def _look(self) -> dict[str, _Card]:
        """The cards that are there now."""
        try:
            entries = self._files.entries(FOLDER)
            found = sorted(entry.name for entry in entries if entry.name.isascii())
        except FileNotFoundError:
            found = []
        except OSError as error:
            raise AbsentError(f"/{FOLDER} cannot be listed: {error.strerror}") from None
        known, self._cards = self._cards, {}
        for name in found[:MAX_CARDS]:
            card = known.get(name)
            try:
                inode = self._files.inode(f"{FOLDER}/{name}")
            except OSError:
                continue  # it went while we looked
            if name not in known or (card is not None and card.outdated(inode)):
                card = _find(self._files, f"{FOLDER}/{name}", inode)
            self._cards[name] = card
        return {name: card for name, card in self._cards.items() if card is not None}


def _find(files: Files, folder: str, inode: int) -> _Card | None:
    """The card in `folder`, None when it is no EFA card."""
    device = f"{folder}/device"
    model = line_of(files, f"{device}/device")
    if line_of(files, f"{device}/vendor") != AMAZON or not model.startswith(EFA_DEVICES):
        return None
    card = _Card(inode, {"pci": _pci(files, device)})
    with contextlib.suppress(ValueError):
        card.facts["numa_node"] = int(line_of(files, f"{device}/numa_node"))
    port = min(
        (
            one.name
            for one in _listed(files, f"{folder}/ports")
            if _listed(files, f"{folder}/ports/{one.name}/hw_counters")
        ),
        key=lambda name: (len(name), name),
        default="1",
    )
    for place, path in (("port", f"ports/{port}/hw_counters"), ("device", "hw_counters")):
        card.counters[place] = tuple(
            (name, f"{path}/{name}", files.held(f"{folder}/{path}/{name}"))
            for name in sorted(one.name for one in _listed(files, f"{folder}/{path}"))
            if name in _KNOWN  # `lifespan` stands there too, and is none
        )
    provider = "p2p" if any(one.name == "p2p" for one in _listed(files, device)) else "gdr"
    for name, path in (
        ("rate", f"{folder}/ports/{port}/rate"),
        ("state", f"{folder}/ports/{port}/state"),
        ("p2p", f"{device}/{provider}"),
    ):
        card.texts[name] = files.held(path)
    return card


def _listed(files: Files, folder: str) -> list[Entry]:
    try:
        return files.entries(folder)
    except OSError:
        return []


def _pci(files: Files, device: str) -> str | None:
    """The PCI address of the card."""
    try:
        for line in sysfs.text(files.read(f"{device}/uevent")).splitlines():
            key, _, value = line.partition("=")
            if key == "PCI_SLOT_NAME":
                return value.strip()
    except OSError:
        pass
    return files.target(device) or None


def _read(card: _Card) -> dict[str, Any]:
    """One card's part of the payload."""
    result: dict[str, Any] = dict(card.facts)
    for name, file in card.texts.items():
        try:
            result[name] = sysfs.text(file.read())
        except OSError:
            continue  # older drivers lack it
    if rate := _gigabits(result.pop("rate", "")):
        result["rate_gbps"] = rate
    errors: list[str] = []
    read = failed = 0
    for place, counters in card.counters.items():
        values = result[place] = {}
        for name, path, file in counters:
            try:
                values[name] = sysfs.number(file.read())
                read += 1
            except (OSError, ValueError) as error:
                failed += 1
                if failed <= MAX_ERRORS:
                    errors.append(f"{path}: {sysfs.reason(error)}")
    if not read:
        result["error"] = errors[0] if errors else "it shows no counters"
    elif failed:
        more = [f"and {failed - MAX_ERRORS} more counters"] if failed > MAX_ERRORS else []
        result["errors"] = errors + more
    return result


def _gigabits(rate: str) -> float | None:
    """Gb/s of `200 Gb/sec (4X HDR)`; None when it is written otherwise."""
    amount, _, unit = rate.partition(" ")
    try:
        return float(amount) if unit.startswith("Gb/sec") else None
    except ValueError:
        return None


def examine(root: Path = Path("/")) -> Examination:
    """Which EFA cards there are, and whether their counters can be read.

    Args:
        root: where `/sys` hangs.
    """
    try:
        sample = efa.decode(EfaReader(root)())
    except AbsentError as error:
        return Examination(EFA_SOURCE, False, error.found, error.remedy)
    cards = [str(card) for card in sample.keys[Entity.EFA]]
    shown = ", ".join(cards[:4]) + (", …" if len(cards) > 4 else "")
    driver = first_line(root / VERSION) or "unknown"
    found = f"{len(cards)} EFA card{'s' * (len(cards) > 1)} ({shown}), driver {driver}"
    if sample.problems:
        found += f"; {sample.problems[0]}"
        if len(sample.problems) > 1:
            found += f", and {len(sample.problems) - 1} more"
        remedy = "look at dmesg; permission problems: run trntop as a user who may read /sys"
        return Examination(EFA_SOURCE, False, found, remedy)
    lacks = [
        text
        for column, text in (
            ("efa_retrans_pkts_total", "the SRD counters (2.17.0)"),
            ("efa_stated_link_bytes_per_second", "a line rate that can be trusted (2.13.0)"),
        )
        if column not in sample.columns
    ]
    if driver != "unknown" and numbers(driver) < SPLIT:
        found += "; its device counters stand among the port's, as before 1.14.0"
    if lacks:
        found += f"; this driver lacks {' and '.join(lacks)}"
    return Examination(EFA_SOURCE, True, found, "update the EFA driver" if lacks else "")


LOCAL = LocalSource(
    lambda context: Polled(
        context.node, EFA_SOURCE, EfaReader(context.root), context.settings.period
    ),
    lambda settings: examine(Path(settings.root)),
)
