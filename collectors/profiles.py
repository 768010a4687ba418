"""NEFF profiles of this machine, saved by `trntop profile add`."""

import os
from pathlib import Path

import msgspec

from trntop.catalog import PROFILES
from trntop.core.errors import SettingsError
from trntop.core.settings import Collect
from trntop.pipeline import profiles
from trntop.session.collector import Examination
from trntop.sources.profiles import PERIOD

from .local_source import LocalSource
from .polled import AbsentError, Polled

REMEDY = (
    "neuron-explorer view --output-format summary-json, then trntop profile add FILE --neff NAME"
)


class ProfilesReader:
    """Reads the payload of source `profiles`.

    Args:
        path: the file with the profiles.
    """

    PERIOD = PERIOD

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sent = False
        """Whether the last payload had any profiles."""

    def __call__(self) -> bytes:
        """All profiles; empty once after the last one is removed, so that the node drops them.

        Raises:
            AbsentError: there are no profiles, or the file cannot be read.
        """
        try:
            known = profiles.load(self._path)
        except SettingsError as error:
            raise AbsentError(str(error)) from error
        if not known and not self._sent:
            raise AbsentError("no NEFF profiles here", REMEDY)
        self._sent = bool(known)
        return msgspec.json.encode({"period": self.PERIOD, "profiles": known})


def examine(path: Path) -> Examination:
    """Whether there are profiles."""
    try:
        known = profiles.load(path)
    except SettingsError as error:
        return Examination(
            PROFILES, False, str(error), "repair the file, or set another one in collect.profiles"
        )
    if not known:
        return Examination(PROFILES, False, f"no NEFF profiles in {path}", REMEDY)
    count = f"{len(known)} NEFF profile{'s' if len(known) > 1 else ''}"
    return Examination(PROFILES, True, f"{count} in {path}")


def _path(settings: Collect) -> Path:
    return profiles.path_of(settings, os.environ)


LOCAL = LocalSource(
    lambda context: Polled(context.node, PROFILES, ProfilesReader(_path(context.settings)), PERIOD),
    lambda settings: examine(_path(settings)),
)
