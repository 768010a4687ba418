"""Grafana's dashboards as the package carries them: JSON to import, made when it was released.

What they are made of is in `tools.dashboards`.
"""

import json
from importlib.resources import files
from pathlib import Path

from trntop.core.errors import UsageError
from trntop.core.suggest import unknown

NAMES = ("cluster", "node", "efa", "job")
"""The dashboards, in the order of looking."""


def read(name: str) -> str:
    """One dashboard as JSON.

    Raises:
        UsageError: there is none of that name.
    """
    if name not in NAMES:
        raise UsageError(unknown("dashboard", name, NAMES))
    return (files("trntop") / "grafana" / f"{name}.json").read_text("utf-8")


def descriptions() -> dict[str, str]:
    """Name → one sentence on what the dashboard shows."""
    return {name: json.loads(read(name))["description"] for name in NAMES}


def write(folder: Path) -> list[Path]:
    """All of them into a folder, which is made if need be, as `trntop-NAME.json`.

    Raises:
        UsageError: the folder cannot be written to.
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
