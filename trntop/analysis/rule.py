"""A row of the rulebook."""

import re
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field, replace

from trntop.analysis.detector import Detector
from trntop.core.model import Severity
from trntop.core.settings import Analysis as Settings


@dataclass(frozen=True, slots=True)
class Scope:
    """How far a cause works."""

    job: bool = True
    """On all nodes of the job; else on its own node only."""
    before: float = 30.0
    """Seconds by which a consequence may seem to have set in before its cause."""


@dataclass(frozen=True, slots=True)
class WarmUp:
    """The data that a rule needs before its condition can hold, besides its `for`."""

    seconds: float = 0.0
    steps: int = 0
    """Of a job that reports its steps."""
    without_steps: float = 0.0
    """Seconds instead of `seconds` where no job does."""
    results: int = 0
    """Probe results of a link."""


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """One kind of incident."""

    kind: str
    severity: Severity
    """The severity it opens with; a detector may set another one."""
    condition: str
    """When it holds, with settings in braces."""
    detector: Callable[[Settings, float], Detector]
    hold: float | None
    """Seconds the condition must last; None: the setting `analysis.hold`."""
    clear_hold: float
    """Seconds it must be over before the incident closes."""
    summary: str
    """The incident in one sentence; braces are filled by the detector's verdict."""
    advice: str
    """The first step."""
    many: str = ""
    """The sentence where many nodes show the same at once; empty where that cannot be."""
    many_share: float | None = None
    """Share of a job's nodes that are many, three at least; None: `analysis.together`."""
    ends_with_job: bool = False
    """Whether it is about how a job gets on, and over when that is."""
    interval: float = 0.0
    """Seconds between two runs; 0: each tick."""
    needs: tuple[str, ...] = ()
    """Without any of these quantities it cannot be evaluated; empty where silence is the sign."""
    warm_up: Callable[[Settings], WarmUp] = lambda _: WarmUp()
    settings: tuple[str, ...] = ()
    """The settings in section `analysis` that it goes by."""
    inhibited_by: Mapping[str, Scope] = field(default_factory=dict)
    """Kinds of which it may be a consequence: then it is their evidence, no incident."""

    def judges(self, names: Container[str]) -> bool:
        """Whether it has something to go by where the quantities `names` are known."""
        return not self.needs or any(name in names for name in self.needs)

    def needed(self, settings: Settings) -> WarmUp:
        """The data before an incident can open."""
        hold = settings.hold if self.hold is None else self.hold
        least, more = self.warm_up(settings), hold + self.interval
        return replace(
            least, seconds=least.seconds + more, without_steps=least.without_steps + more
        )

    def stated(self, settings: Settings) -> str:
        """The condition with the settings' numbers in it."""
        values = {name: getattr(settings, name) for name in self.settings}
        values = {
            name: value.replace("_", " ") if isinstance(value, str) else value
            for name, value in values.items()
        }
        return re.sub(r"(?<=\d)%", " %", self.condition.format(**values))
