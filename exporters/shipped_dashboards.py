"""The Grafana dashboards in the package: JSON files made by `tools.dashboards`."""

import json
from importlib.resources import files
from pathlib import Path

from trntop.core.errors import UsageError

NAMES = ("cluster", "node", "efa", "job")


def read(name: str) -> str:
    """One dashboard as JSON."""
    return (files("trntop") / "grafana" / f"{name}.json").read_text("utf-8")


def descriptions() -> dict[str, str]:
    """Name → description."""
    return {name: json.loads(read(name))["description"] for name in NAMES}


def write(folder: Path) -> list[Path]:
    """Writes all dashboards to a directory as `trntop-NAME.json`; creates it if missing.

    Raises:
        UsageError: the directory cannot be written.
    """
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in NAMES:
            path = folder / f"trntop-{name}.json"
            path.write_text(read(name), "utf-8")
            written.append(path)
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}") from error
    return written
