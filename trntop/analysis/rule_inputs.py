"""The quantities that the rules read, as each detector declares them."""

from collections.abc import Iterable

from trntop.analysis.custom import rule_of
from trntop.analysis.outliers import Outliers
from trntop.analysis.rulebook import RULEBOOK
from trntop.catalog import CATALOG, Entity
from trntop.core.custom_rule import CustomRule
from trntop.core.settings import Analysis
from trntop.pipeline.runs import Runs


def rule_inputs(custom: Iterable[CustomRule] = ()) -> frozenset[str]:
    """The quantities that the rulebook and the custom rules read: an analysis needs no others."""
    rules = (*RULEBOOK, *map(rule_of, custom))
    detectors = (rule.detector(Analysis(), 1.0) for rule in rules)
    return Runs.inputs.union(Outliers.inputs, *(detector.inputs for detector in detectors))


def rule_columns(custom: Iterable[CustomRule] = ()) -> frozenset[str]:
    """What rules and roll-ups need of a node: all quantities of nodes and jobs, and of their parts
    those that rules read.
    """
    read = rule_inputs(custom)
    return frozenset(
        name
        for name, quantity in CATALOG.items()
        if name in read or quantity.entity in (Entity.NODE, Entity.JOB)
    )
