"""What is wrong, where, and since when: detectors on columns, one table of rules."""

from trntop.analysis.analyzer import Analyzer
from trntop.analysis.rule import Rule
from trntop.analysis.rulebook import RULEBOOK

__all__ = ["RULEBOOK", "Analyzer", "Rule"]
