"""The Grafana dashboards in the package: JSON files made by `tools.dashboards`."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from trntop.core.errors import UsageError
from trntop.core.settings import Analysis

NAMES = ("cluster", "node", "efa", "job")
WARNING, CRITICAL = "orange", "red"
LIMITS = {
    "comm_share": WARNING,
    "exposed_comm_share": CRITICAL,
    "memory": WARNING,
    "retransmits": WARNING,
}
"""Settings whose values are thresholds of panels → the color above them."""


def read(name: str) -> str:
    """One dashboard as JSON."""
    return (files("trntop") / "grafana" / f"{name}.json").read_text("utf-8")


def descriptions() -> dict[str, str]:
    """Name → description."""
    return {name: json.loads(read(name))["description"] for name in NAMES}


def write(folder: Path, limits: Analysis) -> list[Path]:
    """Writes all dashboards to a directory as `trntop-NAME.json`; creates it if missing.

    The thresholds of the panels are the limits in force.

    Raises:
        UsageError: the directory cannot be written.
    """
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in NAMES:
            path = folder / f"trntop-{name}.json"
            board = json.loads(read(name), object_hook=lambda made: _in_force(made, limits))
            path.write_text(encode(board), "utf-8")
            written.append(path)
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}") from error
    return written


def encode(board: object, cls: type[json.JSONEncoder] | None = None) -> str:
    return json.dumps(board, cls=cls, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _in_force(made: dict[str, Any], limits: Analysis) -> dict[str, Any]:
    """Replaces the default of a limit in a step of a threshold by the limit in force."""
    usual = Analysis()
    for name, color in LIMITS.items():
        if made == {"color": color, "value": getattr(usual, name)}:
            return {"color": color, "value": getattr(limits, name)}
    return made
