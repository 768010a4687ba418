"""The user's directories."""

from collections.abc import Mapping
from pathlib import Path


def user_folder(environ: Mapping[str, str], variable: str, below_home: str) -> Path | None:
    """Trntop's directory in the one that an XDG variable names, or in a default one.

    None without a home directory.
    """
    folder = environ.get(variable, "")
    # The XDG specification ignores relative paths.
    if not folder.startswith("/"):
        folder = f"{environ['HOME']}/{below_home}" if environ.get("HOME") else ""
    return Path(folder, "trntop") if folder else None


def state_folder(environ: Mapping[str, str]) -> Path | None:
    """Directory of files that trntop keeps between runs."""
    return user_folder(environ, "XDG_STATE_HOME", ".local/state")
