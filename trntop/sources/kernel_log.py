"""Lines of the kernel log about faults of Neuron or EFA devices.

    {"period", "via", "lines": [{"time", "text"}], "counts": {"neuron", "efa"}, "lost"}

`counts` counts all such lines since the previous reading; `lines` has the newest of them. `lost`
counts kernel messages of any kind that were overwritten before they could be read, or that are
not journal entries.
"""

import re
from collections.abc import Sequence

import msgspec
import numpy as np

from trntop.catalog import KERNEL_LOG
from trntop.core.model import Sample
from trntop.core.text import clean
from trntop.sources import tolerant
from trntop.sources.source import Source

PERIOD = 10.0
"""Seconds, if the payload does not have it."""
MAX_LINES = 64
MAX_TEXT = 1024
"""Characters of a line that are read."""
KINDS = ("neuron", "efa")

# Source: the rules of the Neuron SDK's node problem detector. A full line, from the runtime guide:
# NEURON_HW_ERR=SRAM_UNCORRECTABLE_ERROR instance-id=… nd-id=0 nc-id=0 serial-num=… action=…
_NEURON = re.compile(r"\bNEURON_HW_ERR=\w")
# Source: the EFA driver, efa_com.c. The ENA driver logs some of the same lines, so the name is
# required: a line begins with `efa 0000:a0:1a.0 rdmap160s26: `, or with the device's name alone.
_EFA = re.compile(
    r"\b(?:efa|rdmap\d).*(?:"
    r"The device didn't send any completion for admin cmd"
    r"|The device sent a completion but the driver didn't receive any MSI-X interrupt"
    r"|Wait for completion \(polling\) timeout"
    r"|Reading register timed out"
    r"|Device isn't ready, abort com init"
    r"|Failed to process command"
    r"|Failed to submit command"
    r")"
)
# May be logged whenever a process that used collectives ends; benign according to the Neuron guide.
_BENIGN = re.compile(r"Failed to process command DEREG_MR .*comp_status 7 err -22")


def relevant(text: str) -> str | None:
    """The devices that a line of the kernel log is about, `neuron` or `efa`, if any."""
    text = text[:MAX_TEXT]
    if _NEURON.search(text):
        return "neuron"
    if _EFA.search(text) and not _BENIGN.search(text):
        return "efa"
    return None


class _Line(msgspec.Struct, gc=False):
    text: str = ""


class _Log(msgspec.Struct, gc=False):
    period: float = PERIOD
    lines: list[_Line] = []
    counts: dict[str, int] = {}
    lost: int = 0


_decoder = msgspec.json.Decoder(_Log)


def decode(data: bytes) -> Sample:
    """The lines since the previous reading.

    Raises:
        DecodeError: the payload is not a JSON object of this kind.
    """
    log, notes = tolerant.decode(data, _decoder)
    texts = [line.text for line in reversed(log.lines[-MAX_LINES:]) if relevant(line.text)]
    counts = {kind: _count(kind, log.counts, texts) for kind in KINDS}
    problems = [clean(text) for text in texts]
    if (more := sum(counts.values()) - len(texts)) > 0:
        problems.append(f"{more} more such lines")
    if log.lost > 0:
        problems.append(f"{log.lost} kernel messages were lost")
    return Sample(
        deltas={f"node_kernel_{kind}_errors_total": float(counts[kind]) for kind in KINDS},
        period=log.period if 0 < log.period < np.inf else PERIOD,
        problems=(*problems, *notes),
    )


def _count(kind: str, counts: dict[str, int], texts: Sequence[str]) -> int:
    """The number of lines of a kind, at least those in the payload."""
    return max(counts.get(kind, 0), sum(relevant(text) == kind for text in texts))


SOURCE = Source(
    name=KERNEL_LOG,
    decode=decode,
    gives="NEURON_HW_ERR events and errors of the EFA driver",
    origin="`/dev/kmsg`, else `journalctl -k`",
    needs="root or CAP_SYSLOG, or membership in the group systemd-journal",
    without="hardware errors are detected only when a counter shows them",
)
