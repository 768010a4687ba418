"""Recording rules: totals of clusters and training jobs, for dashboards.

Names are `level:metric:operations`. A level `cluster` is one scrape job, `training_job` a run on
it. Shares are a sum over a sum, of the nodes that have both; worst nodes are recorded too, because
means hide them.
"""

from collections.abc import Iterator

from trntop.catalog import METRIC_PREFIX

from ..metrics.status import INSTANCE_LABELS
from .model import BY_PLACE, BY_TARGET, Group, Recording, labels_of, over

WINDOW = "5m"
"""Window of rates: it spans several scrapes of 60 s even if some fail."""
CANDIDATES = 40
"""Number of the worst nodes recorded per metric."""
FEWEST_PEERS = 4
"""Minimum nodes of a job for a meaningful median."""

SELF, INSTANCE = "trntop_build_info", f"{METRIC_PREFIX}instance_info"
NODES, AGGREGATED = "trntop_nodes", "trntop_aggregated"
WATCHING = f"exporter:{SELF}:with_nodes"
HELD = f"incident:{METRIC_PREFIX}incident_opened_timestamp_seconds:held"
PEERS = f"node:{METRIC_PREFIX}job_compute_seconds:ratio_to_median"
HELD_FOR = "15m"
"""How long incidents stay after their exporter is lost."""
STARTING = 60
"""Seconds for which they stay after it has started: it may be reading its past."""

_SUMMED = (
    "node_neuroncores",
    "node_neuroncores_busy",
    "node_neuroncore_flops_per_second",
    "node_device_memory_used_bytes",
    "node_device_memory_total_bytes",
    "node_hbm_bytes_per_second",
    "node_efa_tx_bytes_per_second",
    "node_efa_rx_bytes_per_second",
    "node_efa_cards",
    "node_efa_cards_expected",
    "node_devices",
)
_WORST = (
    ("min", "node_neuroncore_utilization_min_ratio"),
    ("max", "node_device_memory_used_max_ratio"),
    ("max", "node_efa_retransmit_max_ratio"),
    ("max", "node_efa_tx_imbalance_ratio"),
    ("max", "node_device_latency_p99_seconds"),
)
_ENDS = (
    ("topk", "node_efa_retransmit_max_ratio"),
    ("bottomk", "node_neuroncore_utilization_mean_ratio"),
    ("topk", "node_device_memory_used_max_ratio"),
)
_COUNTED = (
    "node_executions_completed",
    "node_executions_failed",
)


def recording_groups() -> tuple[Group, ...]:
    """All recording rules except those of alerts."""
    return (
        Group("trntop-nodes", tuple(_nodes())),
        Group("trntop-worst", tuple(_worst())),
        Group("trntop-clusters", tuple(_clusters())),
        Group("trntop-training-jobs", tuple(_jobs())),
    )


def held() -> Recording:
    """Start times of open incidents, in unix seconds.

    Those of an exporter that an aggregator reads are left out: the aggregator judges its nodes.
    Those of an exporter that cannot be scraped, or has just started, keep their last value: missing
    data is not a recovery. For that the rule reads its own previous value.
    """
    active = f"{METRIC_PREFIX}incident_active"
    opened = f"{METRIC_PREFIX}incident_opened_timestamp_seconds"
    return Recording(
        HELD,
        f"(\n  {active} * {opened}\n  or\n  (\n    {HELD}\n    and {BY_TARGET}\n    (\n"
        f"      (up == 0 and max_over_time(up[{HELD_FOR}]) == 1)\n"
        f"      or\n      process_start_time_seconds > time() - {STARTING}\n    )\n  )\n)\n"
        f"unless {BY_TARGET} ({AGGREGATED} == 1)",
    )


def watching() -> Recording:
    """The exporters with a node: kinds that they do not report, they cannot evaluate.

    Evaluated once, not by the alert of each kind.
    """
    return Recording(WATCHING, f"{SELF} and {BY_TARGET} ({NODES} > 0)")


def _nodes() -> Iterator[Recording]:
    counter = f"{METRIC_PREFIX}efa_tx_bytes"
    yield Recording(
        f"node:{counter}:rate{WINDOW}",
        f"sum without (efa_device) (rate({counter}_total[{WINDOW}]))",
    )
    for name in _COUNTED:
        metric = f"{METRIC_PREFIX}{name}"
        yield Recording(f"node:{metric}:rate{WINDOW}", f"rate({metric}_total[{WINDOW}])")
    compute = f"{METRIC_PREFIX}job_compute_seconds"
    matching = f"ignoring {labels_of(*BY_PLACE)} group_left ()"
    yield Recording(
        PEERS,
        f"{compute}\n/ {matching}\n"
        f"(\n  {over('quantile', f'0.5, {compute}')}\n"
        f"  and\n  {over('count', compute)} >= {FEWEST_PEERS}\n)",
    )


def _worst() -> Iterator[Recording]:
    """The worst nodes by each metric, computed once for all dashboards."""
    for operation, name in _ENDS:
        metric = f"{METRIC_PREFIX}{name}"
        yield Recording(f"node:{metric}:{operation}", over(operation, f"{CANDIDATES}, {metric}"))
    yield Recording(f"{PEERS}_topk", over("topk", f"{CANDIDATES}, {PEERS}"))


def _clusters() -> Iterator[Recording]:
    identity = [name for name in INSTANCE_LABELS if name != "instance_type"]
    for name, dropped in (
        ("instance_info", (*identity, "lnc")),
        ("node_phase", ()),
        ("incident_active", ("training_job", "component")),
    ):
        metric = f"{METRIC_PREFIX}{name}"
        judged = f" unless {BY_TARGET} ({AGGREGATED} == 1)" if name == "incident_active" else ""
        yield Recording(f"cluster:{metric}:count", over("count", f"{metric}{judged}", *dropped))
    for name in _SUMMED:
        metric = f"{METRIC_PREFIX}{name}"
        yield Recording(f"cluster:{metric}:sum", over("sum", metric))
    for operation, name in _WORST:
        metric = f"{METRIC_PREFIX}{name}"
        yield Recording(f"cluster:{metric}:{operation}", over(operation, metric))
    for name in _COUNTED:
        rate = f"{METRIC_PREFIX}{name}:rate{WINDOW}"
        yield Recording(f"cluster:{rate}", over("sum", f"node:{rate}"))
    failed, completed = (f"{METRIC_PREFIX}{name}" for name in reversed(_COUNTED))
    yield Recording(
        f"cluster:{failed}:ratio_rate{WINDOW}",
        f"cluster:{failed}:rate{WINDOW}\n/\n"
        f"(cluster:{failed}:rate{WINDOW} + cluster:{completed}:rate{WINDOW} > 0)",
    )
    for name, part, whole in (
        ("neuroncores_busy", "node_neuroncores_busy", "node_neuroncores"),
        ("device_memory_used", "node_device_memory_used_bytes", "node_device_memory_total_bytes"),
        ("efa_tx_share", "node_efa_tx_bytes_per_second", "node_efa_link_bytes_per_second"),
    ):
        yield _share(
            f"cluster:{METRIC_PREFIX}{name}:ratio", f"{METRIC_PREFIX}{part}",
            f"{METRIC_PREFIX}{whole}",
        )  # fmt: skip
    cores = f"{METRIC_PREFIX}node_neuroncores"
    mean = f"{METRIC_PREFIX}node_neuroncore_utilization_mean_ratio"
    yield Recording(f"cluster:{METRIC_PREFIX}neuroncore_utilization:ratio", _mean(mean, cores))


def _jobs() -> Iterator[Recording]:
    """Values of a job; nodes report the mean of their ranks, so they are weighted by ranks."""
    level, metric = "training_job", f"{METRIC_PREFIX}job"
    ranks, step = f"{metric}_ranks", f"{metric}_step_seconds"
    yield Recording(f"{level}:{ranks}:sum", over("sum", ranks))
    yield Recording(f"{level}:{metric}_info:count", over("count", f"{metric}_info"))
    yield Recording(f"{level}:{metric}_step:max", over("max", f"{metric}_step"))
    # A training log has no ranks.
    mean = f"{_mean(step, ranks)}\nor\n{over('avg', step)}"
    yield Recording(f"{level}:{step}:avg", mean)
    yield Recording(f"{level}:{step}:max", over("max", step))
    for name in ("comm", "exposed_comm"):
        part = f"{metric}_{name}_seconds"
        yield _share(f"{level}:{metric}_{name}_share:ratio", part, step, ranks)
    yield _share(
        f"{level}:{metric}_comm_compute:ratio", f"{metric}_comm_seconds",
        f"{metric}_compute_seconds", ranks,
    )  # fmt: skip
    # Every rank reports the same value of the job, at slightly different times.
    for name in ("tokens_per_second", "loss", "mfu_ratio"):
        yield Recording(f"{level}:{metric}_{name}:avg", over("avg", f"{metric}_{name}"))
    yield Recording(f"{level}:{PEERS.partition(':')[2]}_max", over("max", PEERS))


def _share(record: str, part: str, whole: str, weight: str = "") -> Recording:
    """A sum over a sum, of the nodes that have both, and the weight."""
    both = [f"{first} and {second}" for first, second in ((part, whole), (whole, part))]
    parts, wholes = (over("sum", f"({expr}) * {weight}" if weight else expr) for expr in both)
    return Recording(record, f"{parts}\n/\n({wholes} > 0)")


def _mean(value: str, weight: str) -> str:
    """A weighted mean over the nodes that have both."""
    return f"{over('sum', f'{value} * {weight}')}\n/\n({over('sum', f'{weight} and {value}')} > 0)"
