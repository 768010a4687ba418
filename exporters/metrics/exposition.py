"""The two text formats in which pages of metrics are written, and what both share.

A family is a header and lines; the lines are the same in both formats, so that only headers are
written twice. A line has no timestamp, and an absent value has no line.

https://prometheus.io/docs/instrumenting/exposition_formats/ and
https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from trntop.catalog import Kind

END = "# EOF\n"
"""End of a page in OpenMetrics, which marks it as complete."""

_UNITS = ("bytes", "seconds", "ratio")
"""Units at the end of a family's name."""
_WHOLE = 1e15
"""Below this an integral float is exact and written without a fraction."""


class Format(Enum):
    """A text format; its value is its content type."""

    TEXT = "text/plain; version=0.0.4; charset=utf-8"
    OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

    @property
    def content_type(self) -> str:
        return self.value


@dataclass(frozen=True)
class Family:
    name: str
    kind: Kind
    help: str

    def header(self, written: Format) -> str:
        """The lines before its series: type, help and, in OpenMetrics, unit."""
        return self._text if written is Format.TEXT else self._openmetrics

    @cached_property
    def _text(self) -> str:
        help_text = self.help.replace("\\", "\\\\").replace("\n", "\\n")
        return f"# HELP {self.name} {help_text}\n# TYPE {self.name} {self.kind}\n"

    @cached_property
    def _openmetrics(self) -> str:
        # There the family's name has no suffix.
        name, kind = self.name, str(self.kind)
        if self.kind is Kind.COUNTER:
            # Counters of other exporters may lack the suffix.
            kind = "counter" if name.endswith("_total") else "unknown"
            name = name.removesuffix("_total")
        elif name.endswith("_info"):
            kind, name = "info", name.removesuffix("_info")
        unit = next((unit for unit in _UNITS if kind != "info" and name.endswith(f"_{unit}")), "")
        return (
            f"# TYPE {name} {kind}\n"
            + (f"# UNIT {name} {unit}\n" if unit else "")
            + f"# HELP {name} {escape(self.help)}\n"
        )


Block = tuple[Family, list[str]]
"""A family and its lines, `name{labels} value` with a newline each."""


def escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def labels(pairs: Iterable[tuple[str, object]]) -> str:
    """`{name="value",…}`, without empty values: Prometheus treats them as missing."""
    inside = ",".join(f'{name}="{escape(str(value))}"' for name, value in pairs if value != "")
    return f"{{{inside}}}" if inside else ""


def shortest(value: float) -> float | int:
    """The same value, as the type with the shortest exact `repr`."""
    return int(value) if value.is_integer() and -_WHOLE < value < _WHOLE else value


def number(value: float) -> str:
    """The shortest exact text of a finite value."""
    return repr(shortest(value))
