"""libfabric's fi_pingpong: the mean latency of messages that are sent back.

https://github.com/ofiwg/libfabric/blob/main/util/pingpong.c, read at 1.17 and at 2.x. It has
neither a warm-up nor percentiles, and waits forever in at least five situations; its output with
`-v` shows in which, as it prints nothing while it measures.
"""

import re

from trntop.check.model import ProbeError, ProbeSpec, Side
from trntop.core.text import clean

from ..child import exit_reason
from .process import Ended
from .run import Failure, Run

PROGRAM = "fi_pingpong"
LISTENS = "SERVER: waiting for connection"
"""Output of the server side once a client can connect."""

_ENDPOINTS = {"efa": "rdm", "tcp": "msg"}
"""Over tcp, `rdm` would include some 18 ms of its own start in the messages."""
_COUNTS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9}
_ERROR = re.compile(r"^\[error\] [^:]*:\s*\d+\s*: *(?P<text>.*)$", re.MULTILINE)
_CALL = re.compile(r"^(?P<call>\w+)\(\): .*ret=-?\d+ \((?P<text>.*)\)$", re.MULTILINE)


def row(out: str) -> tuple[int, float] | None:
    """Lost messages and one-way seconds of the table's only row; None without a row.

    Raises:
        ProbeError: the table has another form.
    """
    lines = [line.split() for line in out.splitlines() if line.strip()]
    header = next((place for place, words in enumerate(lines) if words[0] == "bytes"), len(lines))
    if header + 1 >= len(lines):
        return None
    cells = dict(zip(lines[header], lines[header + 1], strict=False))
    try:
        return _lost(cells["#ack"]), float(cells["usec/xfer"]) * 1e-6
    except (ValueError, KeyError) as error:
        text = clean(" ".join(lines[header + 1]), 80)
        raise ProbeError(f"{PROGRAM}: {text} is not a row of its table") from error


def _lost(acknowledged: str) -> int:
    """`=10`, `+3`, `-2k`: all messages were acknowledged, 3 fewer, 2,000 more."""
    sign, count = acknowledged[0], acknowledged[1:]
    if sign == "=":
        return 0
    unit = count[-1:] if count[-1:].isalpha() else ""
    return max(0, int(float(count.removesuffix(unit)) * _COUNTS[unit]) * {"+": 1, "-": -1}[sign])


def server(spec: ProbeSpec, port: int, messages: int) -> list[str]:
    """Arguments of env(1) for the server side of a run."""
    return [*_common(spec, spec.peer_efa_device, messages), "-B", str(port)]


def client(spec: ProbeSpec, address: str, port: int, messages: int) -> list[str]:
    """Arguments of env(1) for the client side of a run."""
    return [*_common(spec, spec.efa_device, messages), "-P", str(port), address]


def port_is_taken(ended: Ended) -> bool:
    """Whether the server side found its port in use."""
    return ended.code == 98  # EADDRINUSE


def is_refused(ended: Ended) -> bool:
    """Whether no server listened for the client side, perhaps not yet."""
    return ended.code == 111 and "failed to connect" in ended.errors  # ECONNREFUSED


def read(spec: ProbeSpec, ended: Ended, messages: int, where: str) -> Run | Failure:
    """The measurement of one run of the client side.

    Args:
        spec: the probe.
        ended: how the client side ended.
        messages: to be sent.
        where: the server's host and port in words.
    """
    if ended.code is None:
        return _timeout(spec, ended, where)
    if ended.code != 0:
        return _failure(spec, ended, where)
    try:
        found = row(ended.out)
    except ProbeError as error:
        return Failure(str(error), "client")
    if found is None:
        # It skips a size that the provider does not support, and exits with 0.
        return Failure(
            f"{PROGRAM} measured nothing: provider {spec.provider} may not support messages of"
            f" {spec.size_bytes} bytes",
            "client",
        )
    lost, seconds = found
    if not 0 < seconds < spec.seconds:
        return Failure(f"{PROGRAM} printed an impossible latency", "client")
    return Run(seconds, messages, lost)


def server_error(spec: ProbeSpec, ended: Ended) -> str:
    """Why the server side failed; empty if it did not."""
    if ended.code == 0:
        return ""
    if ended.code is None:
        if "SERVER: connected" not in ended.errors:
            return f"no client connected within {ended.seconds:.0f} s"
        return f"did not finish in {ended.seconds:.0f} s"
    return _own_error(spec, ended) or f"{PROGRAM} {exit_reason(ended.code)}"


def _common(spec: ProbeSpec, efa_device: str, messages: int) -> list[str]:
    # An FI_PROVIDER of the environment would hide the provider of the probe, and with all of them
    # the program takes longer to start than to measure.
    command = [f"FI_PROVIDER={spec.provider}", PROGRAM, "-v", "-p", spec.provider]
    command += ["-e", _ENDPOINTS[spec.provider], "-S", str(spec.size_bytes), "-I", str(messages)]
    if efa_device and spec.provider == "efa":
        # A domain is named after the device and the kind of endpoint.
        command += ["-d", f"{efa_device}-rdm"]
    return command


def _own_error(spec: ProbeSpec, ended: Ended) -> str:
    """The error of its own side; empty if it reports none."""
    if ended.code == 127:
        return f"{PROGRAM} is not installed; the EFA installer and Debian's libfabric-bin have it"
    if ended.code == 126:
        return f"{PROGRAM} is not executable by this user"
    calls = {match["call"]: match["text"] for match in _CALL.finditer(ended.errors)}
    if "fi_getinfo" in calls:
        efa_device = (
            f" on device {spec.efa_device}" if spec.efa_device and spec.provider == "efa" else ""
        )
        return (
            f"libfabric has no provider {spec.provider}{efa_device} for messages of"
            f" {spec.size_bytes} bytes ({clean(calls['fi_getinfo'], 60)})"
        )
    if "bind" in calls:
        return f"cannot listen on the port ({clean(calls['bind'], 60)})"
    for call, text in calls.items():
        if not call.startswith("ctrl"):
            return f"{clean(call, 40)} failed: {clean(text, 80)}"
    if "Unknown endpoint" in ended.errors:
        return f"{PROGRAM} has no endpoint {_ENDPOINTS[spec.provider]}"
    error = _ERROR.search(ended.errors)
    return clean(error["text"], 160) if error else ""


def _failure(spec: ProbeSpec, ended: Ended, where: str) -> Failure:
    """Why the client side exited with an error."""
    match = _ERROR.search(ended.errors)
    error = clean(match["text"], 80) if match else ""
    reason = error.partition(": ")[2]
    if error.startswith("getaddrinfo"):
        return Failure(f"{where}: the host name does not resolve ({reason})", "client")
    if error.startswith("failed to connect"):
        if ended.code == 111:
            return Failure(f"no probe server listens on {where}", "server")
        return Failure(f"cannot connect to {where} ({reason})", "path")
    if ended.code == 103:
        return Failure(f"the server side on {where} ended before the test", "server")
    if "cq_readerr" in error:
        if "nreachable remote" in reason or "nresponsive remote" in reason:
            return Failure(f"{where} does not respond over {spec.provider} ({reason})", "path")
        if ended.code == 125:
            text = f"the server side on {where} ended during the test ({reason})"
            return Failure(text, "server")
        return Failure(
            f"a message from {where} could not be received; the two sides may use different sizes"
            f" ({reason})"
        )
    if ended.code == 104:
        return Failure(f"the server side on {where} reset the connection", "server")
    own = _own_error(spec, ended)
    return Failure(own or f"{PROGRAM} {exit_reason(ended.code or 0)} without an error", "client")


_WAITS: tuple[tuple[str, str, Side], ...] = (
    ("Initializing control messages", "{where} does not respond: packets are dropped (security"
     " group, firewall, route), or the host is down", "path"),
    ("CLIENT: connected", "{where} accepts a connection, but sends nothing", "server"),
    ("Received name", "{where} is reachable over its control connection, but not over {provider}",
     "path"),
    ("Starting test chrono", "messages over {provider} to {where} were lost or slow, while the"
     " control connection works; or its side hangs", ""),
    ("Stopped test chrono", "the server side on {where} does not confirm the messages", ""),
)  # fmt: skip
"""Its output when it begins to wait; the cause if that never ends; the side that caused it."""


def _timeout(spec: ProbeSpec, ended: Ended, where: str) -> Failure:
    """Why the client side reached its deadline."""
    after = f"after {ended.seconds:.0f} s"
    reached = [wait for wait in _WAITS if wait[0] in ended.errors]
    if not reached:
        return Failure(f"{PROGRAM} to {where} did not finish {after}")
    _, text, side = reached[-1]
    return Failure(f"{after}: {text.format(where=where, provider=spec.provider)}", side)
