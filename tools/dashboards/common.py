"""Panels of several dashboards."""

from grafana_foundation_sdk.models import dashboard

from trntop.analysis.rulebook import RULEBOOK
from trntop.core.model import Severity

from .board import to_efa_devices, to_job, to_node
from .panels import (
    CALM,
    COLORS,
    CRITICAL,
    LIMITS,
    SEVERITIES,
    UNKNOWN,
    WARNING,
    WELL,
    Column,
    Query,
    above,
    prose,
    rows,
    stats,
)
from .promql import (
    INCIDENT,
    OPENED,
    TROUBLE,
    Narrow,
    count_or_none,
    incidents,
    most,
    rate,
    series,
    severity_rank,
)

GIGABITS = "bps"
"""EFA rates are in bits per second, as on the screen and in data sheets."""

SHARE_SCALE = 2 * LIMITS.comm_share
"""Where the colours of communication shares are full: the limit is in the middle."""


def data(*matchers: str, width: int = 3, height: int = 4) -> dashboard.Panel:
    """Whether the data is simulated."""
    simulated = series("trn_instance_info", 'simulated="true"', *matchers)
    live = series("trn_instance_info", 'simulated="false"', *matchers)
    return stats(
        "Data source",
        "SIMULATED if at least one node is simulated: do not act on these values.",
        Query(f"max({simulated}) or max({live}) * 0"),
        mapped={"1": ("SIMULATED", "purple"), "0": ("live", UNKNOWN)},
        filled=True,
        width=width,
        height=height,
    )


def found(narrow: Narrow, width: int = 24, height: int = 8) -> dashboard.Panel:
    """Open incidents, worst first."""
    ranked = narrow(lambda *matchers: severity_rank(INCIDENT, *matchers))
    opened = narrow(lambda *matchers: incidents(*matchers, of=OPENED))
    return rows(
        "Open incidents",
        "Worst first; the same as on the screen and "
        "in `trntop analyze`. An empty table means healthy only for rules that can be evaluated. "
        "Meaning and remedy of each kind: docs/runbooks.",
        {"kind": "kind", "node": "node", "component": "component", "training_job": "job"},
        Column("severity", ranked, mapped=SEVERITIES),
        Column("since", f"{opened} * 1000", unit="dateTimeAsIsoNoDateIfToday"),
        sort="severity",
        hidden=("severity",),
        links={"node": [to_node(), to_efa_devices()], "job": [to_job()]},
        width=width,
        height=height,
    )


def counts(narrow: Narrow, width: int = 4) -> dashboard.Panel:
    """How many incidents are open, by severity."""

    def of(severity: Severity) -> str:
        return narrow(lambda *matchers: incidents(f'severity="{severity}"', *matchers))

    return stats(
        "Open incidents by severity",
        "0 only if at least one rule can be evaluated, else no value.",
        *(
            Query(
                count_or_none(of(severity)),
                str(severity),
                [(None, CALM), (1, COLORS[severity])],
            )
            for severity in (Severity.CRITICAL, Severity.WARNING)
        ),
        width=width,
    )


def judged(width: int = 8, height: int = 8) -> dashboard.Panel:
    """Each rule: ok, open incidents, or no data."""
    silent = " or ".join(
        f'label_replace(vector(-1), "kind", "{rule.kind}", "", "")' for rule in RULEBOOK
    )
    counted = f"count by (kind) ({incidents()})"
    return stats(
        "Rules and their open incidents",
        "*ok*: the rule is evaluated and finds nothing. *no data*: "
        "the rule cannot be evaluated because no node has its input data.",
        Query(f"{counted} or {most('kind', series('trn_incidents'))} * 0 or {silent}", "{{kind}}"),
        steps=[(None, UNKNOWN), (0, WELL), (1, WARNING)],
        mapped={"-1": ("no data", UNKNOWN), "0": ("ok", WELL)},
        width=width,
        height=height,
    )


def states(*matchers: str, width: int = 12, height: int = 8) -> dashboard.Panel:
    """Sources, those that are down first."""
    by = "node, source"
    up = most(by, series("trntop_source_up", *matchers))
    age = most(by, series("trntop_source_age_seconds", *matchers))
    return rows(
        "Sources",
        "Data sources of each node. Values of a source that is down are absent, not old. *never*: "
        "no data so far; the source may not exist there, such as Slurm. `trntop doctor` on the "
        "node shows what a source needs.",
        {"node": "node", "source": "source"},
        Column(
            "up",
            # One that was never up has no age; it is no trouble, and comes last.
            f"{up} == 1 or {up} and {age} or {up} + 2",
            mapped={"0": ("down", CRITICAL), "1": ("up", WELL), "2": ("never", UNKNOWN)},
        ),
        Column("age", age, unit="s"),
        Column(
            "problems/s",
            f"sum by ({by}) ({rate('trntop_source_events_total', TROUBLE, *matchers)})",
            unit="cps",
            steps=above(0.0001),
        ),
        sort="up",
        rising=True,
        links={"node": [to_node()]},
        width=width,
        height=height,
    )


def meanings() -> dashboard.Panel:
    """Each kind: its condition with the default limits, and the first step."""
    table = "\n".join(
        f"| `{rule.kind}` | {rule.stated(LIMITS)} | {rule.advice} |" for rule in RULEBOOK
    )
    return prose(
        "Kinds of incidents",
        "With the default limits; `trntop rules` shows those in force. Runbooks: docs/runbooks"
        f".\n\n| kind | condition | first step |\n|---|---|---|\n{table}\n",
        height=16,
    )
