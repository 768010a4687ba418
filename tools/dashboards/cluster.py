"""The cluster: open incidents, jobs, nodes worst first, evidence."""

from grafana_foundation_sdk.models import dashboard

from .board import Board, choice, how_many, to_efa_devices, to_job, to_node
from .common import GIGABITS, SHARE_SCALE, counts, data, found, judged, meanings, states
from .layout import Section
from .panels import (
    CALM,
    CRITICAL,
    LIMITS,
    SEVERITIES,
    Column,
    Query,
    above,
    heat,
    lines,
    rows,
    stats,
)
from .promql import (
    JOB,
    NODE,
    OF_JOB,
    OF_NODE,
    chosen,
    mean,
    most,
    rate,
    series,
    severity_rank,
    worst_rows,
)

_BY_JOB = "{{training_job}}"
_INCIDENTS = chosen(OF_NODE, OF_JOB)


def board() -> Board:
    """The dashboard."""
    return Board(
        "cluster",
        "trntop / cluster",
        "Cluster overview: open incidents and their location, jobs and nodes worst first.",
        [
            choice("training_job", "Training job", "trn_job_info", "training_job"),
            choice("node", "Node", "trn_instance_info", "node"),
            how_many(),
        ],
        [
            Section("", [found(_INCIDENTS, width=13), judged(), data(height=8), *_run()]),
            Section("Jobs and nodes, worst first", [_jobs(), _allocations(), _fleet()]),
            Section("Worst nodes over time", _heat()),
            Section("Evidence", [*_step(), *_evidence()]),
            Section("Sources and exporters", [states(NODE), *_exporters()], folded=True),
            Section("Incident kinds", [meanings()], folded=True),
        ],
        _INCIDENTS,
    )


def _job(metric: str) -> str:
    return mean("training_job", series(metric, JOB))


def _run() -> list[dashboard.Panel]:
    known = series("trn_instance_info", NODE)
    return [
        stats(
            "Nodes",
            "Up: at least one source of the node reports.",
            Query(f"sum({most('node', series('trntop_source_up', NODE))})", "up"),
            Query(f"count({most('node', known)})", "known"),
            width=3,
        ),
        counts(_INCIDENTS, width=6),
        stats("Step time", "Mean over the nodes that report it.",
            Query(_job("trn_job_step_seconds"), _BY_JOB), unit="s"),
        stats("Tokens/s", "Of the whole job, mean over the nodes that report it.",
            Query(_job("trn_job_tokens_per_second"), _BY_JOB)),
        stats("MFU", "Mean over the nodes that report it.",
            Query(_job("trn_job_mfu_ratio"), _BY_JOB), unit="percentunit"),
        stats("Comm share of step", "Mean over the nodes that report it.",
            Query(_job("trn_job_comm_share_ratio"), _BY_JOB), unit="percentunit",
            steps=above(LIMITS.comm_share)),
        stats("Exposed comm share", "Share of the step in communication only.",
            Query(_job("trn_job_exposed_comm_share_ratio"), _BY_JOB), unit="percentunit",
            steps=above(critical=LIMITS.exposed_comm_share)),
        stats("Instance types", "Nodes of each instance type.",
            Query(f"count by (instance_type) ({most('node, instance_type', known)})",
                  "{{instance_type}}"), width=6, height=3),
        stats("Nodes by phase", "Compiling, training, checkpointing and others.",
            Query(f"count by (phase) ({most('node, phase', series('trn_node_phase', NODE))})",
                  "{{phase}}"), width=6, height=3),
        stats("Devices and cores", "Sum over nodes. Busy: cores with a utilization above zero.",
            Query(_sum("trn_node_devices"), "devices"),
            Query(_sum("trn_node_neuroncores"), "cores"),
            Query(_sum("trn_node_neuroncores_busy"), "busy"), width=6, height=3),
        stats("Total FLOP/s", "Sum over nodes.",
            Query(_sum("trn_node_neuroncore_flops_per_second"), "FLOP/s"),
            unit="flops", width=3, height=3),
        stats("Exporters", "Targets of the selected scrape jobs.",
            Query(f"sum({series('up')})", "up"),
            Query(f"count({series('up')}) - sum({series('up')})", "down"),
            width=3, height=3),
    ]  # fmt: skip


def _sum(metric: str, *matchers: str) -> str:
    """Over nodes, each counted once."""
    return f"sum({most('node', series(metric, NODE, *matchers))})"


def _jobs() -> dashboard.Panel:
    by = "training_job"
    nodes = most("training_job, node", series("trn_job_info", JOB))
    return rows(
        "Jobs",
        "Jobs with an incident first. Values are means "
        "over the nodes that report them. Log interval: time between step lines of the training "
        "log, for jobs that do not report step times.",
        {by: "job"},
        Column("severity", severity_rank(by, 'training_job!=""', JOB), mapped=SEVERITIES),
        Column("nodes", f"count by ({by}) ({nodes})"),
        Column("step", most(by, series("trn_job_step", JOB)), unit="locale"),
        Column("step time", _job("trn_job_step_seconds"), unit="s"),
        Column("log interval", _job("trn_job_step_pace_seconds"), unit="s"),
        Column("tokens/s", _job("trn_job_tokens_per_second")),
        Column("MFU", _job("trn_job_mfu_ratio"), unit="percentunit"),
        Column("comm", _job("trn_job_comm_share_ratio"), "percentunit", above(LIMITS.comm_share)),
        Column(
            "exposed",
            _job("trn_job_exposed_comm_share_ratio"),
            "percentunit",
            above(critical=LIMITS.exposed_comm_share),
        ),
        Column("comm ÷ compute", _job("trn_job_comm_compute_ratio"), unit="percentunit"),
        Column("loss", _job("trn_job_loss")),
        sort="severity",
        links={"job": [to_job()]},
        width=16,
        height=6,
    )


def _allocations() -> dashboard.Panel:
    by = "hpc_job, namespace, pod"
    held = most(f"node, {by}", series("trn_allocation_info", NODE))
    busy = _node("trn_node_neuroncore_utilization_mean_ratio")
    return rows(
        "Allocations",
        "Nodes and devices allocated by Slurm or Kubernetes, lowest utilization first. Idle "
        "allocations cost as much as busy ones.",
        {"hpc_job": "Slurm job", "namespace": "namespace", "pod": "pod"},
        Column("nodes", f"count by ({by}) ({held})"),
        Column(
            "utilization",
            f"avg by ({by}) ({busy} * on (node) group_right () {held})",
            "percentunit",
        ),
        sort="utilization",
        rising=True,
        width=8,
        height=6,
    )


def _node(metric: str) -> str:
    return most("node", series(metric, NODE))


def _fleet() -> dashboard.Panel:
    transmitted = _node("trn_node_efa_tx_bytes_per_second")
    return rows(
        "Nodes",
        "One row per node. The communication share is what the training processes report "
        "(comm, exposed) or, if they do not, an estimated range (at least, at "
        "most). TE: the share of time in which the tensor engines work; utilization also counts "
        "waiting in a collective.",
        {"node": "node", "phase": "phase"},
        Column("severity", severity_rank("node", NODE), mapped=SEVERITIES),
        Column(
            "up",
            _node("trntop_source_up"),
            mapped={"0": ("down", CRITICAL), "1": ("up", CALM)},
        ),
        Column("phase", most("node, phase", series("trn_node_phase", NODE)), shown=False),
        Column(
            "utilization",
            _node("trn_node_neuroncore_utilization_mean_ratio"),
            "percentunit",
            bar=True,
        ),
        Column("TE", _node("trn_node_tensor_engine_busy_mean_ratio"), "percentunit"),
        Column(
            "HBM, fullest",
            _node("trn_node_device_memory_used_max_ratio"),
            "percentunit",
            above(LIMITS.memory),
        ),
        Column("HBM bandwidth", _node("trn_node_hbm_bandwidth_ratio"), "percentunit"),
        Column("EFA tx", f"{transmitted} * 8", GIGABITS),
        Column(
            "retransmits",
            _node("trn_node_efa_retransmit_max_ratio"),
            "percentunit",
            above(LIMITS.retransmits),
        ),
        Column(
            "comm",
            most("node", series("trn_job_comm_share_ratio", NODE, JOB)),
            "percentunit",
            above(LIMITS.comm_share),
        ),
        Column("at least", _node("trn_node_comm_share_floor_ratio"), "percentunit"),
        Column("at most", _node("trn_node_comm_share_ceiling_ratio"), "percentunit"),
        Column(
            "exposed",
            most("node", series("trn_job_exposed_comm_share_ratio", NODE, JOB)),
            "percentunit",
            above(critical=LIMITS.exposed_comm_share),
        ),
        Column("step time", most("node", series("trn_job_step_seconds", NODE, JOB)), "s"),
        sort="severity",
        links={"node": [to_node(), to_efa_devices()]},
        height=12,
    )


def _heat() -> list[dashboard.Panel]:
    steady = "The worst by mean over the time range; set the number with the variable at the top."
    return [
        heat("Utilization, lowest", steady,
             Query(worst_rows("trn_node_neuroncore_utilization_mean_ratio", NODE, lowest=True),
                   "{{node}}"), scheme="Blues", top=1),
        heat("Comm share of step, highest",
             f"{steady} Full color at twice the limit of {LIMITS.comm_share:.0%}.",
             Query(worst_rows("trn_job_comm_share_ratio", NODE, JOB), "{{node}}"),
             scheme="Oranges", top=SHARE_SCALE),
        heat("Retransmits of the worst EFA device, highest",
             f"{steady} Full color at ten times the limit of {LIMITS.retransmits:.1%}.",
             Query(worst_rows("trn_node_efa_retransmit_max_ratio", NODE), "{{node}}"),
             scheme="Reds", top=10 * LIMITS.retransmits),
    ]  # fmt: skip


def _step() -> list[dashboard.Panel]:
    floor, ceiling = (
        f"avg({_node(f'trn_node_comm_share_{bound}_ratio')})" for bound in ("floor", "ceiling")
    )
    return [
        lines("Comm share of step",
              "By job as reported; the estimated bounds are means over the nodes, shown if no "
              "job reports.",
              Query(_job("trn_job_comm_share_ratio"), _BY_JOB),
              Query(_job("trn_job_exposed_comm_share_ratio"), "{{training_job}}, exposed"),
              Query(floor, "at least (estimated)"), Query(ceiling, "at most (estimated)"),
              unit="percentunit", limit=LIMITS.comm_share),
        lines("Step time", "By job, mean over its nodes.",
              Query(_job("trn_job_step_seconds"), _BY_JOB), unit="s"),
        lines("Tokens/s", "By job.", Query(_job("trn_job_tokens_per_second"), _BY_JOB),
              unit="short"),
    ]  # fmt: skip


def _evidence() -> list[dashboard.Panel]:
    def each(metric: str, how: str = "topk") -> Query:
        """The five worst nodes at each moment."""
        return Query(f"{how}(5, {_node(metric)})", "{{node}}")

    five = "The five worst nodes at each point in time."
    return [
        lines("EFA traffic, fleet", "Sum over nodes, and the line rate of their EFA devices.",
              Query(f"{_sum('trn_node_efa_tx_bytes_per_second')} * 8", "transmitted"),
              Query(f"{_sum('trn_node_efa_rx_bytes_per_second')} * 8", "received"),
              Query(f"{_sum('trn_node_efa_link_bytes_per_second')} * 8", "line rate"),
              unit=GIGABITS),
        lines("Tensor engines, least busy", five,
              each("trn_node_tensor_engine_busy_mean_ratio", "bottomk"), unit="percentunit",
              top=1),
        lines("HBM, fullest device", five, each("trn_node_device_memory_used_max_ratio"),
              unit="percentunit", limit=LIMITS.memory, top=1),
        lines("Execution latency, p99", five, each("trn_node_device_latency_p99_seconds"),
              unit="s"),
        lines("Failed executions", "Per second.",
              Query(f"topk(5, {most('node', rate('trn_node_executions_failed_total', NODE))})",
                    "{{node}}"), unit="ops"),
        lines("Errors of devices and drivers",
              "Uncorrected ECC errors in total; driver errors in the kernel log per second. Each "
              "should be zero.",
              Query(f"topk(5, {_node('trn_node_ecc_uncorrected_events')} > 0)",
                    "{{node}} uncorrected ECC, so far"),
              Query(f"topk(5, {most('node', rate('trn_node_kernel_neuron_errors_total', NODE))})",
                    "{{node}} Neuron driver"),
              Query(f"topk(5, {most('node', rate('trn_node_kernel_efa_errors_total', NODE))})",
                    "{{node}} EFA driver"), unit="cps"),
        lines("CPU, busiest", five, each("trn_node_cpu_busy_ratio"), unit="percentunit", top=1),
        lines("Host memory available, lowest", "Available share of memory; the five lowest nodes.",
              Query(f"bottomk(5, {_node('trn_node_memory_available_bytes')} / "
                    f"{_node('trn_node_memory_total_bytes')})", "{{node}}"),
              unit="percentunit", top=1),
        lines("Disk I/O", "Disks, Lustre and NFS of all nodes: data loading, checkpoints.",
              *(Query(f"sum({most('node', rate(f'trn_node_{of}_{way}_bytes_total', NODE))})",
                      f"{name}, {way}")
                for of, name in (("disk", "disk"), ("lustre", "Lustre"), ("nfs", "NFS"))
                for way in ("read", "written")),
              unit="Bps"),
    ]  # fmt: skip


def _exporters() -> list[dashboard.Panel]:
    each = "{{instance}}"
    return [
        rows("Exporters", "Resources used by trntop itself, and series dropped from its pages.",
             {"instance": "exporter"},
             Column("dropped series", most("instance", series("trntop_series_dropped")),
                    steps=above(1)),
             Column("CPU", most("instance", rate("process_cpu_seconds_total")), "percentunit"),
             Column("memory", most("instance", series("process_resident_memory_bytes")), "bytes"),
             Column("files", most("instance", series("process_open_fds"))),
             Column("since", f"{most('instance', series('process_start_time_seconds'))} * 1000",
                    "dateTimeAsIso"),
             sort="dropped series", width=12, height=8),
        rows("Versions", "Versions of the exporters and of their Python.",
             {"version": "version", "python": "Python"},
             Column("exporters", f"count by (version, python) ({series('trntop_build_info')})"),
             sort="exporters", width=12, height=6),
        lines("CPU of exporters", "In cores; the five highest.",
              Query(f"topk(5, {most('instance', rate('process_cpu_seconds_total'))})", each),
              unit="percentunit", width=12, height=6),
    ]  # fmt: skip
