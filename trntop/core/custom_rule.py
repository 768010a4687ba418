"""A custom rule: one comparison of one quantity with a number.

It is defined in the settings file under `[[rules]]`; `trntop.analysis.custom` evaluates it.
"""

import math
import re
from string import Formatter
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from trntop.catalog import CATALOG, METRIC_PREFIX
from trntop.core.comparison import Comparison, number
from trntop.core.suggest import unknown
from trntop.core.text import clean

MAX_RULES = 100
PLACEHOLDERS = ("where", "node", "component", "job", "quantity", "value", "limit", "since")
"""Placeholders of a summary."""
MAY_EXCEED_ONE = ("job_comm_compute_ratio", "efa_tx_sibling_ratio")
"""Ratios that are not shares."""
HYSTERESIS = 0.05
"""Default margin of `clear`, as a share of the limit."""

_COMPARISON = re.compile(
    r"\s*(?P<quantity>\w+)\s*(?P<sign>[<>]=?)\s*(?P<limit>[+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)\s*",
    re.ASCII,
)


class CustomRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A custom rule: opens an incident for each node, device, core, EFA device, runtime, job or
    rank for which the comparison holds.
    """

    name: Annotated[
        str,
        Meta(
            pattern=r"^[A-Za-z][A-Za-z0-9_]{0,63}\Z",
            description="a name of letters, digits and _, at most 64, that begins with a letter",
        ),
    ]
    """Kind of its incidents; different from the built-in kinds."""
    when: Annotated[
        str, Meta(max_length=200, description="a comparison such as node_cpu_busy_ratio > 0.9")
    ]
    """One comparison (`>`, `>=`, `<`, `<=`) of a quantity in [metrics](metrics.md) with a
    number in the unit of the quantity.
    """
    clear: float | None = None
    """Value at which the incident closes; default: 5 % below the limit (with `<`, above it).
    """
    hold: Annotated[float, Meta(ge=0, le=86400)] | None = None
    """Seconds the comparison must hold before the incident opens; default: `analysis.hold`."""
    severity: Literal["info", "warning", "critical"] = "warning"
    """Severity of its incidents."""
    summary: Annotated[
        str, Meta(min_length=1, max_length=200, description="text of at most 200 characters")
    ] = "{where}: {quantity} {value} since {since}, limit {limit}"
    """Message of its incidents. Placeholders in braces: `where` (node and component), `node`,
    `component`, `job`, `quantity`, `value`, `limit`, `since`.
    """

    @property
    def comparison(self) -> Comparison:
        """`when`, parsed.

        Raises:
            ValueError: `when` is not a comparison.
        """
        found = _COMPARISON.fullmatch(self.when)
        if found is None:
            raise ValueError(
                "when must be one comparison such as node_cpu_busy_ratio > 0.9, not "
                f"{clean(self.when, 80)!r}"
            )
        try:
            limit = number(found["limit"])
        except ValueError as error:
            raise ValueError(f"when: {error}") from None
        if found["quantity"] not in CATALOG:
            raise ValueError(
                f"when: {unknown('quantity', found['quantity'], CATALOG, _unprefixed)}"
            )
        return Comparison(found["quantity"], found["sign"], limit)

    @property
    def cleared(self) -> float:
        """Value at which the incident closes."""
        if self.clear is not None:
            return self.clear
        limit = self.comparison.limit
        margin = HYSTERESIS * abs(limit)
        return limit + margin if self.comparison.below else limit - margin

    def mistake(self) -> tuple[str, str] | None:
        """The field that is wrong, and why; None if the rule is valid."""
        try:
            comparison = self.comparison
        except ValueError as error:
            return "when", str(error)
        if CATALOG[comparison.quantity].unit == "ratio" and (
            comparison.limit > 1.0 and comparison.quantity not in MAY_EXCEED_ONE
        ):
            return "when", (
                f"when: {comparison.quantity} is a ratio from 0 to 1, never above"
                f" {comparison.limit:g}; 0.9 is 90 %"
            )
        if self.clear is not None and (
            not math.isfinite(self.clear) or comparison.holds(self.clear)
        ):
            return "clear", (
                f"clear must be {'above' if comparison.below else 'below'} the limit of"
                f" {comparison.limit:g}, not {self.clear:g}"
            )
        if wrong := _wrong_summary(self.summary):
            return "summary", f"summary: {wrong}"
        return None


def _unprefixed(quantity: str) -> str:
    return quantity.lower().removeprefix(METRIC_PREFIX)


def _wrong_summary(summary: str) -> str:
    if clean(summary) != summary:
        return "contains control characters"
    try:
        parts = list(Formatter().parse(summary))
    except ValueError:
        return "unbalanced brace; write {{ or }} for a literal brace"
    for _, name, form, conversion in parts:
        if name is not None and (name not in PLACEHOLDERS or form or conversion):
            return f"{{{name[:40]}}} is not a valid placeholder; use {', '.join(PLACEHOLDERS)}"
    return ""
