"""The result of a check: evidence, findings and verdict."""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from trntop.check.model import Finding, Inspection, Outcome, ProbeResult
from trntop.check.plan import Plan

SCHEMA = 1


class NodeInspection(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The inspections of one node."""

    node: str
    before: Inspection | None = None
    """Before the probes."""
    after: Inspection | None = None
    error: str = ""
    """Why the node does not respond (any more)."""
    refused: bool = False
    """Whether the node responds, but cannot be checked."""

    @property
    def newest(self) -> Inspection | None:
        return self.after or self.before


class ProbeRun(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One probe between two nodes."""

    client: str
    server: str
    efa_device: str = ""
    """EFA device of the client, if the check chose one."""
    peer_efa_device: str = ""
    time: float
    """Unix seconds at its end, by the clock of the machine that checks."""
    stage: str
    """`round 1`, `suspects 1.1`, `again 1.1`."""
    results: list[ProbeResult] = []
    error: str = ""
    """Why there is no latency."""
    faulty_node: str = msgspec.field(default="", name="guilty")
    """The node whose side failed, if known."""
    busy: bool = False
    """Whether that node was in another probe the whole time."""


class NodeResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One node in the table of nodes."""

    node: str
    outcome: Outcome
    seconds: float | None = None
    """One-way latency with its best partner."""
    ratio: float | None = None
    """Its latency divided by the median of the nodes."""
    efa_devices: int | None = None
    expected_efa_devices: int | None = None
    efa_device_outcomes: dict[str, Outcome] = {}


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """A whole check, as `--json` prints it; the format keeps some older member names."""

    schema: int = SCHEMA
    by: str = ""
    """The program and its version."""
    started: float
    """Unix seconds."""
    seconds: float
    """Duration."""
    simulated: bool = False
    outcome: Outcome
    verdict: str
    """The last line: one sentence."""
    cut_short: str = ""
    """Why it ended early."""
    plan: Plan
    nodes: list[NodeResult] = msgspec.field(name="places")
    """The nodes, the worst first."""
    findings: list[Finding]
    """The worst first; those that pass are remarks."""
    inspections: list[NodeInspection] = msgspec.field(name="looks")
    probe_runs: list[ProbeRun] = msgspec.field(name="trials")


class Progress(NamedTuple):
    stage: str
    done: int
    total: int
    """Inspections or pairs of this stage."""


OnProgress = Callable[[Progress], None]
