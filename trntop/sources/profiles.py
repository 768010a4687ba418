"""NEFF profiles: `{"period", "profiles": [{"name", "uuid", "hbm_read_bytes", …}]}`.

What one execution of a program does on one core. The file that `trntop profile add` keeps has
the same form.
"""

import msgspec

from trntop.catalog import PROFILES
from trntop.core.model import NeffProfile, Sample
from trntop.core.text import clean
from trntop.sources import tolerant
from trntop.sources.columns import SECONDS, SIZE
from trntop.sources.source import Source

PERIOD = 60.0
"""Seconds, where the payload does not state it."""
MAX_PROFILES = 1024
MAX_PROBLEMS = 16


class _Profile(msgspec.Struct, gc=False):
    name: str = ""
    uuid: str = ""
    hbm_read_bytes: float | None = None
    hbm_write_bytes: float | None = None
    seconds: float | None = None
    comm_seconds: float | None = None


class _Profiles(msgspec.Struct):
    period: float = PERIOD
    profiles: list[_Profile] = []


_decoder = msgspec.json.Decoder(_Profiles)


def decode(data: bytes) -> Sample:
    """What is known of NEFFs.

    Raises:
        DecodeError: the payload is not a JSON object of this kind.
    """
    report, found = tolerant.decode(data, _decoder)
    problems = list(found)
    if len(report.profiles) > MAX_PROFILES:
        problems.append(f"{len(report.profiles):,} profiles; only {MAX_PROFILES:,} are read")
    profiles = []
    for profile in report.profiles[:MAX_PROFILES]:
        name, uuid = clean(profile.name), clean(profile.uuid, 64)
        read, write = profile.hbm_read_bytes, profile.hbm_write_bytes
        if not (name or uuid):
            problems.append("a profile with neither `name` nor `uuid`")
        elif read is None or not 0 <= read <= SIZE.limit:
            problems.append(f"{name or uuid}: no usable `hbm_read_bytes`")
        elif write is None or not 0 <= write <= SIZE.limit:
            problems.append(f"{name or uuid}: no usable `hbm_write_bytes`")
        else:
            seconds = _time(profile.seconds, SECONDS.limit)
            comm = _time(profile.comm_seconds, seconds or SECONDS.limit)
            profiles.append(NeffProfile(name, uuid, read, write, seconds, comm))
    return Sample(
        facts={"profiles": tuple(profiles)},
        period=report.period if 0 < report.period <= SECONDS.limit else PERIOD,
        problems=tuple(problems[:MAX_PROBLEMS]),
    )


def _time(value: float | None, limit: float) -> float | None:
    return value if value is not None and 0 <= value <= limit else None


SOURCE = Source(
    name=PROFILES,
    decode=decode,
    gives="HBM bytes per execution of a NEFF, and so HBM bandwidth",
    origin="summaries of neuron-explorer, stored by `trntop profile add FILE`",
    needs="one profile of each program that runs (`neuron-explorer view --output-format "
    "summary-json`)",
    without="no HBM bandwidth: no Neuron interface reports it live",
)
