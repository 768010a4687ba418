"""The quantities that the rules read, as each detector declares them."""

from collections.abc import Iterable

from trntop.analysis.custom import rule_of
from trntop.analysis.rulebook import RULEBOOK
from trntop.core.custom_rule import OwnRule
from trntop.core.settings import Analysis
from trntop.pipeline.runs import Runs


def rule_inputs(own: Iterable[OwnRule] = ()) -> frozenset[str]:
    """The quantities that the rulebook and the custom rules read: an analysis needs no others."""
    rules = (*RULEBOOK, *map(rule_of, own))
    detectors = (rule.detector(Analysis(), 1.0) for rule in rules)
    return Runs.inputs.union(*(detector.inputs for detector in detectors))
