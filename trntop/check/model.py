"""The data of a check: probes, inspections, and the `Host` that runs both.

All of it travels as JSON between a check and the agents of nodes, so every struct is plain.
"""

import re
from enum import StrEnum
from typing import Final, Literal, Protocol

import msgspec

from trntop.core.errors import TrntopError


class ProbeError(TrntopError):
    """A probe could not be run or measured nothing."""


class UnreachableError(ProbeError):
    """The node does not respond."""


class BusyError(ProbeError):
    """The node runs another probe; it never runs two at a time."""


class RefusedError(ProbeError):
    """The node responds, but does not permit inspections or probes."""


_FIRST_SENTENCE = re.compile(r"[:.;] ")
"""The end of the first sentence of a next step; commands follow it."""

PROBE_TOOL: Final = "fi_pingpong"
Side = Literal["", "client", "server", "path"]
"""Where a probe failed; empty if unknown."""


class ProbeSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One probe between two nodes; each field is checked before it becomes an option."""

    tool: Literal["fi_pingpong"] = PROBE_TOOL
    provider: Literal["efa", "tcp"] = "efa"
    efa_device: str = ""
    """EFA device of the client; if empty, libfabric chooses one."""
    peer_efa_device: str = ""
    """EFA device of the server."""
    size_bytes: int = 64
    iterations: int = 1000
    repeats: int = 3
    """Number of runs."""
    seconds: float = 10.0
    """Deadline of both sides."""


class ProbeResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of one probe, in the form of the recording's source `probe`."""

    tool: str
    peer: str
    provider: str = ""
    efa_device: str = msgspec.field(default="", name="card")
    peer_efa_device: str = msgspec.field(default="", name="peer_card")
    size_bytes: int | None = None
    statistic: str = "mean"
    seconds: float | None = None
    """One-way latency."""
    iterations: int | None = None
    load: str = ""
    """Load of the hosts before the probe, see `trntop.check.load`."""
    lost: int | None = None
    error: str = ""
    """Why there is no latency."""
    faulty_side: Side = msgspec.field(default="", name="guilty")
    """The side that caused `error`."""


class ProbeServer(msgspec.Struct, frozen=True, kw_only=True):
    """The server side of a probe, which waits for its client."""

    id: str
    port: int
    address: str = ""
    """The address it listens on, if that is not the one the caller uses."""
    load: str = ""


class EfaDevice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One EFA device of a node."""

    name: str
    rate_gbps: float | None = None
    driver: str = ""
    p2p: str = ""
    port: dict[str, int] = {}
    """hw_counters of its port."""
    device: dict[str, int] = {}
    """hw_counters of the device itself."""


class Inspection(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of a node; unknown values are None or empty."""

    node: str
    time: float
    """Unix seconds, by the node's own clock."""
    simulated: bool = False
    instance_type: str = ""
    efa_devices: list[EfaDevice] | None = None
    devices: int | None = None
    """Number of Neuron devices."""
    unhealthy: dict[str, str] = {}
    """Component → fault: `device:3` → `Neuron device 3: 2 uncorrected HBM errors …`."""
    versions: dict[str, str] = {}
    """efa, efa-installer, libfabric, aws-ofi, neuron-driver, neuron-runtime, tools, kernel."""
    modules: dict[str, bool] = {}
    memlock_bytes: float | None = None
    """Limit of locked memory; infinity if unlimited."""
    huge_pages: int | None = None
    """Reserved pages of 2 MiB."""
    uverbs: bool | None = None
    """Whether the uverbs devices exist in /dev/infiniband."""
    busy: list[str] | None = None
    """Jobs and processes that use the devices."""
    tools: list[str] | None = None
    """Installed probing tools."""
    problems: list[str] = []
    """Parts that could not be inspected, with the reason."""

    @property
    def lacks_tool(self) -> bool:
        """Whether the probe tool is known to be missing."""
        return self.tools is not None and PROBE_TOOL not in self.tools


class Host(Protocol):
    """A node under check, reached through its agent or ssh, or this machine."""

    name: str

    async def inspect(self) -> Inspection:
        """Reads the state of the node.

        Raises:
            ProbeError: it cannot be reached, or refuses.
        """
        ...

    async def serve(self, spec: ProbeSpec) -> ProbeServer:
        """Starts the server side of a probe; it ends by itself after `spec.seconds`.

        Raises:
            ProbeError: it does not start.
        """
        ...

    async def probe(self, spec: ProbeSpec, peer: str, server: ProbeServer) -> list[ProbeResult]:
        """Runs the client side against the server on `peer`; a failure is a result with an error.

        Raises:
            ProbeError: this side cannot be reached, or refuses.
        """
        ...

    async def end(self, server: ProbeServer) -> str:
        """Ends a server side; returns its error, if any."""
        ...

    async def close(self) -> None:
        """Ends everything that still runs on the node for this check."""
        ...


class Outcome(StrEnum):
    """The result for a node, an EFA device or a check."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "inconclusive"

    @property
    def exit_code(self) -> int:
        """0 pass, 1 warn, 2 fail, 3 inconclusive."""
        return list(Outcome).index(self)


class Action(StrEnum):
    NONE = ""
    MONITOR = "MONITOR"
    REBOOT = "REBOOT"
    ISOLATE = "ISOLATE"


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One result of a check about a node or about all; one that passes is a remark."""

    check: str
    """Id of the test: `EFA devices`, `versions`, `memlock`, `latency`, `retransmits`, …"""
    outcome: Outcome
    fault: str = ""
    """As written after a node's name: `unreachable`, `memlock too low`; empty for a remark."""
    node: str = ""
    """Empty if it concerns all nodes."""
    component: str = ""
    """`efa:rdmap16s27`, `device:3`, `link:trn-001>trn-003`."""
    text: str
    """The cause, with its numbers and units."""
    action: Action = Action.NONE
    next_step: str = ""
    """Imperative sentences with commands for the user; a check never runs them."""

    def sentence(self, where: str) -> str:
        """`trn-003 unreachable: host name does not resolve. Check DNS or /etc/hosts`."""
        step = _FIRST_SENTENCE.split(self.next_step, maxsplit=1)[0].rstrip(".")
        cause = f"{where} {self.fault}".strip() + f": {self.text}".removesuffix(": ")
        return f"{cause}. {step}." if step else cause
