"""Quantities of training jobs, as seen from one node."""

from collections.abc import Iterator

from trntop.catalog.names import (
    COLLECTIVES,
    LOG,
    STEPS,
)
from trntop.catalog.quantity import Combine, Entity, Kind, Provenance, Quantity


def jobs() -> Iterator[Quantity]:
    """Of training jobs."""
    job, source, reported = Entity.JOB, STEPS, Provenance.REPORTED
    yield Quantity(
        "job_step", "steps", job, "Newest training step", combine=Combine.MAX,
        provenance=reported, source=source, fallback=LOG,
    )  # fmt: skip
    yield Quantity(
        "job_ranks", "ranks", job, "Ranks of the job that reported from this node",
        combine=Combine.SUM, provenance=reported, source=source,
    )  # fmt: skip
    for name, text in (
        ("step", "Duration of a step"),
        ("compute", "Time of a step in which the rank computed"),
        ("comm", "Time of a step in which a collective ran, hidden or not"),
        ("exposed_comm", "Time of a step in which a collective ran and nothing computed"),
    ):
        yield Quantity(
            f"job_{name}_seconds", "seconds", job, f"{text}, mean over the node's ranks",
            combine=Combine.MEAN, provenance=reported, source=source,
            fallback=LOG if name == "step" else "",
        )  # fmt: skip
    yield Quantity(
        "job_tokens_per_second", "tokens_per_second", job,
        "Tokens of the whole job per second, as its ranks report them",
        combine=Combine.MEAN, provenance=reported, source=source, fallback=LOG,
    )  # fmt: skip
    for name, formula, text in (
        ("comm_share", "job_comm_seconds ÷ job_step_seconds",
         "Share of the step in which a collective ran"),
        ("exposed_comm_share", "job_exposed_comm_seconds ÷ job_step_seconds",
         "Share of the step spent in communication alone"),
        ("comm_compute", "job_comm_seconds ÷ job_compute_seconds",
         "Communication time over compute time"),
    ):  # fmt: skip
        yield Quantity(
            f"job_{name}_ratio", "ratio", job, text, provenance=reported, formula=formula,
        )  # fmt: skip
    yield from _collectives()
    for name, unit, text in (
        ("loss", "loss", "Training loss"),
        ("mfu_ratio", "ratio", "Model FLOPs utilization"),
    ):
        yield Quantity(
            f"job_{name}", unit, job, f"{text}, as the training process reports it",
            combine=Combine.MEAN, provenance=reported, source=source, fallback=LOG,
        )  # fmt: skip
    for name, unit, text in (
        ("grad_norm", "norm", "Norm of the gradient"),
        ("tokens_per_second_per_device", "tokens_per_second", "Tokens per second and device"),
        ("samples_per_second", "samples_per_second", "Sequences of the whole job per second"),
        ("logged_step_seconds", "seconds", "Duration of a step, where a line states it"),
    ):
        yield Quantity(
            f"job_{name}", unit, job, f"{text}, from the training log",
            combine=Combine.MEAN, provenance=reported, source=LOG, detail=True,
        )  # fmt: skip
    yield Quantity(
        "job_epoch", "epochs", job, "Epochs of the data that are done, from the training log",
        combine=Combine.MAX, provenance=reported, source=LOG, exported=False,
    )  # fmt: skip
    yield Quantity(
        "job_step_pace_seconds", "seconds", job,
        "Duration of a step by the times at which the log's lines appeared",
        provenance=Provenance.DERIVED, formula="1 ÷ job_logged_steps_per_second", detail=True,
    )  # fmt: skip
    yield Quantity(
        "job_logged_step_total", "steps", job, "Newest training step in the log",
        kind=Kind.COUNTER, combine=Combine.MAX, provenance=reported, source=LOG, exported=False,
    )  # fmt: skip
    yield Quantity(
        "job_logged_steps_per_second", "per_second", job,
        "Steps per second by the times at which their lines appeared",
        combine=Combine.MEAN, provenance=Provenance.DERIVED, rate_of="job_logged_step_total",
        exported=False,
    )  # fmt: skip


def _collectives() -> Iterator[Quantity]:
    """Of each kind of collective, and of all-reduce and reduce-scatter together."""
    job, source, reported = Entity.JOB, STEPS, Provenance.REPORTED
    both = "an all-reduce or a reduce-scatter"
    yield Quantity(
        "job_reduction_seconds", "seconds", job, f"Time of a step in which {both} ran",
        combine=Combine.MEAN, provenance=reported, source=source, detail=True,
    )  # fmt: skip
    yield Quantity(
        "job_reduction_share_ratio", "ratio", job,
        f"All-reduce share: share of the step in which {both} ran",
        provenance=reported, formula="job_reduction_seconds ÷ job_step_seconds",
    )  # fmt: skip
    for kind, title in COLLECTIVES.items():
        for name, unit, text in (
            ("seconds", "seconds", f"Time of a step in which {title} ran"),
            ("calls", "calls", f"Number of {title} in a step"),
            ("bytes", "bytes", f"Bytes of the {title} of a step, as nccl-tests counts them"),
            ("bus_bytes", "bytes",
             f"Bytes of the {title} of a step times the factor of nccl-tests' bus bandwidth"),
        ):  # fmt: skip
            yield Quantity(
                f"job_{kind}_{name}", unit, job, f"{text}, mean over the node's ranks",
                combine=Combine.MEAN, provenance=reported, source=source, detail=True,
                exported=name != "bus_bytes",
            )  # fmt: skip
        for name, unit, formula, text in (
            ("share_ratio", "ratio", f"job_{kind}_seconds ÷ job_step_seconds",
             f"Share of the step in which {title} ran"),
            ("algbw_bytes_per_second", "bytes_per_second",
             f"job_{kind}_bytes ÷ job_{kind}_seconds",
             f"Algorithm bandwidth of {title}, waiting for other ranks included"),
            ("busbw_bytes_per_second", "bytes_per_second",
             f"job_{kind}_bus_bytes ÷ job_{kind}_seconds",
             f"Bus bandwidth of {title} per rank, waiting for other ranks included"),
        ):  # fmt: skip
            yield Quantity(
                f"job_{kind}_{name}", unit, job, text, provenance=reported, formula=formula,
                detail="algbw" in name,
            )  # fmt: skip


def ranks() -> Iterator[Quantity]:
    """Of single ranks; a job's values on a node are the means of these."""
    rank, source, reported = Entity.RANK, STEPS, Provenance.REPORTED
    yield Quantity(
        "rank_step", "steps", rank, "Newest training step of the rank", combine=Combine.MAX,
        provenance=reported, source=source, exported=False,
    )  # fmt: skip
    for name, text in (
        ("step", "Duration of the rank's newest step"),
        ("compute", "Time of it in which the rank computed"),
        ("comm", "Time of it in which a collective ran, hidden or not"),
        ("exposed_comm", "Time of it in which a collective ran and nothing computed"),
    ):
        yield Quantity(
            f"rank_{name}_seconds", "seconds", rank, text, combine=Combine.MAX,
            provenance=reported, source=source, exported=False,
        )  # fmt: skip
    yield Quantity(
        "rank_pipeline_stage", "stages", rank,
        "Pipeline stage that the rank works on, if it reports one",
        combine=Combine.MAX, provenance=reported, source=source, exported=False,
    )  # fmt: skip
