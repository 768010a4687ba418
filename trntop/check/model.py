"""What a check asks of a node, and what the node answers.

All of it travels as JSON between a check and the agents of nodes, so every struct is plain.
"""

import re
from enum import StrEnum
from typing import Literal, Protocol

import msgspec

from trntop.core.errors import TrntopError


class ProbeError(TrntopError):
    """A probe could not be run or measured nothing; the sentence says why."""


class UnreachableError(ProbeError):
    """The node, or what speaks for it, gives no answer at all."""


class BusyError(ProbeError):
    """The node runs another probe just now, and never two at once; later it may."""


class RefusedError(ProbeError):
    """The node answers, but does not let itself be looked at or probed."""


_FIRST_SENTENCE = re.compile(r"[:.;] ")
"""What ends the first sentence of a next step; the commands come after it."""

Tool = Literal["fi_pingpong", "ib_send_lat", "ib_write_bw"]


class ProbeSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One probe between two nodes. Nothing in it becomes a command but through the tool's own
    options, each checked.
    """

    tool: Tool = "fi_pingpong"
    provider: Literal["efa", "tcp"] = "efa"
    card: str = ""
    """EFA card of the client's side; empty leaves the choice to libfabric."""
    peer_card: str = ""
    """The same of the server's side."""
    size_bytes: int = 64
    iterations: int = 1000
    repeats: int = 3
    """How often it is run, for a distribution of means."""
    seconds: float = 10.0
    """After so long both sides are ended, whatever they do."""


class ProbeResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one probe measured; the form of the recording's source `probe`."""

    tool: str
    peer: str
    provider: str = ""
    card: str = ""
    peer_card: str = ""
    size_bytes: int | None = None
    statistic: str = "mean"
    seconds: float | None = None
    """One way."""
    bytes_per_second: float | None = None
    iterations: int | None = None
    load: str = ""
    """What ran beside it, in the words of `trntop.check.load`."""
    lost: int | None = None
    partial: bool = False
    """Whether it ended before it was through."""
    error: str = ""
    """Why there is no figure, in a sentence that says whose side failed."""
    guilty: Literal["", "client", "server", "path"] = ""
    """Whose failure `error` is, where that can be told."""


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """A server side that waits for its client."""

    id: str
    port: int
    address: str = ""
    """Where it listens, if the node knows better than who asked."""
    load: str = ""
    """What runs beside it, in the words of `trntop.check.load`."""


class Card(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One EFA card of a node."""

    name: str
    rate_gbps: float | None = None
    driver: str = ""
    p2p: str = ""
    state: str = ""
    pci: str = ""
    numa_node: str = ""
    port: dict[str, int] = {}
    """hw_counters of its port, as they stand."""
    device: dict[str, int] = {}
    """hw_counters of the card itself."""


class Inspection(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a look at a node found; what could not be found out is None or empty."""

    node: str
    time: float
    """By the node's own clock, unix seconds."""
    simulated: bool = False
    instance_type: str = ""
    instance_id: str = ""
    facts: dict[str, str] = {}
    """Subnet, zone, placement group and the like, where the node or EC2 tells."""
    cards: list[Card] | None = None
    devices: int | None = None
    """Neuron devices."""
    unhealthy: dict[str, str] = {}
    """Component → what is wrong, in a sentence that names it: `device:3` → `Neuron device 3: 2
    uncorrected HBM errors since the driver was loaded`.
    """
    versions: dict[str, str] = {}
    """efa, efa-installer, libfabric, aws-ofi, neuron-driver, neuron-runtime, tools, kernel."""
    modules: dict[str, bool] = {}
    memlock_bytes: float | None = None
    """Limit of locked memory; infinity where there is none."""
    huge_pages: int | None = None
    """2 MiB pages that the kernel has set aside."""
    uverbs: bool | None = None
    """Whether /dev/infiniband has its devices."""
    environment: dict[str, str] = {}
    """Variables that matter to libfabric and Neuron, as a login shell or the agent has them."""
    busy: list[str] | None = None
    """Jobs and processes that use the devices now."""
    tools: dict[str, str] | None = None
    """Probing tool → its version, of those that are installed."""
    problems: list[str] = []
    """What could not be looked at, and why."""

    def lacks(self, tool: Tool) -> bool:
        """Whether a probing tool is known not to be there."""
        return self.tools is not None and tool not in self.tools


class Host(Protocol):
    """One node under check: its agent, its ssh, or this machine."""

    name: str

    async def inspect(self) -> Inspection:
        """Looks at the node.

        Raises:
            ProbeError: it cannot be reached, or refuses.
        """
        ...

    async def serve(self, spec: ProbeSpec) -> Served:
        """Starts the server side of a probe; it ends by itself after `spec.seconds`.

        Raises:
            ProbeError: it does not start.
        """
        ...

    async def probe(self, spec: ProbeSpec, peer: str, server: Served) -> list[ProbeResult]:
        """Runs the client side against the server on `peer`; a failure is a result with an error.

        Raises:
            ProbeError: this side cannot be reached, or refuses.
        """
        ...

    async def end(self, server: Served) -> str:
        """Ends a server side with all it started; what it complained of, if anything."""
        ...

    async def close(self) -> None:
        """Ends whatever is still running there for this check."""
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
    """What to do next."""

    NONE = ""
    MONITOR = "MONITOR"
    REBOOT = "REBOOT"
    ISOLATE = "ISOLATE"


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that a check found, good things left out."""

    check: str
    """Id of the test: `cards`, `versions`, `memlock`, `latency`, `retransmits`, …"""
    outcome: Outcome
    fault: str = ""
    """What is wrong, as it follows a node's name: `unreachable`, `memlock too low`; every finding
    but a remark has one.
    """
    node: str = ""
    """Empty where it concerns all nodes."""
    component: str = ""
    """`efa:rdmap16s27`, `device:3`, `link:trn-003`."""
    text: str
    """The cause, with its numbers and units."""
    action: Action = Action.NONE
    next_step: str = ""
    """What to do: imperative sentences with the commands, which are never run."""

    def sentence(self, where: str) -> str:
        """`trn-003 unreachable: host name does not resolve. Check DNS or /etc/hosts`."""
        step = _FIRST_SENTENCE.split(self.next_step, maxsplit=1)[0].rstrip(".")
        cause = f"{where} {self.fault}".strip() + f": {self.text}".removesuffix(": ")
        return f"{cause}. {step}." if step else cause
