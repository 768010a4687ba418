"""Expressions for panels: which series, over what, and which of them.

Several exporters may report one node (its own agent, and one for the cluster), so values are
taken by their own labels, never summed over instances.
"""

from collections.abc import Callable

from trntop.core.model import Severity

SCOPE = ('job=~"$job"', 'instance=~"$instance"')
"""On every selector: the scrape job and the instances that the user chose."""

NODE = 'node=~"$node"'
JOB = 'training_job=~"$training_job"'
HERE = 'node="$node"'
"""Where one alone is chosen: its name is no pattern."""
RUN = 'training_job="$training_job"'
OF_NODE = 'node=~"$node|"'
"""Of the chosen nodes, or of none: incidents of a whole job name no node."""
OF_JOB = 'training_job=~"$training_job|"'

TROUBLE = 'event!~"readings|reports|starts"'
"""Events of sources that are not how things go."""

Narrow = Callable[[Callable[..., str]], str]
"""Narrows incidents: given how matchers become a vector, the vector that is wanted."""

OPENED = "trn_incident_opened_timestamp_seconds"
INCIDENT = "kind, severity, training_job, node, component"
"""The labels of an incident."""


def series(metric: str, *matchers: str) -> str:
    """A selector in the user's scope."""
    return f"{metric}{{{', '.join((*SCOPE, *matchers))}}}"


def most(by: str, vector: str) -> str:
    """The largest value for each combination of the labels `by`."""
    return f"max by ({by}) ({vector})" if by else f"max({vector})"


def mean(by: str, vector: str) -> str:
    """The mean, as the screen takes it of what every node reports of one job."""
    return f"avg by ({by}) ({vector})"


def rate(metric: str, *matchers: str) -> str:
    """Change of a counter per second."""
    return f"rate({series(metric, *matchers)}[$__rate_interval])"


def of_job(vector: str) -> str:
    """Those of the vector's nodes that the chosen training job runs on."""
    return f"{vector} and on (node) {series('trn_job_info', RUN)}"


def worst_rows(metric: str, *matchers: str, by: str = "node", lowest: bool = False) -> str:
    """A heat map's rows: the worst by their mean over the shown time, so the choice is steady."""
    chosen = series(metric, *matchers)
    over = f"max by ({by}) (avg_over_time({chosen}[$__range] @ end()))"
    pick = "bottomk" if lowest else "topk"
    return f"{most(by, chosen)} and on ({by}) {pick}($top, {over})"


def severity_rank(by: str, *matchers: str) -> str:
    """How bad the worst open incident is: 1 for the least severity, larger is worse."""
    ranked = " or ".join(
        series("trn_incident_active", f'severity="{severity}"', *matchers)
        + f" * {severity.rank + 1}"
        for severity in reversed(Severity)
    )
    return most(by, ranked)


def chosen(*matchers: str) -> Narrow:
    """Incidents that match."""
    return lambda vector: vector(*matchers)


def at_node(vector: Callable[..., str]) -> str:
    """Incidents of the one node, and of the jobs that run on it where they name no node."""
    jobs, nowhere = series("trn_job_info", HERE), vector('node=""')
    return f"({vector(HERE)} or {nowhere} and on (training_job) {jobs})"


def at_job(vector: Callable[..., str]) -> str:
    """Incidents of the one job, and of its nodes where they name no job."""
    ours = of_job(vector('training_job=""', 'node!=""'))
    return f"({vector(RUN)} or {ours})"


def incidents(*matchers: str, of: str = "trn_incident_active") -> str:
    """Open incidents, each once; or since when, with `OPENED`.

    Those of an exporter that an aggregator reads are the aggregator's.
    """
    aggregated = f"unless on (job, instance) {series('trntop_aggregated')} == 1"
    return most(INCIDENT, f"{series(of, *matchers)} {aggregated}")


def count_or_none(counted: str) -> str:
    """A count of incidents that is 0 only where some rule could judge, else absent."""
    return f"count({counted}) or max({series('trn_incidents')}) * 0"
