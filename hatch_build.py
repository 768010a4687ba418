"""Refuses an editable install from a checkout that has lost its symbolic links.

A wheel needs no links. An editable install imports from the checkout, where `trntop/tui` and its
siblings are links; Git writes text files instead where `core.symlinks` is false, and some archives
and copies do as well.
"""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LINKS = ("tui", "collectors", "exporters", "runbooks", "grafana")


class CheckLinks(BuildHookInterface):  # type: ignore[type-arg]
    """Runs before each build of a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """See `BuildHookInterface`; `version` is `editable` or `standard`."""
        package = Path(self.root, "trntop")
        lost = [f"trntop/{name}" for name in LINKS if not (package / name).is_dir()]
        if version == "editable" and lost:
            raise RuntimeError(
                f"{', '.join(lost)}: not symbolic links. In a Git checkout, run "
                "`git config core.symlinks true && git checkout -- trntop`; "
                "or install without --editable, which needs no links"
            )
