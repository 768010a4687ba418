"""The elements of a rule file for Prometheus.

https://prometheus.io/docs/prometheus/latest/configuration/recording_rules/ and alerting_rules/
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import yaml

Value = str | int | float | Mapping[str, "Value"] | Sequence["Value"]

BY_PLACE = ("instance", "node", "pod", "provenance")
"""Labels that differ between the series of two nodes; aggregations remove them."""
BY_TARGET = "on (job, instance)"
"""Matches series of the same exporter."""
HEAD = "# Made by {} from the rulebook and its settings.\n"


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording rule, named `level:metric:operations`."""

    record: str
    expr: str

    def document(self) -> Mapping[str, Value]:
        return {"record": self.record, "expr": self.expr}


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert."""

    alert: str
    expr: str
    labels: Mapping[str, str]
    """Among them `severity`: critical, warning or info."""
    annotations: Mapping[str, str]
    """`summary`, `description` and links."""
    wait: str = ""
    """Its `for`; empty if the expression has its own."""

    def document(self) -> Mapping[str, Value]:
        wait = {"for": self.wait} if self.wait else {}
        return {
            "alert": self.alert,
            "expr": self.expr,
            **wait,
            "labels": self.labels,
            "annotations": self.annotations,
        }


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that are evaluated in order at the same time."""

    name: str
    rules: Sequence[Recording | Alert] = field(default_factory=tuple)

    def document(self) -> Mapping[str, Value]:
        return {"name": self.name, "rules": [rule.document() for rule in self.rules]}


def labels_of(*names: str) -> str:
    return f"({', '.join(names)})"


def over(operation: str, expr: str, *names: str) -> str:
    """An aggregation over nodes and the labels `names`."""
    return f"{operation} without {labels_of(*BY_PLACE, *names)} ({expr})"


class _Dumper(yaml.SafeDumper):
    """Writes expressions as blocks and indents lists."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text or '"' in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _text)


def yaml_text(value: Mapping[str, Value]) -> str:
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000)


def rule_file(groups: Sequence[Group]) -> str:
    return HEAD.format("trntop rules prometheus") + yaml_text(
        {"groups": [group.document() for group in groups]}
    )
