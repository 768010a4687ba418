"""Saved results of checks, of which one is the next check's baseline.

`trntop/checks` in `$XDG_STATE_HOME` (`~/.local/state`) holds `check-20261121T090000Z.json`, of the
form of `trntop check --json`, without the counters of EFA devices.
"""

import contextlib
import os
import stat
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import msgspec

from trntop.check.model import Inspection, Outcome
from trntop.check.plan import Plan
from trntop.check.result import SCHEMA, Check, NodeInspection
from trntop.core.errors import UsageError
from trntop.core.folders import state_folder

MAX_BYTES = 256 << 20
"""Largest file that is read."""
_PATTERN = "check-*.json"


def folder_of(environ: Mapping[str, str]) -> Path | None:
    """The folder of saved results; None without a home directory."""
    state = state_folder(environ)
    return None if state is None else state / "checks"


def encode(check: Check) -> bytes:
    """The JSON of a check; unknown values are omitted or null."""
    return msgspec.json.encode(check)


def read(path: Path) -> Check:
    """A check from a file.

    Raises:
        UsageError: it cannot be read, or is not a result.
    """
    try:
        with path.open("rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UsageError(f"{path}: not a regular file")
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    try:
        check = msgspec.json.decode(data, type=Check)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UsageError(f"{path} is not a result of trntop check: {error}") from error
    if check.schema != SCHEMA:
        raise UsageError(f"{path} has schema {check.schema}, this trntop reads {SCHEMA}")
    return check


def keep(check: Check, folder: Path, newest: int) -> Path:
    """Writes a result and removes all but the `newest` newest.

    Raises:
        OSError: it cannot be written there.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(check.started))
    path = folder / f"check-{moment}.json"
    unfinished = folder / f".{path.name}.{os.getpid()}"
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(encode(_slim(check)))
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    for old in _files(folder)[newest:]:
        with contextlib.suppress(OSError):  # another check removed it
            old.unlink()
    return path


def baseline(folder: Path, plan: Plan, nodes: Collection[str]) -> Check | None:
    """The newest comparable result, preferably one that passed.

    Comparable: the same probe between mostly the same nodes.
    """
    last = None
    for check in _checks(folder):
        same = {place.node for place in check.places} & set(nodes)
        if _measure(check.plan) != _measure(plan) or 2 * len(same) <= len(nodes):
            continue
        if check.outcome is Outcome.PASS:
            return check
        last = last or check
    return last


def newest(folder: Path) -> Path | None:
    """The file of the newest result, None where there is none."""
    return next(iter(_files(folder)), None)


def _measure(plan: Plan) -> tuple[str, str, int, bool]:
    return plan.spec.tool, plan.spec.provider, plan.spec.size_bytes, plan.per_card


def _files(folder: Path) -> list[Path]:
    """The newest first, by name."""
    return sorted(folder.glob(_PATTERN), reverse=True)


def _checks(folder: Path) -> Iterator[Check]:
    for path in _files(folder):
        with contextlib.suppress(UsageError):  # of an older trntop, or cut off
            yield read(path)


def _slim(check: Check) -> Check:
    """Without the counters of EFA devices, which are most of its size and not compared."""
    looks = [
        NodeInspection(
            node=inspection.node,
            after=_without_counters(inspection.newest) if inspection.newest is not None else None,
            error=inspection.error,
            refused=inspection.refused,
            clock=inspection.clock,
            clock_error=inspection.clock_error,
        )
        for inspection in check.looks
    ]
    return msgspec.structs.replace(check, looks=looks)


def _without_counters(seen: Inspection) -> Inspection:
    cards = [msgspec.structs.replace(card, port={}, device={}) for card in seen.cards or ()]
    return msgspec.structs.replace(seen, cards=None if seen.cards is None else cards)
