"""NEFF profiles that `trntop profile add` keeps on this machine."""

from pathlib import Path

import msgspec

from trntop.catalog import PROFILES
from trntop.core.errors import SettingsError
from trntop.pipeline import profiles
from trntop.session.collector import Finding
from trntop.sources.profiles import PERIOD

from .polled import AbsentError

REMEDY = (
    "neuron-explorer view --output-format summary-json, then trntop profile add FILE --neff NAME"
)


class ProfilesReader:
    """Gives the payload of source `profiles`.

    Args:
        path: the file that keeps them.
    """

    PERIOD = PERIOD

    def __init__(self, path: Path) -> None:
        self._path = path
        self._given = False
        """Whether the last payload had profiles in it."""

    def __call__(self) -> bytes:
        """All profiles; once empty when the last of them went, so that the node forgets them.

        Raises:
            AbsentError: there is none, or the file cannot be read.
        """
        try:
            known = profiles.load(self._path)
        except SettingsError as error:
            raise AbsentError(str(error)) from error
        if not known and not self._given:
            raise AbsentError("no NEFF profiles here", REMEDY)
        self._given = bool(known)
        return msgspec.json.encode({"period": self.PERIOD, "profiles": known})


def examine(path: Path) -> Finding:
    """Whether there are profiles."""
    try:
        known = profiles.load(path)
    except SettingsError as error:
        return Finding(
            PROFILES, False, str(error), "mend the file, or name another in collect.profiles"
        )
    if not known:
        return Finding(PROFILES, False, f"no NEFF profiles in {path}", REMEDY)
    count = f"{len(known)} NEFF profile{'s' if len(known) > 1 else ''}"
    return Finding(PROFILES, True, f"{count} in {path}")
