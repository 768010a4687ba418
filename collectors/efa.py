"""The EFA cards of this machine, for `trntop doctor`."""

from pathlib import Path

from trntop.catalog import EFA_SOURCE
from trntop.collection import Finding
from trntop.text import clean

from .sysfs import first_line

AMAZON = "0x1d0f"
"""PCI vendor; other machines' InfiniBand cards, and NVLink bridges, stand in the same folder."""


def examine(root: Path = Path("/")) -> Finding:
    """Which EFA cards there are; never `ok`, since their counters are not read live yet.

    Args:
        root: where `/sys` hangs.
    """
    folder = root / "sys/class/infiniband"
    cards = sorted(
        clean(card.parent.parent.name)
        for card in folder.glob("*/device/vendor")
        if first_line(card) == AMAZON
    )
    if not cards:
        return Finding(EFA_SOURCE, False, "no EFA card in /sys/class/infiniband")
    shown = ", ".join(cards[:4]) + (", …" if len(cards) > 4 else "")
    driver = first_line(root / "sys/module/efa/version") or "unknown"
    return Finding(
        EFA_SOURCE,
        False,
        f"{len(cards)} EFA card{'s' * (len(cards) > 1)} ({shown}), driver {driver}; reading live"
        " counters from this machine is not part of this version",
        "EFA counters in recordings and simulations are read",
    )
