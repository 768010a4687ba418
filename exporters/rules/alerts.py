"""Alerts for Prometheus: one for each kind of incident, and those that watch the watchers.

Labels and annotations follow the conventions of monitoring mixins
(https://github.com/monitoring-mixins/docs): `severity` is critical, warning or info; `summary`
is a fixed sentence, `description` names the case and what to look at first.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from trntop.analysis.rule import Rule
from trntop.catalog import METRIC_PREFIX, NEURON_MONITOR
from trntop.core.custom_rule import KINDS
from trntop.core.settings import Analysis as Settings
from trntop.sources import PROBES, TRAINING_SOURCES

from .model import BY_TARGET, Alert, Group, over
from .recording import HELD, INSTANCE, PEERS, SELF, WATCHING, held, watching

NO_DATA_FOR = "15m"
DOWN_FOR = "5m"
SOURCE_DOWN_FOR = "10m"
PEER_WINDOW, PEER_PAST, PEER_GAP = "5m", "1h", "10m"
"""A node's slowness now against that of the past, with a gap, lest one become the other."""

_PEERS_KIND = "straggler"
"""Of which a slow node would be an incident, were its peers seen."""


_BOARDS = {"efa_degraded": "efa", "efa_down": "efa", "latency_regression": "efa"}
_JOB_KINDS = ("comm_bound", "straggler", "hang", "recompile", "checkpoint_stall")


@dataclass(frozen=True, slots=True)
class Links:
    """What annotations point at, and which targets are watched."""

    runbooks: str = "docs/runbooks/"
    """What stands before `KIND.md`."""
    dashboards: str = ""
    """What stands before `/d/UID`: the address of Grafana."""
    selector: str = 'job="trntop"'
    """Label matchers of the scrape jobs of trntop, of which `up` is asked."""
    titles: Mapping[str, str] = field(default_factory=dict)
    """Kind → what it means in a phrase, for kinds that have a runbook."""

    def of(self, kind: str) -> dict[str, str]:
        """The links of an alert on a kind of incident; without a runbook, none to one."""
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
        """The link to its runbook."""
        return {"runbook_url": f"{self.runbooks}{kind}.md"} if kind in self.titles else {}

    def cluster(self) -> dict[str, str]:
        """The links of an alert on no single node."""
        return {"dashboard_url": self._board("cluster")}

    def _board(self, name: str) -> str:
        return f"{self.dashboards}/d/trntop-{name}"


def name_of(kind: str) -> str:
    """The name of the alert on a kind of incident; those of a user's own rules stand apart."""
    camel = "".join(part[:1].upper() + part[1:] for part in kind.split("_"))
    return f"Trntop{'' if kind in KINDS else 'Own'}{camel}"


def incident_group(rules: Sequence[Rule], settings: Settings, links: Links) -> Group:
    """An alert for each rule in force, and one that it cannot judge."""
    alerts = [
        alert
        for rule in rules
        for alert in (_incident(rule, settings, links), _no_data(rule, links))
    ]
    return Group("trntop-incidents", (held(), watching(), *alerts))


def _incident(rule: Rule, settings: Settings, links: Links) -> Alert:
    title = links.titles.get(rule.kind, "")
    first = f" First: {_text(rule.advice)}" if rule.advice else ""
    return Alert(
        name_of(rule.kind),
        f'{HELD}{{kind="{rule.kind}"}}',
        # The exporter's: an incident may be worse than its rule says.
        {"severity": "{{ $labels.severity }}"},
        {
            "summary": _sentence(title or f"the rule {rule.kind} holds"),
            # Nobody shall get up for a demo.
            "description": "{{ with $labels.provenance }}({{ . }}) {{ end }}"
            "{{ with $labels.training_job }}{{ . }}: {{ end }}"
            "{{ with $labels.node }}{{ . }} {{ end }}"
            "{{ with $labels.component }}{{ . }} {{ end }}"
            "since {{ $value | humanizeTimestamp }}. "
            f"Looked for: {_text(rule.stated(settings))}.{first}",
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
            "summary": f"Nothing tells whether there is {rule.kind}.",
            "description": f"Exporters of {{{{ $labels.job }}}} that cannot judge {rule.kind}: "
            f"{{{{ $value }}}}. Its absence from them is no health. It needs {needs}.",
            **links.runbook(rule.kind),
        },
        NO_DATA_FOR,
    )  # fmt: skip


def watch_group(settings: Settings, links: Links) -> Group:
    """Alerts on what no exporter can say of itself, or of others."""
    return Group("trntop-watch", tuple(_watch(settings, links)))


def _watch(settings: Settings, links: Links) -> Iterator[Alert]:
    cluster = links.cluster()
    yield Alert(
        "TrntopDown",
        f"up{{{links.selector}}} == 0",
        {"severity": "critical"},
        {
            "summary": "An exporter of trntop cannot be scraped.",
            "description": "{{ $labels.instance }} of {{ $labels.job }} does not answer: the node "
            "is down, or trntop export on it. Incidents that it reported stand for a while.",
            **links.runbook("node_silent"), **cluster,
        },
        DOWN_FOR,
    )  # fmt: skip
    yield Alert(
        "TrntopAbsent",
        f"absent(up{{{links.selector}}})",
        {"severity": "critical"},
        {
            "summary": "Prometheus has no exporter of trntop to scrape.",
            "description": f"No target matches {links.selector}: the scrape job is gone, or its "
            "service discovery finds nothing.",
            **cluster,
        },
        DOWN_FOR,
    )
    yield Alert(
        "TrntopNoNode",
        f"{SELF} unless {BY_TARGET} {INSTANCE}",
        {"severity": "warning"},
        {
            "summary": "An exporter of trntop knows of no node.",
            "description": "{{ $labels.instance }} of {{ $labels.job }} answers, but none of its "
            "sources has told of a node. Try there: trntop doctor.",
            **cluster,
        },
        DOWN_FOR,
    )
    told, up = "|".join((*TRAINING_SOURCES, *PROBES)), "trntop_source_up"
    yield Alert(
        "TrntopSourceDown",
        # What speaks when a training loop does is silent when that rests. One that was never heard
        # (it has no age) need not exist: no node has all of Slurm, a kubelet and EFA.
        f'{up}{{source!~"{told}"}} == 0\nand (trntop_source_age_seconds or '
        f'{up}{{source="{NEURON_MONITOR}"}})',
        {"severity": "warning"},
        {
            "summary": "A source of a node is not heard.",
            "description": "{{ $labels.source }} of {{ $labels.node }}: what it tells is absent "
            "from the pages, and rules that need it do not judge. Try there: trntop doctor.",
            **links.of("node_silent"),
        },
        SOURCE_DOWN_FOR,
    )
    yield Alert(
        "TrntopSeriesDropped",
        "trntop_series_dropped > 0",
        {"severity": "warning"},
        {
            "summary": "A page of metrics is cut short.",
            "description": "{{ $labels.instance }} leaves {{ $value }} series off its page "
            "{{ $labels.page }}: see export.max_series, or have it speak for fewer nodes.",
            **cluster,
        },
        DOWN_FOR,
    )
    if _PEERS_KIND not in settings.disabled:
        yield _slower_than_peers(settings, links)


def _slower_than_peers(settings: Settings, links: Links) -> Alert:
    """What an exporter that sees one node cannot judge: its node among those of the job.

    Its own long-run bias is taken away, as the analyzer does: stages of a pipeline differ for
    good. Where one exporter sees several nodes, its rule `straggler` judges.
    """
    now = f"avg_over_time({PEERS}[{PEER_WINDOW}])"
    past = f"avg_over_time({PEERS}[{PEER_PAST}] offset {PEER_GAP})"
    alone = f"count by (job, instance) ({INSTANCE}) == 1"
    return Alert(
        "TrntopSlowerThanPeers",
        f"{now}\n/ {past}\n> {1 + settings.straggler:g}\nand {BY_TARGET} {alone}",
        {"severity": "warning"},
        {
            "summary": "One node of a job computes longer than it did, compared with the others.",
            "description": "{{ $labels.training_job }}: {{ $labels.node }} needs "
            "{{ $value | humanize }} times as long to compute a step as it did an hour ago, "
            "measured by the median of the job's nodes. First: its clocks and power, other "
            "processes on its host, its data loading; then drain.",
            **links.of(_PEERS_KIND),
        },
        "5m",
    )


def _sentence(phrase: str) -> str:
    text = _text(phrase)
    return f"{text[:1].upper()}{text[1:]}."


def _text(text: str) -> str:
    """Text as it stands, whatever a template would make of its braces."""
    return text.replace("{{", '{{ "{{" }}')
