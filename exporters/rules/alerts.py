"""Alerts for Prometheus: one for each kind of incident, and those on the exporters themselves.

Labels and annotations follow the conventions of monitoring mixins
(https://github.com/monitoring-mixins/docs): `severity` is critical, warning or info; `summary`
is a fixed sentence, `description` names the location and the first step.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from trntop.analysis.rule import Rule
from trntop.analysis.rulebook import KINDS, RULEBOOK
from trntop.analysis.runbook import FOLDER
from trntop.catalog import METRIC_PREFIX, NEURON_MONITOR
from trntop.core.settings import Analysis as Settings
from trntop.sources import PROBES, TRAINING_SOURCES

from .model import BY_TARGET, Alert, Group, over
from .recording import AGGREGATED, HELD, HELD_FOR, INSTANCE, NODES, PEERS, WATCHING, held, watching

NO_DATA_FOR = "15m"
DOWN_FOR = "5m"
SOURCE_DOWN_FOR = "10m"
PEER_WINDOW, PEER_PAST, PEER_GAP = "5m", "1h", "10m"
"""A node's ratio to its peers now and in the past hour; the gap keeps the two apart."""

_PEERS_KIND = "straggler"
"""The kind of incident that a slow node is."""


_BOARDS = {"efa_degraded": "efa", "efa_down": "efa", "latency_regression": "efa"}
_JOB_KINDS = {rule.kind for rule in RULEBOOK if rule.ends_with_job}


@dataclass(frozen=True, slots=True)
class Links:
    """The links of annotations, and the targets."""

    runbooks: str = FOLDER
    """The prefix of `KIND.md`."""
    dashboards: str = ""
    """The prefix of `/d/UID`: the address of Grafana."""
    selector: str = 'job="trntop"'
    """Label matchers of the scrape jobs of trntop, for `up`."""
    titles: Mapping[str, str] = field(default_factory=dict)
    """Kind → title of its runbook."""

    def of(self, kind: str) -> dict[str, str]:
        """The links of an alert on a kind of incident."""
        board = _BOARDS.get(kind, "job" if kind in _JOB_KINDS else "node")
        where = "".join(
            f"&var-{name}={{{{ . | urlquery }}}}".join(
                (f"{{{{ with $labels.{name} }}}}", "{{ end }}")
            )
            for name in ("node", "training_job")
        )
        links = {"dashboard_url": f"{self._board(board)}?from=now-1h&to=now{where}"}
        return links | self.runbook(kind)

    def runbook(self, kind: str) -> dict[str, str]:
        return {"runbook_url": f"{self.runbooks}{kind}.md"} if kind in self.titles else {}

    def cluster(self) -> dict[str, str]:
        return {"dashboard_url": self._board("cluster")}

    def _board(self, name: str) -> str:
        return f"{self.dashboards}/d/trntop-{name}"


def name_of(kind: str) -> str:
    """The name of the alert on a kind of incident; custom rules have a prefix of their own."""
    camel = "".join(part[:1].upper() + part[1:] for part in kind.split("_"))
    return f"Trntop{'' if kind in KINDS else 'Own'}{camel}"


def incident_group(rules: Sequence[Rule], links: Links) -> Group:
    """Two alerts for each rule in force: the incident, and that the rule cannot be evaluated."""
    alerts = [alert for rule in rules for alert in (_incident(rule, links), _no_data(rule, links))]
    return Group("trntop-incidents", (held(), watching(), *alerts))


def _incident(rule: Rule, links: Links) -> Alert:
    title = links.titles.get(rule.kind, "")
    first = f" Next step: {_text(rule.advice)}" if rule.advice else ""
    return Alert(
        name_of(rule.kind),
        # The same incident of two exporters, an agent and its aggregator say, is one alert.
        f'min without (instance) ({HELD}{{kind="{rule.kind}"}})',
        # The exporter's: an incident may be more severe than its rule.
        {"severity": "{{ $labels.severity }}"},
        {
            "summary": _sentence(title or f"the rule {rule.kind} has an open incident"),
            # A demo must be recognizable.
            "description": "{{ with $labels.provenance }}({{ . }}) {{ end }}"
            "{{ with $labels.training_job }}{{ . }}: {{ end }}"
            "{{ with $labels.node }}{{ . }} {{ end }}"
            "{{ with $labels.component }}{{ . }} {{ end }}"
            f"since {{{{ $value | humanizeTimestamp }}}}.{_condition(rule.kind)}{first}",
            **links.of(rule.kind),
        },
    )


def _no_data(rule: Rule, links: Links) -> Alert:
    needs = " or ".join(rule.needs) or "the rule in force there"
    kind = f'{METRIC_PREFIX}incidents{{kind="{rule.kind}"}}'
    return Alert(
        f"{name_of(rule.kind)}NoData",
        over(
            "count",
            f"{WATCHING} unless {BY_TARGET} {kind}",
            "version", "python",
        ),
        {"severity": "info", "kind": rule.kind},
        {
            "summary": f"trntop cannot evaluate the `{rule.kind}` rule: its input data is missing.",
            "description": f"{{{{ $value }}}} exporters of {{{{ $labels.job }}}} have no data for "
            f"{rule.kind}. No incident from these exporters does not mean the job is healthy. "
            f"The rule needs {needs}.",
            **links.runbook(rule.kind),
        },
        NO_DATA_FOR,
    )  # fmt: skip


def watch_group(settings: Settings, links: Links) -> Group:
    """Alerts on the exporters themselves."""
    return Group("trntop-watch", tuple(_watch(settings, links)))


def _watch(settings: Settings, links: Links) -> Iterator[Alert]:
    cluster = links.cluster()
    yield Alert(
        "TrntopDown",
        f"up{{{links.selector}}} == 0",
        {"severity": "critical"},
        {
            "summary": "A trntop exporter cannot be scraped.",
            "description": "{{ $labels.instance }} of {{ $labels.job }} does not respond: the "
            "node is down, or trntop export is not running on it. Its open incidents are kept "
            "for a while.",
            **links.runbook("node_silent"), **cluster,
        },
        DOWN_FOR,
    )  # fmt: skip
    yield Alert(
        "TrntopAbsent",
        f"absent(up{{{links.selector}}})",
        {"severity": "critical"},
        {
            "summary": "Prometheus has no trntop exporter to scrape.",
            "description": f"No target matches {links.selector}: the scrape job is missing, or its "
            "service discovery finds nothing.",
            **cluster,
        },
        DOWN_FOR,
    )
    yield Alert(
        "TrntopNoNode",
        f"{NODES} == 0",
        {"severity": "warning"},
        {
            "summary": "A trntop exporter has no node.",
            "description": "{{ $labels.instance }} of {{ $labels.job }} responds, but none of "
            "its sources has reported a node. Run trntop doctor there.",
            **cluster,
        },
        DOWN_FOR,
    )
    excluded, up = "|".join((*TRAINING_SOURCES, *PROBES)), "trntop_source_up"
    yield Alert(
        "TrntopSourceDown",
        # Sources fed by the training loop pause with it. A source without an age never reported
        # and may not exist: no node has all of Slurm, a kubelet and EFA.
        f'{up}{{source!~"{excluded}"}} == 0\nand (trntop_source_age_seconds or '
        f'{up}{{source="{NEURON_MONITOR}"}})',
        {"severity": "warning"},
        {
            "summary": "A source of a node is down.",
            "description": "{{ $labels.source }} of {{ $labels.node }} is down: its values are "
            "missing, and rules that need them are not evaluated. Run trntop doctor there.",
            **links.of("node_silent"),
        },
        SOURCE_DOWN_FOR,
    )
    yield Alert(
        "TrntopSeriesDropped",
        "trntop_series_dropped > 0",
        {"severity": "warning"},
        {
            "summary": "A metrics page exceeds the limit on series.",
            "description": "{{ $labels.instance }} drops {{ $value }} series from its page "
            "{{ $labels.page }}. Raise export.max_series, or export fewer nodes.",
            **cluster,
        },
        DOWN_FOR,
    )
    if _PEERS_KIND not in settings.disabled:
        yield _slower_than_peers(settings, links)


def _slower_than_peers(settings: Settings, links: Links) -> Alert:
    """Compares a node with the others of its job, for exporters that have one node each.

    Its long-term offset is removed, as in the analyzer: stages of a pipeline always differ. An
    exporter of several nodes evaluates the rule `straggler` itself, an aggregator for its agents.
    """
    now = f"avg_over_time({PEERS}[{PEER_WINDOW}])"
    past = f"avg_over_time({PEERS}[{PEER_PAST}] offset {PEER_GAP})"
    alone = f"(count by (job, instance) ({INSTANCE}) == 1 unless {AGGREGATED} == 1)"
    return Alert(
        "TrntopSlowerThanPeers",
        f"{now}\n/ {past}\n> {1 + settings.straggler:g}\nand {BY_TARGET} {alone}",
        {"severity": "warning"},
        {
            "summary": "A node computes longer than its peers, compared with an hour ago.",
            "description": "{{ $labels.training_job }}: {{ $labels.node }} takes "
            "{{ $value | humanize }} times as long to compute a step as an hour ago, relative to "
            "the median of the job's nodes. Next step: check its clocks and power, other "
            "processes on its host and its data loading; then drain it.",
            **links.of(_PEERS_KIND),
        },
        "5m",
    )


def _condition(kind: str) -> str:
    """The condition with the limits of the exporters that judge, from their pages."""
    # An alert is held for a while after its incident has closed.
    series = f'{METRIC_PREFIX}rule_info{{kind=\\"{kind}\\",job=%q}}'
    query = f"group by (condition) (last_over_time({series}[{HELD_FOR}]))"
    return (
        f'{{{{ range printf "{query}" $labels.job | query }}}} '
        "Condition: {{ .Labels.condition }}.{{ end }}"
    )


def _sentence(phrase: str) -> str:
    text = _text(phrase)
    return f"{text[:1].upper()}{text[1:]}."


def _text(text: str) -> str:
    """Text with its braces escaped for templates."""
    return text.replace("{{", '{{ "{{" }}')
