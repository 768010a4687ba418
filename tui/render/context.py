"""The palette of a drawing, and the cells that several tables share."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.style import Style

from trntop.analysis.runbook import kind_name
from trntop.catalog import CATALOG, Provenance
from trntop.core import units
from trntop.core.model import Cluster, Incident, Inventory, Severity, State

from . import glyphs
from .line import Part, fit
from .palette import Palette


@dataclass(frozen=True, slots=True)
class RenderContext:
    """Styles, and the cells that several tables share."""

    palette: Palette

    def number(
        self,
        text: str,
        quantity: str = "",
        width: int = 0,
        style: Style | None = None,
        origin: Inventory | Cluster | None = None,
    ) -> list[Part]:
        """A formatted number and the mark of its provenance, right-aligned in `width` cells.

        Args:
            text: as `trntop.core.units` formats it; the dash for an absent value is drawn faint.
            quantity: catalog name whose provenance is marked; empty for none.
            width: cells for number and mark together; 0 takes what is needed.
            style: of the number, unless it is absent.
            origin: decides the provenance; without it that of the catalog is marked.
        """
        sign = mark(quantity, origin) if quantity else ""
        absent = text == units.ABSENT
        if absent:
            sign = ""
        room = max(0, width - (1 if quantity else 0))
        shown = fit(text, room, "right") if room else text
        parts: list[Part] = [(shown, self.palette.faint if absent else style or self.palette.text)]
        if quantity and (width or sign):
            # After a unit a bare letter would read as a part of it.
            lead = " " if not width and " " in text else ""
            parts.append((lead + (sign or " "), self.palette.faint))
        return parts

    def figure(
        self, value: float | None, decimals: int, width: int, style: Style | None = None
    ) -> list[Part]:
        """A number of a column, aligned at the point; the header has unit and provenance."""
        text = units.fixed(value, decimals)
        if text == units.ABSENT:
            return [(fit(text, width, "right"), self.palette.faint)]
        if decimals and "." not in text:
            text += " " * (decimals + 1)
        return [(fit(text, width, "right"), style or self.palette.text)]

    def name(
        self, name: str, width: int, severity: Severity | None, state: State = State.FRESH
    ) -> list[Part]:
        """A name after the sign of its severity, else of its state."""
        sign, style = " ", self.palette.text
        if severity is not None:
            sign, style = glyphs.SEVERITIES[severity], self.palette.severity(severity)
        elif state not in (State.FRESH, State.ENDED):
            sign, style = glyphs.STATES[state], self.palette.state(state)
        return [(f"{sign} ", style), (fit(name, width - 2), style)]

    def worst_incident(
        self, incidents: Sequence[Incident], width: int, location: str = ""
    ) -> list[Part]:
        """Kind of the first incident, and the number of others; blank without any."""
        if not incidents:
            return [(" " * width, self.palette.text)]
        first = incidents[0]
        more = f" +{len(incidents) - 1}" if len(incidents) > 1 else ""
        text = f"{glyphs.SEVERITIES[first.severity]} {kind_name(first.kind)} {location}".rstrip()
        return [(fit(text + more, width), self.palette.severity(first.severity))]


def mark(quantity: str, origin: Inventory | Cluster | None = None) -> str:
    """The one-letter mark of a quantity's provenance: r, d, ~ or nothing for measured."""
    provenance = origin.provenance(quantity) if origin else CATALOG[quantity].provenance
    return "" if provenance is Provenance.MEASURED else units.mark(provenance)


def percent(ratio: float | None) -> str:
    """A share in percent, for columns whose header has the unit."""
    return bare(units.percent(ratio))


def bare(text: str) -> str:
    """A formatted number without its unit, for columns whose header names it."""
    return text.partition(" ")[0]
