"""Profiles of NEFFs: what one execution of a compiled program does on one core.

They come from summaries of neuron-explorer (`view --output-format summary-json`), or of
neuron-profile before it, and are kept in a JSON file of the form of source `profiles`.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import msgspec

from trntop.core.errors import DecodeError, SettingsError, UsageError
from trntop.core.folders import user_folder
from trntop.core.model import Neff, NeffProfile
from trntop.core.settings import Collect
from trntop.core.text import clean
from trntop.sources import profiles as decoder
from trntop.sources import tolerant
from trntop.sources.columns import SIZE

MAX_BYTES = 4 << 20
"""Size of the file of profiles, and of a summary."""
MAX_SECONDS = 600.0
"""No execution of a NEFF lasts longer; a larger number is in another unit."""

_DEPTH = 3
"""Objects and lists around a summary."""

_NAMES = ("neff", "neff_name")
_UUIDS = ("uuid", "neff_uuid")


def find(profiles: Iterable[NeffProfile], neff: Neff) -> NeffProfile | None:
    """The profile of a program: the one of its uuid, else the one of its file name.

    Where both uuids are known and differ, equal names mean nothing: caches are full of files
    called `model.neff`.
    """
    by_name = None
    for profile in profiles:
        if neff.uuid and profile.uuid:
            if profile.uuid == neff.uuid:
                return profile
        elif neff.name and profile.name == neff.name:
            by_name = by_name or profile
    return by_name


# The file that keeps them


class _Store(msgspec.Struct):
    profiles: Any = None


_stores = msgspec.json.Decoder(_Store)


def path_of(settings: Collect, environ: Mapping[str, str]) -> Path:
    """The file that the settings name, else the default one."""
    return Path(settings.profiles).expanduser() if settings.profiles else default_path(environ)


def default_path(environ: Mapping[str, str]) -> Path:
    """`trntop/profiles.json` in `$XDG_DATA_HOME`, else `~/.local/share`, else `/var/lib`."""
    folder = user_folder(environ, "XDG_DATA_HOME", ".local/share") or Path("/var/lib/trntop")
    return folder / "profiles.json"


def load(path: Path) -> tuple[NeffProfile, ...]:
    """The profiles kept in a file; none where there is no file.

    Raises:
        SettingsError: it cannot be read; names the file and the reason.
    """
    try:
        data = _read(path)
        sample = decoder.decode(data)
        # Other JSON would pass for an empty store, and be overwritten by the next profile.
        if tolerant.decode(data, _stores)[0].profiles is None:
            raise DecodeError("not a file of profiles: no `profiles` in it")
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from error
    except DecodeError as error:
        raise SettingsError(f"{path}: {error}") from error
    if sample.problems:
        raise SettingsError(f"{path}: {sample.problems[0]}")
    profiles: tuple[NeffProfile, ...] = sample.facts["profiles"]
    return profiles


def add(path: Path, profile: NeffProfile, *, make_folder: bool = False) -> NeffProfile | None:
    """Keeps a profile, in the place of one of the same program; returns that one.

    Args:
        path: the file, made where there is none.
        profile: what to keep.
        make_folder: makes its folder too; for the default path, which cannot be mistyped.

    Raises:
        SettingsError: the file cannot be read or written, is full, or has no folder.
    """
    known = load(path)
    former = next((entry for entry in known if _same(entry, profile)), None)
    kept = [entry for entry in known if entry is not former]
    if len(kept) >= decoder.MAX_PROFILES:
        raise SettingsError(f"{path}: holds {len(kept):,} profiles; remove some first")
    if not (make_folder or path.parent.is_dir()):
        raise SettingsError(f"{path}: directory {path.parent} does not exist")
    _write(path, [*kept, profile])
    return former


def remove(path: Path, name: str) -> NeffProfile:
    """Removes the profile of this name or uuid, and returns it.

    Raises:
        UsageError: there is none.
        SettingsError: the file cannot be read or written.
    """
    known = load(path)
    gone = next((entry for entry in known if name and name in (entry.name, entry.uuid)), None)
    if gone is None:
        names = ", ".join(entry.name or entry.uuid for entry in known[:8])
        names += ", …" if len(known) > 8 else ""
        raise UsageError(f"{path}: no profile of {clean(name)}; it holds {names or 'none'}")
    _write(path, [entry for entry in known if entry is not gone])
    return gone


def _same(entry: NeffProfile, other: NeffProfile) -> bool:
    """Whether two profiles are of one program, as `find` would take them."""
    if entry.uuid and other.uuid:
        return entry.uuid == other.uuid
    return bool(entry.name) and entry.name == other.name


def _read(path: Path) -> bytes:
    # Looked at before it is opened: opening a FIFO would wait for a writer.
    if path.exists() and not path.is_file():
        raise DecodeError("not a regular file")
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise DecodeError(f"larger than {MAX_BYTES >> 20} MiB")
    return data


def _write(path: Path, profiles: Iterable[NeffProfile]) -> None:
    """Replaces the file as a whole, readable by its owner only."""
    text = msgspec.json.format(msgspec.json.encode({"profiles": tuple(profiles)}))
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            with open(draft, "xb", opener=_private) as file:
                file.write(text + b"\n")
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise SettingsError(f"{path}: cannot be written: {error.strerror}") from error


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


# Summaries


@dataclass(frozen=True, slots=True)
class Summary:
    """A profiler's summary of one program."""

    profile: NeffProfile
    named: bool
    """Whether the file or the user names its program."""
    cores: int
    """How many cores' summaries it is the mean of."""


class _Figures(msgspec.Struct):
    hbm_read_bytes: float
    hbm_write_bytes: float
    total_time: float | None = None
    cc_op_active_time: float | None = None


def read_summary(path: Path, name: str = "", uuid: str = "") -> Summary:
    """A summary-json file as the profile of one program.

    The summary may be the object itself, under `summary` or the ids of cores, or in a list of
    these. Of several cores, the mean is taken. Times are seconds.

    Args:
        path: the file.
        name: of the NEFF; else as in the file, else, without a uuid, the file's own name.
        uuid: of the NEFF; else as in the file.

    Raises:
        DecodeError: it cannot be used; names the file, the field and the reason.
    """
    try:
        found = list(_summaries(msgspec.json.decode(_read(path)), _DEPTH))
        if not found:
            raise DecodeError("no summary of a profile: no `hbm_read_bytes` in it")
        figures = [_checked(summary) for summary in found]
    except OSError as error:
        raise DecodeError(f"{path}: {error.strerror}") from error
    except DecodeError as error:
        raise DecodeError(f"{path}: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(f"{path}: not JSON: {clean(str(error))}") from None
    name = name or _text(found[0], _NAMES)
    uuid = uuid or _text(found[0], _UUIDS)
    guess = "" if uuid else path.name.removesuffix(".json")
    profile = NeffProfile(
        name=clean(PurePath(name).name or guess),
        uuid=clean(uuid, 64),
        hbm_read_bytes=sum(entry.hbm_read_bytes for entry in figures) / len(figures),
        hbm_write_bytes=sum(entry.hbm_write_bytes for entry in figures) / len(figures),
        seconds=_mean([entry.total_time for entry in figures]),
        comm_seconds=_mean([entry.cc_op_active_time for entry in figures]),
    )
    return Summary(profile, bool(name or uuid), len(figures))


def _summaries(tree: Any, depth: int) -> Iterator[dict[str, Any]]:
    """The objects with a summary's fields, each with the names around it."""
    if isinstance(tree, dict) and "hbm_read_bytes" in tree:
        yield tree
        return
    names: dict[str, Any] = {}
    children: Iterable[Any] = ()
    if isinstance(tree, dict):
        names = {key: tree[key] for key in (*_NAMES, *_UUIDS) if key in tree}
        children = tree.values()
    elif isinstance(tree, list):
        children = tree
    for child in children if depth else ():
        for summary in _summaries(child, depth - 1):
            yield names | summary


def _checked(summary: dict[str, Any]) -> _Figures:
    known = {key: summary[key] for key in _Figures.__struct_fields__ if key in summary}
    try:
        figures = msgspec.convert(known, _Figures, strict=False)
    except msgspec.ValidationError as error:
        raise DecodeError(clean(str(error))) from None
    for field in ("hbm_read_bytes", "hbm_write_bytes"):
        if not 0 <= getattr(figures, field) <= SIZE.limit:
            raise DecodeError(f"{field}: {getattr(figures, field):g} is not a number of bytes")
    seconds, comm = figures.total_time, figures.cc_op_active_time
    if seconds is not None and not 0 < seconds <= MAX_SECONDS:
        raise DecodeError(f"total_time: {seconds:g} is not the time of one execution in seconds")
    if comm is not None and not 0 <= comm <= (seconds or MAX_SECONDS):
        raise DecodeError(f"cc_op_active_time: {comm:g} s is not within total_time")
    return figures


def _text(summary: dict[str, Any], keys: tuple[str, ...]) -> str:
    texts = (summary.get(key) for key in keys)
    return next((text for text in texts if text and isinstance(text, str)), "")


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
