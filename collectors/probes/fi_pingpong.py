"""libfabric's fi_pingpong: the mean latency of messages that go to and fro.

https://github.com/ofiwg/libfabric/blob/main/util/pingpong.c, read at 1.17 and at 2.x. It knows
neither a warm-up nor percentiles, and waits for ever in at least five situations; what it says
with `-v`, none of it while it measures, tells which.
"""

import re
from collections.abc import Sequence
from statistics import fmean, harmonic_mean
from typing import NamedTuple

from trntop.check.model import ProbeError, ProbeResult, ProbeSpec
from trntop.core.text import clean

from ..child import obituary
from .process import Ended
from .tool import Failure, Guilty, Run

PROGRAM = "fi_pingpong"
WARM_UP = 100
"""Messages of the run whose figure counts only where no other comes to its end."""
COLUMNS = ("bytes", "#sent", "#ack", "total", "time", "MB/sec", "usec/xfer", "Mxfers/sec")

_ENDPOINTS = {"efa": "rdm", "tcp": "msg"}
"""Over tcp, `rdm` would count some 18 ms of its own start among the messages."""
_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_COUNTS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9}
_ERROR = re.compile(r"^\[error\] [^:]*:\s*\d+\s*: *(?P<text>.*)$", re.MULTILINE)
_CALL = re.compile(r"^(?P<call>\w+)\(\): .*ret=-?\d+ \((?P<text>.*)\)$", re.MULTILINE)


class Row(NamedTuple):
    """One line of the table."""

    size: float
    """Bytes; from 10 KiB on rounded down by the tool."""
    sent: float
    lost: float
    """Messages that were not acknowledged; below 0, more were than had been sent."""
    bytes_per_second: float
    seconds: float
    """One way, the mean of all messages."""


def rows(out: str) -> list[Row]:
    """The rows of a table, by the names of its columns.

    Raises:
        ProbeError: there is a table, and it is not as this tool writes it.
    """
    lines = iter(out.splitlines())
    header = next((line for line in lines if line.split()[:1] == ["bytes"]), None)
    if header is None:
        return []
    names = header.split()
    if missing := [name for name in COLUMNS[:7] if name not in names]:
        raise ProbeError(f"{PROGRAM} prints no column {missing[0]}")
    return [_row(line, names) for line in lines if line.strip()]


def _row(line: str, names: Sequence[str]) -> Row:
    # `#ack` follows its sign; no other field has blanks.
    cells = dict(zip(names, line.split(), strict=False))
    try:
        if len(cells) < len(names):
            raise ValueError("too few fields")
        sign, acked = cells["#ack"][:1], cells["#ack"][1:]
        lost = 0.0 if sign == "=" else _scaled(acked, _COUNTS) * {"+": 1, "-": -1}[sign]
        return Row(
            _scaled(cells["bytes"], _SIZES),
            _scaled(cells["#sent"], _COUNTS),
            lost,
            float(cells["MB/sec"]) * 1e6,
            float(cells["usec/xfer"]) * 1e-6,
        )
    except (ValueError, KeyError) as error:
        raise ProbeError(f"{PROGRAM} prints what is no row: {clean(line.strip(), 80)}") from error


def _scaled(text: str, units: dict[str, int]) -> float:
    unit = text[-1:] if text[-1:].isalpha() else ""
    return float(text.removesuffix(unit)) * units[unit]


class FiPingpong:
    """The tool."""

    listens = "SERVER: waiting for connection"

    def runs(self, spec: ProbeSpec) -> tuple[int, ...]:
        """A warm-up, then as many as are asked for."""
        return (min(WARM_UP, spec.iterations), *[spec.iterations] * spec.repeats)

    def server(self, spec: ProbeSpec, port: int, messages: int) -> list[str]:
        """The command of the server side."""
        return [*_common(spec, spec.peer_card, messages), "-B", str(port)]

    def client(self, spec: ProbeSpec, address: str, port: int, messages: int) -> list[str]:
        """The command of the client side."""
        return [*_common(spec, spec.card, messages), "-P", str(port), address]

    def taken(self, ended: Ended) -> bool:
        """EADDRINUSE of its bind."""
        return ended.code == 98

    def refused(self, ended: Ended) -> bool:
        """ECONNREFUSED of its control connection."""
        return ended.code == 111 and "failed to connect" in ended.errors

    def read(
        self, spec: ProbeSpec, ended: Ended, messages: int, where: str, *, gone: bool
    ) -> Run | Failure:
        """The figure of its only row."""
        if ended.code != 0:
            return _failure(spec, ended, where, gone=gone)
        try:
            table = rows(ended.out)
        except ProbeError as error:
            return Failure(str(error), "client")
        if len(table) != 1:
            # It leaves out a size that is more than the provider takes, and ends well.
            return Failure(
                f"{PROGRAM} measured nothing: {spec.size_bytes} bytes may be more than provider"
                f" {spec.provider} takes in a message",
                "client",
            )
        row = table[0]
        if not 0 < row.seconds < spec.seconds:
            return Failure(f"{PROGRAM} prints a latency that cannot be", "client")
        return Run(
            {"mean": row.seconds},
            row.bytes_per_second,
            messages,
            pace=2 * row.seconds,
            lost=max(int(row.lost), 0),
        )

    def results(self, spec: ProbeSpec, peer: str, runs: Sequence[Run]) -> list[ProbeResult]:
        """The mean of all messages; with several runs, the least and the largest mean of one."""
        means = [run.seconds["mean"] for run in runs]
        rates = [run.bytes_per_second for run in runs if run.bytes_per_second is not None]
        figures = {"mean": fmean(means)}
        if len(means) > 1:
            figures |= {"min": min(means), "max": max(means)}
        efa = spec.provider == "efa"
        return [
            ProbeResult(
                tool=PROGRAM,
                peer=peer,
                provider=spec.provider,
                card=spec.card if efa else "",
                peer_card=spec.peer_card if efa else "",
                size_bytes=spec.size_bytes,
                statistic=statistic,
                seconds=seconds,
                bytes_per_second=harmonic_mean(rates) if rates and statistic == "mean" else None,
                iterations=sum(run.messages for run in runs),
                lost=sum(run.lost or 0 for run in runs),
            )
            for statistic, seconds in figures.items()
        ]

    def complaint(self, spec: ProbeSpec, ended: Ended) -> str:
        """What its server side says, in a sentence."""
        if ended.code == 0:
            return ""
        if ended.code is None:
            if "SERVER: connected" not in ended.errors:
                return f"nobody connected within {ended.seconds:.0f} s"
            return f"was not through after {ended.seconds:.0f} s"
        return _told(spec, ended) or f"{PROGRAM} {obituary(ended.code)}"


def _common(spec: ProbeSpec, card: str, messages: int) -> list[str]:
    # An FI_PROVIDER of the environment would hide the provider that is asked for, and with all of
    # them the program takes longer to start than to measure.
    command = [f"FI_PROVIDER={spec.provider}", PROGRAM, "-v", "-p", spec.provider]
    command += ["-e", _ENDPOINTS[spec.provider], "-S", str(spec.size_bytes), "-I", str(messages)]
    if card and spec.provider == "efa":
        # The name of a domain is that of the card with the kind of endpoint.
        command += ["-d", f"{card}-rdm"]
    return command


def _told(spec: ProbeSpec, ended: Ended) -> str:
    """What it says is wrong on its own side; empty if it says nothing of that kind."""
    if ended.code == 127:
        return f"{PROGRAM} is not installed; the EFA installer and Debian's libfabric-bin have it"
    if ended.code == 126:
        return f"{PROGRAM} may not be executed by this user"
    calls = {match["call"]: match["text"] for match in _CALL.finditer(ended.errors)}
    if "fi_getinfo" in calls:
        card = f" on card {spec.card}" if spec.card and spec.provider == "efa" else ""
        return (
            f"libfabric has no provider {spec.provider}{card} for messages of"
            f" {spec.size_bytes} bytes ({clean(calls['fi_getinfo'], 60)})"
        )
    if "bind" in calls:
        return f"the port cannot be listened on ({clean(calls['bind'], 60)})"
    for call, text in calls.items():
        if not call.startswith("ctrl"):
            return f"{clean(call, 40)} failed: {clean(text, 80)}"
    if "Unknown endpoint" in ended.errors:
        return f"{PROGRAM} knows no endpoint {_ENDPOINTS[spec.provider]}"
    errors = [match["text"] for match in _ERROR.finditer(ended.errors)]
    return clean(errors[0], 160) if errors else ""


def _failure(spec: ProbeSpec, ended: Ended, where: str, *, gone: bool) -> Failure:
    said = ended.errors
    if ended.code is None:
        return _late(spec, ended, where, gone=gone)
    error = next((clean(match["text"], 80) for match in _ERROR.finditer(said)), "")
    if error.startswith("getaddrinfo"):
        return Failure(f"{where}: the name is not known ({error.partition(' : ')[2]})", "client")
    if error.startswith("failed to connect"):
        reason = error.partition(": ")[2]
        if ended.code == 111:
            return Failure(f"no probe server listens on {where}", "server")
        return Failure(f"{where} cannot be connected to ({reason})", "path")
    if ended.code == 103:
        return Failure(f"the server side on {where} ended before the test began", "server")
    if "cq_readerr" in error:
        reason = error.partition(": ")[2]
        if "nreachable remote" in reason or "nresponsive remote" in reason:
            return Failure(f"{where} does not answer over {spec.provider} ({reason})", "path")
        if ended.code == 125:
            return Failure(
                f"the server side on {where} broke off in the midst: killed, or told another size"
                f" or number of messages ({reason})",
                "server",
            )
        return Failure(
            f"a message from {where} could not be received: the two sides may be told different"
            f" sizes ({reason})"
        )
    if ended.code == 104:
        return Failure(f"the server side on {where} reset the connection", "server")
    if told := _told(spec, ended):
        return Failure(told, "client")
    return Failure(f"{PROGRAM} {obituary(ended.code)} and said nothing", "client")


_STAGES: tuple[tuple[str, str, Guilty], ...] = (
    ("Initializing control messages", "{where} does not answer: the connection is dropped on the"
     " way (security group, firewall, route), or the host is down", "path"),
    ("CLIENT: connected", "{where} accepts a connection and then says nothing", "server"),
    ("Received name", "{where} is reached over its control connection, but not over {provider}",
     "path"),
    ("Starting test chrono", "messages over {provider} to {where} did not all come back in time,"
     " while the control connection stands: lost or slow on the way, or its side hangs", ""),
    ("Stopped test chrono", "the server side on {where} does not confirm the messages: it may be"
     " told another number of them", ""),
)  # fmt: skip
"""What it says when it begins to wait for something; what is wrong if that never comes; whose
fault that is.
"""


def _late(spec: ProbeSpec, ended: Ended, where: str, *, gone: bool) -> Failure:
    """Why it had to be ended."""
    after = f"after {ended.seconds:.0f} s"
    if gone:
        return Failure(f"the server side on {where} is gone in the midst of the test", "server")
    reached = [stage for stage in _STAGES if stage[0] in ended.errors]
    if not reached:
        return Failure(f"{PROGRAM} to {where} was not through {after}")
    _, text, guilty = reached[-1]
    return Failure(f"{after}: {text.format(where=where, provider=spec.provider)}", guilty)
