"""Directories of the user."""

from collections.abc import Mapping
from pathlib import Path


def state_folder(environ: Mapping[str, str]) -> Path | None:
    """`trntop` in `$XDG_STATE_HOME` (`~/.local/state`); None without a home directory."""
    folder = environ.get("XDG_STATE_HOME", "")
    # The XDG specification ignores relative paths.
    if not folder.startswith("/"):
        folder = f"{environ['HOME']}/.local/state" if environ.get("HOME") else ""
    return Path(folder, "trntop") if folder else None
