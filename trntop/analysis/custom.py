"""Runs a custom rule: one quantity against one number, for every part that has it."""

import math
from collections.abc import Hashable

import numpy as np

from trntop.analysis.detector import Signal, Verdict
from trntop.analysis.rule import Rule
from trntop.catalog import CATALOG, Entity
from trntop.core import units
from trntop.core.custom_rule import CustomRule
from trntop.core.model import NO_VALUE, Column, Evidence, Severity
from trntop.pipeline.axis import Axis, PartAxis
from trntop.pipeline.tick import Tick

CLEAR_HOLD = 10.0
"""Seconds a value must be back before the incident closes."""


def rule_of(custom: CustomRule) -> Rule:
    """Its row in the rulebook."""
    return Rule(
        custom.name,
        Severity(custom.severity),
        f"{custom.when.strip()}, until {custom.cleared:g}",
        lambda settings, period: Custom(custom),
        hold=custom.hold,
        clear_hold=CLEAR_HOLD,
        summary=custom.summary,
        advice="",
        needs=(custom.comparison.quantity,),
    )


class Custom:
    """A detector for one custom rule. Keys: a node's name, or node and part.

    Args:
        rule: a rule whose comparison is sound (`CustomRule.mistake`).
    """

    def __init__(self, rule: CustomRule) -> None:
        comparison = rule.comparison
        self._name = comparison.quantity
        self.inputs = frozenset((comparison.quantity,))
        self._entity = CATALOG[comparison.quantity].entity
        self._sign = -1.0 if comparison.below else 1.0
        self._stated = comparison.limit
        self._limit = self._sign * comparison.limit
        if comparison.holds(comparison.limit):
            # `>=` counts the limit itself: it lies just above the next smaller number.
            self._limit = math.nextafter(self._limit, -math.inf)
        self._jobs = Axis()
        self._clear = min(self._sign * rule.cleared, self._limit)

    def signal(self, tick: Tick) -> Signal:
        """The quantity, with `<` its negative, so that large is bad."""
        axis, values = self._values(tick)
        return Signal(axis, self._sign * values, self._limit, self._clear)

    def _values(self, tick: Tick) -> tuple[Axis | PartAxis, Column]:
        """The compared values; of a job that several nodes report, the worst."""
        values = tick.column(self._name)
        if self._entity is Entity.NODE:
            return tick.nodes, values
        parts = tick.parts(self._entity)
        if self._entity is not Entity.JOB:
            return parts, values
        names = [str(job) for jobs in parts.parts for job in jobs]
        if set(names) != set(self._jobs.keys):
            self._jobs = Axis(sorted(set(names)))
        worst = np.full(len(self._jobs), NO_VALUE)
        indices = [self._jobs.index_of[name] for name in names]
        np.fmax.at(worst, indices, self._sign * values)
        return self._jobs, self._sign * worst

    def verdict(self, key: Hashable, tick: Tick) -> Verdict:
        """Names the part and its value."""
        axis, values = self._values(tick)
        name, part = key if isinstance(key, tuple) else (str(key), None)
        of_job = self._entity is Entity.JOB
        node, job = (None, name) if of_job else (name, tick.job_of.get(name))
        component = None
        if part is not None:
            component = f"{self._entity}:{part}"
            if self._entity is Entity.RANK:
                job = str(part).rpartition("/")[0] or job
        index = axis.find(key)
        value = NO_VALUE if index is None else float(values[index])
        shown, limit = self._shown(value), self._shown(self._stated)
        where = " ".join(filter(None, (node or job, component)))
        return Verdict(
            fields={
                "where": where,
                "node": node or "",
                "component": component or "",
                "job": job or "",
                "quantity": self._name,
                "value": shown,
                "limit": limit,
            },
            job=job,
            node=node,
            component=component,
            evidence=(
                Evidence(
                    f"{component + ': ' if component else ''}{self._name} is {shown}, "
                    f"limit {limit}",
                    node,
                    self._name,
                    value,
                    self._stated,
                ),
            ),
        )

    def reset(self) -> None:
        pass

    def _shown(self, value: float) -> str:
        return units.with_unit(value, CATALOG[self._name].unit)
