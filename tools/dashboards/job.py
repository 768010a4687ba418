"""One training job: how it gets on, where its time goes, which node holds it back."""

from grafana_foundation_sdk.models import dashboard

from trntop.catalog import COLLECTIVES

from .board import Board, choice, how_many, to_efa_devices, to_node
from .common import GIGABITS, SHARE_SCALE, counts, found
from .layout import Section
from .panels import LIMITS, SEVERITIES, UNKNOWN, Column, Query, above, heat, lines, rows, stats
from .promql import RUN, at_job, mean, most, of_job, rate, series, severity_rank, worst_rows

_BY_JOB = "{{training_job}}"
_SHARE = "percentunit"


def board() -> Board:
    """The dashboard."""
    return Board(
        "job",
        "trntop / job",
        "One training job: step time and its parts, throughput, slowest nodes.",
        [
            choice("training_job", "Training job", "trn_job_info", "training_job", several=False),
            how_many(),
        ],
        [
            Section("", [found(at_job, width=21, height=6), _data(), *_head()]),
            Section("Nodes, least waiting first", [_nodes()]),
            Section("Step time breakdown", _step()),
            Section("Worst nodes over time", _heat()),
            Section("Training progress", _training()),
            Section("Nodes of the job", _hardware()),
        ],
        at_job,
    )


def _job(metric: str) -> str:
    return mean("training_job", series(metric, RUN))


def _data() -> dashboard.Panel:
    simulated, real = (
        of_job(series("trn_instance_info", f'simulated="{value}"')) for value in ("true", "false")
    )
    return stats(
        "Data source", "SIMULATED if at least one node of the job is simulated.",
        Query(f"max({simulated}) or max({real}) * 0"),
        mapped={"1": ("SIMULATED", "purple"), "0": ("live", UNKNOWN)}, filled=True, height=6,
    )  # fmt: skip


def _head() -> list[dashboard.Panel]:
    nodes = most("training_job, node", series("trn_job_info", RUN))
    return [
        stats("Nodes and ranks", "Nodes and ranks that report steps.",
            Query(f"count({nodes})", "nodes"),
            Query(f"sum({most('training_job, node', series('trn_job_ranks', RUN))})", "ranks")),
        counts(at_job, width=3),
        stats("Newest step", "The newest step of any rank.",
            Query(most("training_job", series("trn_job_step", RUN))), unit="locale"),
        stats("Step time", "Mean over the nodes that report it.",
            Query(_job("trn_job_step_seconds")), unit="s"),
        stats("Tokens/s", "Of the whole job.", Query(_job("trn_job_tokens_per_second"))),
        stats("MFU", "As the job reports it.", Query(_job("trn_job_mfu_ratio")), unit=_SHARE,
            width=2),
        stats("Comm share of step", "Mean over the nodes that report it.",
            Query(_job("trn_job_comm_share_ratio")), unit=_SHARE,
            steps=above(LIMITS.comm_share)),
        stats("Exposed comm share", "Share of the step in communication only.",
            Query(_job("trn_job_exposed_comm_share_ratio")), unit=_SHARE,
            steps=above(critical=LIMITS.exposed_comm_share), width=2),
        stats("Loss", "As the job reports it.", Query(_job("trn_job_loss")), width=2),
    ]  # fmt: skip


def _nodes() -> dashboard.Panel:
    def reported(metric: str) -> str:
        return most("node", series(metric, RUN))

    def of_node(metric: str) -> str:
        return of_job(most("node", series(metric)))

    return rows(
        "Nodes",
        "In a synchronous job all nodes are slow together. The one that holds the others back "
        "waits least: it computes longest and communicates shortest.",
        {"node": "node"},
        Column("comm", reported("trn_job_comm_seconds"), "s"),
        Column("compute", reported("trn_job_compute_seconds"), "s"),
        Column("exposed", reported("trn_job_exposed_comm_seconds"), "s"),
        Column("step time", reported("trn_job_step_seconds"), "s"),
        Column("step", reported("trn_job_step"), "locale"),
        Column("severity", of_job(severity_rank("node")), mapped=SEVERITIES),
        Column("utilization", of_node("trn_node_neuroncore_utilization_mean_ratio"), _SHARE,
               bar=True),
        Column("TE", of_node("trn_node_tensor_engine_busy_mean_ratio"), _SHARE),
        Column("HBM, fullest", of_node("trn_node_device_memory_used_max_ratio"), _SHARE,
               above(LIMITS.memory)),
        Column("EFA tx", of_job(f"{most('node', series('trn_node_efa_tx_bytes_per_second'))} * 8"),
               GIGABITS),
        Column("retransmits", of_node("trn_node_efa_retransmit_max_ratio"), _SHARE,
               above(LIMITS.retransmits)),
        sort="comm",
        rising=True,
        links={"node": [to_node(), to_efa_devices()]},
        height=10,
    )  # fmt: skip


def _step() -> list[dashboard.Panel]:
    hidden = f"{_job('trn_job_comm_seconds')} - {_job('trn_job_exposed_comm_seconds')}"
    return [
        lines("Parts of a step",
              "Means over the nodes. Overlapped communication runs during computation.",
              Query(_job("trn_job_step_seconds"), "step"),
              Query(_job("trn_job_compute_seconds"), "compute"),
              Query(_job("trn_job_exposed_comm_seconds"), "comm, exposed"),
              Query(hidden, "comm, hidden"), unit="s"),
        lines("Comm share of step", "The limit is that of the rule comm_bound.",
              Query(_job("trn_job_comm_share_ratio"), "comm"),
              Query(_job("trn_job_exposed_comm_share_ratio"), "exposed"),
              unit=_SHARE, limit=LIMITS.comm_share),
        lines("Comm ÷ compute", "1: equal time in communication and computation.",
              Query(_job("trn_job_comm_compute_ratio"), _BY_JOB),
              unit=_SHARE),
        lines("Collectives, share of step",
              "Where the job reports kinds. Reductions are all-reduces and reduce-scatters.",
              Query(_job("trn_job_reduction_share_ratio"), "reductions"),
              *(Query(_job(f"trn_job_{kind}_share_ratio"), title)
                for kind, title in COLLECTIVES.items()), unit=_SHARE, width=12),
        lines("Collectives, busbw", "Per rank, as nccl-tests defines it; waiting included.",
              *(Query(_job(f"trn_job_{kind}_busbw_bytes_per_second"), title)
                for kind, title in COLLECTIVES.items()), unit="Bps", width=12),
    ]  # fmt: skip


def _heat() -> list[dashboard.Panel]:
    steady = "The worst by mean over the time range; set the number with the variable at the top."
    return [
        heat("Compute time, longest", f"{steady} The slowest node is here.",
             Query(worst_rows("trn_job_compute_seconds", RUN), "{{node}}"),
             scheme="Oranges", top=None, unit="s"),
        heat("Comm time, shortest", f"{steady} The node that waits least blocks the others.",
             Query(worst_rows("trn_job_comm_seconds", RUN, lowest=True), "{{node}}"),
             scheme="Blues", top=None, unit="s"),
        heat("Comm share of step, highest",
             f"{steady} Full color at twice the limit of {LIMITS.comm_share:.0%}.",
             Query(worst_rows("trn_job_comm_share_ratio", RUN), "{{node}}"),
             scheme="Oranges", top=SHARE_SCALE),
    ]  # fmt: skip


def _training() -> list[dashboard.Panel]:
    return [
        lines("Loss and gradient", "As the job reports them.",
              Query(_job("trn_job_loss"), "loss"),
              Query(_job("trn_job_grad_norm"), "norm of the gradient"), unit="short"),
        lines("Throughput", "Of the whole job.",
              Query(_job("trn_job_tokens_per_second"), "tokens/s"),
              Query(_job("trn_job_samples_per_second"), "sequences/s"),
              Query(_job("trn_job_tokens_per_second_per_device"), "tokens/s per device"),
              unit="short"),
        lines("MFU", "As the job reports it.", Query(_job("trn_job_mfu_ratio"), "MFU"),
              unit=_SHARE),
        lines("Steps", "Newest step.", Query(most("training_job", series("trn_job_step", RUN)),
              "step"), unit="locale"),
        lines("Step time from the log", "As reported, and the interval between step lines.",
              Query(_job("trn_job_logged_step_seconds"), "reported"),
              Query(_job("trn_job_step_pace_seconds"), "log interval"), unit="s", width=16),
    ]  # fmt: skip


def _hardware() -> list[dashboard.Panel]:
    def each(metric: str, how: str = "bottomk") -> Query:
        return Query(f"{how}(5, {of_job(most('node', series(metric)))})", "{{node}}")

    completed = most("node", rate("trn_node_executions_completed_total"))
    return [
        lines("Utilization, lowest", "The five lowest nodes at each point in time.",
              each("trn_node_neuroncore_utilization_mean_ratio"), unit=_SHARE, top=1),
        lines("Tensor engines, least busy", "The five lowest nodes at each point in time.",
              each("trn_node_tensor_engine_busy_mean_ratio"), unit=_SHARE, top=1),
        lines("HBM, fullest device", "The five fullest nodes at each point in time.",
              each("trn_node_device_memory_used_max_ratio", "topk"), unit=_SHARE,
              limit=LIMITS.memory, top=1),
        lines("Executions", "The five slowest nodes at each point in time.",
              Query(f"bottomk(5, {of_job(completed)})", "{{node}}"), unit="ops"),
        lines("EFA traffic", "Sum over the job's nodes.",
              Query("sum(" + of_job(most("node", series("trn_node_efa_tx_bytes_per_second")))
                    + ") * 8", "transmitted"), unit=GIGABITS),
        lines("Nodes by phase", "Nodes of the job in each phase.",
              Query("count by (phase) ("
                    + of_job(most("node, phase", series("trn_node_phase"))) + ")", "{{phase}}"),
              unit="short", stacked=True),
    ]  # fmt: skip
