"""What a rule file for Prometheus consists of.

https://prometheus.io/docs/prometheus/latest/configuration/recording_rules/ and alerting_rules/
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import yaml

Value = str | int | float | Mapping[str, "Value"] | Sequence["Value"]

BY_PLACE = ("instance", "node", "pod", "provenance")
"""Labels by which the same series of two nodes differ; summed over, they go."""
BY_TARGET = "on (job, instance)"
"""What is matched by whose page it stands on."""
HEAD = "# Made by {}, from the rulebook and the settings in force there.\n"


@dataclass(frozen=True, slots=True)
class Recording:
    """A value that Prometheus computes at each evaluation and keeps: `level:metric:operations`."""

    record: str
    expr: str

    def document(self) -> Mapping[str, Value]:
        """As the rule file has it."""
        return {"record": self.record, "expr": self.expr}


@dataclass(frozen=True, slots=True)
class Alert:
    """A condition of which people are told."""

    alert: str
    expr: str
    labels: Mapping[str, str]
    """Among them `severity`: critical, warning or info."""
    annotations: Mapping[str, str]
    """`summary`, a sentence, and `description`; links where there are any."""
    wait: str = ""
    """How long it must hold; empty where the expression has its own hold."""

    def document(self) -> Mapping[str, Value]:
        """As the rule file has it."""
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
    """Rules that are evaluated one after the other, at one time."""

    name: str
    rules: Sequence[Recording | Alert] = field(default_factory=tuple)

    def document(self) -> Mapping[str, Value]:
        """As the rule file has it."""
        return {"name": self.name, "rules": [rule.document() for rule in self.rules]}


def labels_of(*names: str) -> str:
    """Labels between parentheses."""
    return f"({', '.join(names)})"


def over(operation: str, expr: str, *names: str) -> str:
    """An aggregation over nodes, and over the labels `names`."""
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
    """The value as YAML, mappings in the order given."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000)


def rule_file(groups: Sequence[Group]) -> str:
    """A rule file: commonly `trntop.rules.yml`."""
    return HEAD.format("trntop rules prometheus") + yaml_text(
        {"groups": [group.document() for group in groups]}
    )
