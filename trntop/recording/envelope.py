"""The lines of a recording: envelopes, and the reports of a plain neuron-monitor file.

The format is described in `docs/recording.md`.
"""

import re
import zlib
from typing import Annotated, TypeVar

import msgspec
from msgspec import Raw

from trntop import __version__
from trntop.core.model import Reading
from trntop.core.text import clean

FORMAT = 1
"""The version that is written, and the highest that is read."""

MAX_SOURCE = 64
"""Characters of a source's name."""

_CHECKSUM = b',"crc":"%08x"}'
_CHECKSUM_BYTES = 18
_LONGEST_PERIOD = 3600.0
_PERIOD = re.compile(rb'"period"\s*:\s*([0-9][0-9.eE+-]*)')
_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")


Time = Annotated[float, msgspec.Meta(ge=0, lt=253_402_300_800)]
"""Unix seconds, before the year 10000."""


class Header(msgspec.Struct, frozen=True):
    """What a recording states about itself."""

    created: Time | None = None
    by: str = ""
    """The program that wrote it."""
    note: str = ""
    checksums: bool = False
    """Whether each line that follows has a checksum."""


class Envelope(msgspec.Struct):
    """One line; any part may be missing, unknown parts are ignored."""

    v: Annotated[int, msgspec.Meta(ge=1, le=FORMAT)]
    t: Time | None = None
    node: str = ""
    source: str = ""
    data: Raw = Raw()
    text: str | None = None
    base64: bytes | None = None
    simulated: bool = False
    recording: Header | None = None
    crc: str = ""

    @property
    def header(self) -> Header | None:
        """The header in this line, cleaned; None without one."""
        found = self.recording
        return found and Header(found.created, clean(found.by), clean(found.note), found.checksums)

    @property
    def reading(self) -> Reading | None:
        """The reading in this line, its names cleaned; None if a part is missing."""
        node, source = clean(self.node), clean(self.source, MAX_SOURCE)
        data: bytes | None = bytes(self.data)
        if not data:
            data = self.base64 if self.text is None else self.text.encode()
        if self.t is None or not node or not source or data is None:
            return None
        return Reading(node, source, self.t, data, self.simulated)


class _Version(msgspec.Struct):
    v: int
    t: Raw = Raw()
    recording: Raw = Raw()


class _Report(msgspec.Struct):
    neuron_runtime_data: Raw = Raw()
    system_data: Raw = Raw()
    neuron_hardware_info: Raw = Raw()


_T = TypeVar("_T")
_envelopes = msgspec.json.Decoder(Envelope)
_versions = msgspec.json.Decoder(_Version)
_reports = msgspec.json.Decoder(_Report)
_values = msgspec.json.Decoder(Raw)
_members = msgspec.json.Decoder(dict[str, Raw])


def parse(line: bytes) -> Envelope | None:
    """The envelope in a line; None if it is not of this format, a part has a wrong type, or its
    checksum is wrong.
    """
    envelope = _decode(_envelopes, line)
    return envelope if envelope is None or not envelope.crc or _is_intact(line.rstrip()) else None


def newer_format(line: bytes) -> int | None:
    """The version of an envelope newer than `FORMAT`, else None."""
    found = _decode(_versions, line)
    if found is None or found.v <= FORMAT or not (bytes(found.t) or bytes(found.recording)):
        return None
    return found.v


def is_report(line: bytes) -> bool:
    """Whether an object is a neuron-monitor report: it has at least one of their parts."""
    report = _decode(_reports, line)
    return report is not None and any(
        bytes(part)
        for part in (report.neuron_runtime_data, report.system_data, report.neuron_hardware_info)
    )


def reports_in(line: bytes) -> list[bytes]:
    """The neuron-monitor reports in an object: itself, or numbered members.

    AWS's own test of a consumer writes `{"1": {report}, "2": {report}}`.
    """
    if is_report(line):
        return [line]
    members = _decode(_members, line) or {}
    parts = [bytes(part) for number, part in members.items() if number.isdecimal()]
    return parts if parts and len(parts) == len(members) and all(map(is_report, parts)) else []


def longest_period(report: bytes) -> float:
    """The longest period of a group of a neuron-monitor report, in seconds; 0 without one."""
    longest = max(map(float, _PERIOD.findall(report)), default=0.0)
    return min(longest, _LONGEST_PERIOD)


def header_line(created: float, note: str) -> bytes:
    header = Header(created, f"trntop {__version__}", note, checksums=True)
    return _sealed(msgspec.json.encode({"v": FORMAT, "recording": header})[:-1])


def line(reading: Reading) -> bytes:
    """The envelope of a reading, with a newline."""
    envelope = {"v": FORMAT, "t": reading.time, "node": reading.node, "source": reading.source}
    if reading.simulated:
        envelope["simulated"] = True
    return _sealed(msgspec.json.encode(envelope)[:-1] + b"," + _payload(reading.data))


def _sealed(members: bytes) -> bytes:
    """A line of these members and their checksum."""
    return members + _CHECKSUM % zlib.crc32(members) + b"\n"


def _is_intact(line: bytes) -> bool:
    """Whether a line ends with the checksum of the rest, as it was written."""
    members, stated = line[:-_CHECKSUM_BYTES], line[-_CHECKSUM_BYTES:]
    return stated == _CHECKSUM % zlib.crc32(members)


def _payload(data: bytes) -> bytes:
    """The member with the payload: verbatim if it is JSON, else as text or base64."""
    if (value := _decode(_values, data)) is not None:
        # Valid JSON has line breaks only between its tokens.
        return b'"data":' + bytes(value).translate(_ONE_LINE)
    try:
        return b'"text":' + msgspec.json.encode(data.decode())
    except UnicodeDecodeError:
        return b'"base64":' + msgspec.json.encode(data)


def _decode(decoder: msgspec.json.Decoder[_T], text: bytes) -> _T | None:
    try:
        return decoder.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
