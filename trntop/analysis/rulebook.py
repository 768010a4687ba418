"""The table of rules. The screen, `trntop analyze` and the exporter all go by it."""

from collections.abc import Sequence

from trntop.analysis.custom import rule_of
from trntop.analysis.detectors import comm
from trntop.analysis.detectors.comm import CommBound
from trntop.analysis.detectors.devices import DeviceLost, EccUncorrected
from trntop.analysis.detectors.efa import EfaDegraded, EfaDown
from trntop.analysis.detectors.errors import ExecutionErrors
from trntop.analysis.detectors.idle import IdleAllocation
from trntop.analysis.detectors.latency import LatencyRegression
from trntop.analysis.detectors.memory import MemoryPressure
from trntop.analysis.detectors.silence import NodeSilent
from trntop.analysis.detectors.stalls import CheckpointStall, Hang, Recompile
from trntop.analysis.detectors.straggler import Straggler
from trntop.analysis.detectors.versions import VersionSkew
from trntop.analysis.rule import Reach, Rule
from trntop.core.custom_rule import OwnRule
from trntop.core.errors import SettingsError
from trntop.core.model import Severity
from trntop.core.settings import Analysis as Settings
from trntop.core.suggest import unknown

_OWN_NODE = Reach(job=False)
_STOPS = Reach(before=60.0)
"""A job stops at the next collective, which the judgement of its cause may come after."""

_PROGRESS = (
    "job_step", "node_executions_completed_per_second", "node_neuroncore_utilization_mean_ratio",
)  # fmt: skip
"""What tells how a job gets on."""

RULEBOOK: tuple[Rule, ...] = (
    Rule(
        "comm_bound", Severity.WARNING,
        "comm share of step time above {comm_share:.0%}, or its exposed part above "
        "{exposed_comm_share:.0%} (then critical), mean of {window:g} s over the job's nodes",
        CommBound, hold=comm.TUNING.hold, clear_hold=10.0,
        summary="{job}: comm is {share} of step time{exposed} since {since}{nobody} "
        "(steps reported)",
        advice="Retransmits and rails on the EFA screen; then what changed: batch, bucket sizes.",
        needs=("job_comm_share_ratio", "job_exposed_comm_share_ratio"),
        ends_with_job=True,
        settings=("comm_share", "exposed_comm_share", "window"),
        follows=dict.fromkeys(
            ("efa_degraded", "efa_down", "latency_regression", "straggler", "node_silent",
             "device_lost", "hang", "recompile", "checkpoint_stall"),
            _STOPS,
        ),
    ),
    Rule(
        "straggler", Severity.WARNING,
        "a node, rank or core more than {straggler:.0%} slower than those that do the same, its "
        "own long-run bias taken away, for 12 s or two steps",
        Straggler, hold=0.0, clear_hold=0.0,
        summary="{where} is {slower} slower than peers since {since}{wait} ({basis})",
        many="{nodes} became slower than their peers, first at {since} ({basis})",
        advice="Its clocks and power, other processes on its host, its data loading; then drain.",
        needs=("rank_step_seconds", "job_step_seconds", "neuroncore_utilization_ratio"),
        ends_with_job=True,
        settings=("straggler",),
        follows={
            "efa_degraded": _OWN_NODE, "efa_down": _OWN_NODE, "device_lost": _OWN_NODE,
            "ecc_uncorrected": _OWN_NODE, "execution_errors": _OWN_NODE,
            "node_silent": Reach(), "hang": Reach(), "recompile": Reach(),
            "checkpoint_stall": Reach(),
        },
    ),
    Rule(
        "hang", Severity.CRITICAL,
        "no step for {hang:g} s beyond the usual one while cores spin, or for 60 s while they "
        "idle, and nothing explains it",
        Hang, hold=0.0, clear_hold=0.0,
        summary="{job} stands still since {since}{step}{guilty} ({why})",
        advice="py-spy dump on the named node; else on all ranks: who is not in the collective?",
        needs=_PROGRESS,
        ends_with_job=True,
        settings=("hang",),
        follows=dict.fromkeys(
            ("node_silent", "device_lost", "efa_down", "ecc_uncorrected", "execution_errors"),
            Reach(before=90.0),
        ),
    ),
    Rule(
        "recompile", Severity.WARNING,
        "a run under way compiles for more than {compilation:g} s",
        Recompile, hold=0.0, clear_hold=0.0,
        summary="{job} has been compiling since {since}{step}: {why}",
        advice="Which graph changed: a new batch or sequence length, a cold compile cache?",
        needs=_PROGRESS,
        ends_with_job=True,
        settings=("compilation",),
        follows={"node_silent": Reach(), "device_lost": Reach()},
    ),
    Rule(
        "checkpoint_stall", Severity.WARNING,
        "a checkpoint takes more than three times the job's usual pause and 20 s, or {checkpoint:g}"
        " s while that is not known",
        CheckpointStall, hold=0.0, clear_hold=0.0,
        summary="{job}: a checkpoint takes {paused}{usual}, since {since} ({why})",
        advice="The file system: its throughput, its quota, its servers; then the slowest writer.",
        needs=_PROGRESS,
        ends_with_job=True,
        settings=("checkpoint",),
        follows={"node_silent": Reach(), "device_lost": Reach()},
    ),
    Rule(
        "efa_degraded", Severity.WARNING,
        "an EFA card resends more than {retransmits:.1%} of its packets and 8 times its siblings', "
        "or counts errors, for 12 s, or carries less than {card_traffic:.0%} of its usual part",
        EfaDegraded, hold=2.0, clear_hold=10.0,
        summary="{node}: {card} {symptom} since {since} (EFA counters)",
        many="{nodes}: EFA cards degraded, first at {since} (EFA counters)",
        advice="Is it one card (its rail, its cable) or the peer? Probe the pair; then drain.",
        needs=("efa_tx_bytes_total", "efa_retrans_pkts_total"),
        settings=("retransmits", "card_traffic"),
        follows={"efa_down": _OWN_NODE, "node_silent": Reach(), "device_lost": _OWN_NODE},
    ),
    Rule(
        "efa_down", Severity.CRITICAL,
        "an EFA card is gone, not active, takes no commands, or carries nothing for "
        "{card_silent:g} s while its siblings carry the job's traffic",
        EfaDown, hold=3.0, clear_hold=5.0,
        summary="{node}: {card} {symptom} since {since} (EFA counters)",
        many="{nodes}: EFA cards down, first at {since} (EFA counters)",
        advice="dmesg for efa; reboot, and if it stays away replace the node.",
        needs=("node_efa_cards",),
        settings=("card_silent",),
        follows={"node_silent": _OWN_NODE},
    ),
    Rule(
        "latency_regression", Severity.WARNING,
        "a probed link takes more than {latency:g} times its usual in two results running, or 3 "
        "times in one, and links elsewhere do not",
        LatencyRegression, hold=0.0, clear_hold=0.0, pace=5.0,
        summary="{where}: {what} since {since} ({tool} probe)",
        many="{nodes}: EFA latency has risen, first at {since} (probes)",
        advice="Probe the same peer from another node, and another card of this one.",
        needs=("link_latency_seconds",),
        settings=("latency",),
        follows={"efa_degraded": Reach(), "efa_down": Reach(), "node_silent": Reach()},
    ),
    Rule(
        "node_silent", Severity.CRITICAL,
        "no source of the node heard for {node_silent:g} s",
        NodeSilent, hold=2.0, clear_hold=0.0,
        summary="{node}: nothing heard since {since}; {last} was the last to speak",
        many="{nodes} have been silent since {since}",
        advice="Is the node up, does neuron-monitor run on it, is the way to it open?",
        settings=("node_silent",),
    ),
    Rule(
        "device_lost", Severity.CRITICAL,
        "a device that a source showed is missing from two of its readings that show others, or "
        "fewer devices are counted",
        DeviceLost, hold=3.0, clear_hold=10.0, pace=2.0,
        summary="{node}: {what} since {since} ({basis})",
        many="{nodes} have lost devices, first at {since}",
        advice="dmesg and neuron-ls there; drain it: one that stays away needs a new instance.",
        needs=("node_devices",),
    ),
    Rule(
        "ecc_uncorrected", Severity.CRITICAL,
        "an uncorrected HBM or SRAM error appears",
        EccUncorrected, hold=0.0, clear_hold=600.0, pace=2.0,
        summary="{node}: {device} had {count} since {since} ({basis})",
        advice="Drain the node and replace it; results since then are suspect.",
        needs=("node_ecc_uncorrected_events",),
    ),
    Rule(
        "execution_errors", Severity.CRITICAL,
        "executions fail: any status but `completed`, or an error; a warning where it may be the "
        "program's own",
        ExecutionErrors, hold=0.0, clear_hold=60.0,
        summary="{node}: {count} since {since}: {kinds} ({basis})",
        many="{nodes}: executions fail since {since}",
        advice="Hardware errors: drain the node. Numerical: the loss. Others: the runtime's log.",
        needs=("node_executions_failed_total",),
        follows={
            "ecc_uncorrected": _OWN_NODE, "device_lost": _OWN_NODE, "node_silent": Reach(before=0),
            "hang": Reach(before=0), "efa_down": Reach(before=0),
        },
    ),
    Rule(
        "memory_pressure", Severity.WARNING,
        "a device uses more than {memory:.0%} of its HBM, or more than 90 % and grows so that it "
        "is full within 5 minutes; or less than 4 % of the host's memory is available",
        MemoryPressure, hold=None, clear_hold=10.0, pace=5.0,
        summary="{node}: {what} {how}, since {since} ({basis})",
        many="{nodes}: HBM nearly full since {since}",
        advice="Which category grows: tensors (activations, leaks) or scratchpad (a new graph)?",
        needs=("device_memory_used_ratio", "node_memory_available_bytes"),
        settings=("memory",),
    ),
    Rule(
        "idle_allocation", Severity.WARNING,
        "a process holds memory of cores that do nothing for {idle:g} s, and nothing explains it",
        IdleAllocation, hold=0.0, clear_hold=10.0, pace=5.0,
        summary="{node}: {who}, idle since {since} (neuron-monitor)",
        many="{nodes} hold cores and do nothing since {since} (neuron-monitor)",
        advice="Whose process is it (neuron-ls)? py-spy dump; end it if it is left over.",
        needs=("neuroncore_memory_used_bytes", "runtime_device_memory_used_bytes"),
        settings=("idle",),
        follows=dict.fromkeys(
            ("hang", "node_silent", "checkpoint_stall", "recompile", "device_lost", "efa_down",
             "execution_errors", "ecc_uncorrected"),
            Reach(before=120.0),
        ),
    ),
    Rule(
        "version_skew", Severity.WARNING,
        "driver, EFA driver or runtime differ within a job, or among all nodes of one type",
        VersionSkew, hold=10.0, clear_hold=30.0, pace=5.0,
        summary="{where}: {what}; seen {since} (inventory)",
        advice="Update the node that differs before the next run; mixed drivers fail in odd ways.",
    ),
)  # fmt: skip


def rules(settings: Settings, own: Sequence[OwnRule] = ()) -> tuple[Rule, ...]:
    """The rules in force.

    Args:
        settings: section `analysis`.
        own: rules of the user's own.

    Raises:
        SettingsError: `analysis.disabled` names no kind of incident.
    """
    table = (*RULEBOOK, *map(rule_of, own))
    kinds = [rule.kind for rule in table]
    for kind in settings.disabled:
        if kind not in kinds:
            raise SettingsError(f"analysis.disabled: {unknown('rule', kind, kinds)}")
    return tuple(rule for rule in table if rule.kind not in settings.disabled)
