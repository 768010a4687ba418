"""What a check found: the evidence, the findings, and what follows from them."""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from trntop.check.model import Finding, Inspection, Outcome, ProbeResult
from trntop.check.plan import Plan
from trntop.check.stage import Outlook

SCHEMA = 1


class NodeInspection(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What was seen of one node: before the probes and after them."""

    node: str
    """As the user named it."""
    before: Inspection | None = None
    after: Inspection | None = None
    error: str = ""
    """Why it could not be looked at or asked any more, in a sentence."""
    refused: bool = False
    """Whether it answers, but does not let itself be checked, or is nothing that can be."""
    clock: float | None = None
    """Seconds by which its clock is ahead of ours."""
    clock_error: float = 0.0
    """How far that may be off: half the time that the answer took."""

    @property
    def newest(self) -> Inspection | None:
        """The later look, if there was one."""
        return self.after or self.before


class ProbeRun(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One probe between two nodes."""

    client: str
    server: str
    card: str = ""
    """Card of the client's side, where it was chosen."""
    peer_card: str = ""
    time: float
    """Unix seconds at its end, by the clock of the machine that checks."""
    stage: str
    """`round 1`, `suspects 1.1`, `again 1.1`."""
    results: list[ProbeResult] = []
    error: str = ""
    """Why it gave no figure."""
    guilty: str = ""
    """The node whose side failed, where that is known."""
    busy: bool = False
    """Whether that node was in somebody else's probe all the time: nothing was measured."""


class Place(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is said of one node."""

    node: str
    outcome: Outcome
    seconds: float | None = None
    """Latency with its best partner, one way."""
    ratio: float | None = None
    """That against the median of the nodes."""
    cards: int | None = None
    expected_cards: int | None = None
    card_outcomes: dict[str, Outcome] = {}


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """A whole check, as it is kept and as `--json` prints it."""

    schema: int = SCHEMA
    by: str = ""
    """The program and its version."""
    started: float
    """Unix seconds."""
    seconds: float
    """How long it took."""
    simulated: bool = False
    outcome: Outcome
    verdict: str
    """The last line: one sentence."""
    cut_short: str = ""
    """Why it ended before it was through."""
    plan: Plan
    places: list[Place]
    """The nodes, the worst first."""
    findings: list[Finding]
    """The worst first; those that pass are remarks."""
    looks: list[NodeInspection]
    trials: list[ProbeRun]
    imported: list[ProbeResult] = []
    """From reports of other tools."""
    outlook: Outlook | None = None
    """Communication of finished stages, where recordings of them were given."""
    compared_with: float | None = None
    """When the check was started that served as the baseline."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a check is."""

    stage: str
    done: int
    total: int
    """Looks or pairs of this stage."""
    left: float
    """Seconds that it will take still, about."""


OnProgress = Callable[[Progress], None]
