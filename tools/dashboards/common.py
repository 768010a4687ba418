"""Panels that stand on several dashboards."""

from grafana_foundation_sdk.models import dashboard

from trntop.analysis.rulebook import RULEBOOK
from trntop.core.model import Severity

from .board import to_cards, to_job, to_node
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
    one,
    prose,
    rows,
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


def data(*matchers: str, width: int = 3) -> dashboard.Panel:
    """Whether what is shown is simulated."""
    simulated = series("trn_instance_info", 'simulated="true"', *matchers)
    live = series("trn_instance_info", 'simulated="false"', *matchers)
    return one(
        "Data",
        "SIMULATED as soon as one of the nodes is made up: nothing here is then to be acted on.",
        Query(f"max({simulated}) or max({live}) * 0"),
        mapped={"1": ("SIMULATED", "purple"), "0": ("real", UNKNOWN)},
        filled=True,
        width=width,
    )


def found(narrow: Narrow, width: int = 24, height: int = 8) -> dashboard.Panel:
    """Open incidents, worst first."""
    ranked = narrow(lambda *matchers: severity_rank(INCIDENT, *matchers))
    opened = narrow(lambda *matchers: incidents(*matchers, of=OPENED))
    return rows(
        "Open incidents",
        "What the analysis found and what still lasts, worst first; the same as on the screen and "
        "in `trntop analyze`. An empty table is good news only for the kinds that can be judged. "
        "What each kind means and what to do about it: docs/runbooks.",
        {"kind": "kind", "node": "node", "component": "component", "training_job": "job"},
        Column("severity", ranked, mapped=SEVERITIES),
        Column("since", f"{opened} * 1000", unit="dateTimeAsIsoNoDateIfToday"),
        sort="severity",
        hidden=("severity",),
        links={"node": [to_node(), to_cards()], "job": [to_job()]},
        width=width,
        height=height,
    )


def counts(narrow: Narrow, width: int = 4) -> dashboard.Panel:
    """How many incidents are open, by severity."""

    def of(severity: Severity) -> str:
        return narrow(lambda *matchers: incidents(f'severity="{severity}"', *matchers))

    return one(
        "Open incidents",
        "By severity. 0 only where at least one kind of incident can be judged, else absent.",
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
    """Each kind of incident: well, how many, or not judged."""
    silent = " or ".join(
        f'label_replace(vector(-1), "kind", "{rule.kind}", "", "")' for rule in RULEBOOK
    )
    counted = f"count by (kind) ({incidents()})"
    return one(
        "What is looked for",
        "Open incidents of each kind. *well*: the rule has what it needs and finds nothing. "
        "*cannot tell*: no node has the values that the rule goes by, so silence says nothing.",
        Query(f"{counted} or {most('kind', series('trn_incidents'))} * 0 or {silent}", "{{kind}}"),
        steps=[(None, UNKNOWN), (0, WELL), (1, WARNING)],
        mapped={"-1": ("cannot tell", UNKNOWN), "0": ("well", WELL)},
        width=width,
        height=height,
    )


def states(*matchers: str, width: int = 12, height: int = 8) -> dashboard.Panel:
    """Sources, silent ones first."""
    by = "node, source"
    up = most(by, series("trntop_source_up", *matchers))
    age = most(by, series("trntop_source_age_seconds", *matchers))
    return rows(
        "Sources",
        "What feeds each node. Values of a silent source are absent everywhere, not old. *never* "
        "heard was one that need not be there, such as Slurm's where there is none; "
        "`trntop doctor` on the node says what it needs.",
        {"node": "node", "source": "source"},
        Column(
            "heard",
            # One that was never heard has no age; it is no trouble, and stands last.
            f"{up} == 1 or {up} and {age} or {up} + 2",
            mapped={"0": ("silent", CRITICAL), "1": ("heard", WELL), "2": ("never", UNKNOWN)},
        ),
        Column("age", age, unit="s"),
        Column(
            "problems/s",
            f"sum by ({by}) ({rate('trntop_source_events_total', TROUBLE, *matchers)})",
            unit="cps",
            steps=above(0.0001),
        ),
        sort="heard",
        rising=True,
        links={"node": [to_node()]},
        width=width,
        height=height,
    )


def meanings() -> dashboard.Panel:
    """What each kind is, with the rulebook's numbers, and what to do first."""
    table = "\n".join(
        f"| `{rule.kind}` | {rule.stated(LIMITS)} | {rule.advice} |" for rule in RULEBOOK
    )
    return prose(
        "Kinds of incidents",
        "With the default limits; `trntop rules` says which are in force, and docs/runbooks how "
        f"to go on.\n\n| kind | holds when | look first at |\n|---|---|---|\n{table}\n",
        height=16,
    )
