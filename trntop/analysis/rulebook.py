"""The table of rules, from which screen, `trntop analyze` and exporter all derive."""

from collections.abc import Sequence

from trntop.analysis.custom import rule_of
from trntop.analysis.detectors.comm import TUNING as COMM
from trntop.analysis.detectors.comm import CommBound
from trntop.analysis.detectors.devices import DeviceLost, EccUncorrected
from trntop.analysis.detectors.efa import TUNING as EFA
from trntop.analysis.detectors.efa import EfaDegraded, EfaDown
from trntop.analysis.detectors.errors import ExecutionErrors
from trntop.analysis.detectors.idle import IdleAllocation
from trntop.analysis.detectors.latency import TUNING as LATENCY
from trntop.analysis.detectors.latency import LatencyRegression
from trntop.analysis.detectors.memory import TUNING as MEMORY
from trntop.analysis.detectors.memory import MemoryPressure
from trntop.analysis.detectors.silence import NodeSilent
from trntop.analysis.detectors.slowdown import TUNING as SLOWDOWN
from trntop.analysis.detectors.slowdown import Slowdown
from trntop.analysis.detectors.stalls import TUNING as STALL
from trntop.analysis.detectors.stalls import CheckpointStall, Hang, Recompile
from trntop.analysis.detectors.straggler import Straggler
from trntop.analysis.detectors.versions import VersionSkew
from trntop.analysis.peers import TUNING as PEERS
from trntop.analysis.rule import Rule, Scope, WarmUp
from trntop.analysis.signals.nodes import TUNING as NODES
from trntop.core.custom_rule import CustomRule
from trntop.core.errors import SettingsError
from trntop.core.model import Severity
from trntop.core.settings import Analysis as Settings
from trntop.core.suggest import unknown

_OWN_NODE = Scope(job=False)
_STOPS = Scope(before=60.0)
"""A job stops at the next collective, often before its cause is detected."""

_PROGRESS = (
    "job_step", "node_executions_completed_per_second", "node_neuroncore_utilization_mean_ratio",
)  # fmt: skip
"""Any of these shows whether a job makes progress."""
_COUNTED = WarmUp(seconds=5.0)
"""A count must grow: two readings, which may be some seconds apart."""
_UNDER_WAY = WarmUp(STALL.under_way, steps=2, without_steps=STALL.under_way_without_steps)

RULEBOOK: tuple[Rule, ...] = (
    Rule(
        "comm_bound", Severity.WARNING,
        "{comm_ratio} above {comm_share:.1%}, exposed comm share above {exposed_comm_share:.1%} "
        "(then critical), or all-reduce share above {comm_share_all_reduce:.1%} (100 %: off): the "
        "mean over the job's nodes and {window:g} s for {hold:g} s, or all nodes in two steps if "
        "1.5 times above",
        CommBound, hold=None, clear_hold=10.0,
        summary="{job}: {what} {share}{exposed}{kind}{culprit}",
        advice="Check retransmits and rails on the EFA screen; then batch size and bucket sizes.",
        warm_up=lambda settings: WarmUp(settings.window, COMM.least_steps, settings.window),
        needs=(
            "job_comm_share_ratio", "job_exposed_comm_share_ratio", "node_comm_share_floor_ratio",
        ),
        ends_with_job=True,
        settings=(
            "comm_ratio", "comm_share", "exposed_comm_share", "comm_share_all_reduce", "window",
            "hold",
        ),
        inhibited_by=dict.fromkeys(
            ("efa_degraded", "efa_down", "latency_regression", "straggler", "node_silent",
             "device_lost", "hang", "recompile", "checkpoint_stall"),
            _STOPS,
        ),
    ),
    Rule(
        "straggler", Severity.WARNING,
        "a node, rank or core more than {straggler:.0%} slower than its peers, after removing its "
        "long-term offset, for 12 s or two steps",
        Straggler, hold=0.0, clear_hold=0.0,
        summary="{where} is {slower} slower than its peers{wait} ({basis})",
        many="{nodes} became slower than their peers ({basis})",
        many_share=0.0,  # a stage of a pipeline slows down as a whole
        advice="Check clocks, power, data loading and other processes of the node; then drain it.",
        warm_up=lambda _: WarmUp(
            PEERS.min_duration,
            steps=PEERS.learning + 2,
            without_steps=PEERS.learning * NODES.block + PEERS.min_duration,
        ),
        needs=("rank_step_seconds", "job_step_seconds", "neuroncore_utilization_ratio"),
        ends_with_job=True,
        settings=("straggler",),
        inhibited_by={
            "efa_degraded": _OWN_NODE, "efa_down": _OWN_NODE, "device_lost": _OWN_NODE,
            "ecc_uncorrected": _OWN_NODE, "execution_errors": _OWN_NODE,
            "node_silent": Scope(), "hang": Scope(), "recompile": Scope(),
            "checkpoint_stall": Scope(),
        },
    ),
    Rule(
        "slowdown", Severity.WARNING,
        "the steps of a job take {slowdown:.0%} longer than in the 1 to 10 minutes before, "
        "and no other incident explains it",
        Slowdown, hold=20.0, clear_hold=0.0,
        summary="{job} is {slower} slower than before: {now} per step, before {before}",
        advice="Compare storage, host CPU, network and clocks of all nodes before and after.",
        warm_up=lambda _: WarmUp(
            SLOWDOWN.min_baseline_seconds + SLOWDOWN.recent,
            SLOWDOWN.min_baseline_steps + SLOWDOWN.recent_steps,
            SLOWDOWN.min_baseline_seconds + SLOWDOWN.recent,
        ),
        needs=("job_step_seconds",),
        ends_with_job=True,
        settings=("slowdown",),
        inhibited_by=dict.fromkeys(
            ("comm_bound", "straggler", "efa_degraded", "efa_down", "latency_regression", "hang",
             "node_silent", "device_lost", "recompile", "checkpoint_stall", "memory_pressure",
             "ecc_uncorrected", "execution_errors"),
            _STOPS,
        ),
    ),
    Rule(
        "hang", Severity.CRITICAL,
        "no step for up to {hang:g} s beyond the usual step time while cores are busy, or for up "
        "to 60 s while they are idle, and nothing explains it",
        Hang, hold=0.0, clear_hold=0.0,
        summary="{job} stalled{step}, no progress for {silent}{culprit}{basis}",
        advice="Run py-spy dump on the named node or on all; find the rank outside the collective.",
        warm_up=lambda _: _UNDER_WAY,
        needs=_PROGRESS,
        ends_with_job=True,
        settings=("hang",),
        inhibited_by=dict.fromkeys(
            ("node_silent", "device_lost", "efa_down", "ecc_uncorrected", "execution_errors"),
            Scope(before=90.0),
        ),
    ),
    Rule(
        "recompile", Severity.WARNING,
        "a job that has been training compiles for more than {compilation:g} s",
        Recompile, hold=0.0, clear_hold=0.0,
        summary="{job}: compiling for {paused}{step} ({why})",
        advice="Find the graph that changed: batch size, sequence length; check the compile cache.",
        warm_up=lambda _: _UNDER_WAY,
        needs=_PROGRESS,
        ends_with_job=True,
        settings=("compilation",),
        inhibited_by={"node_silent": Scope(), "device_lost": Scope()},
    ),
    Rule(
        "checkpoint_stall", Severity.WARNING,
        "a checkpoint takes more than three times the job's usual pause, twice its longest and 20 s"
        ", or {checkpoint:g} s while no usual pause is known",
        CheckpointStall, hold=0.0, clear_hold=0.0,
        summary="{job}: checkpoint running for {paused}{usual} ({why})",
        advice="Check the file system: throughput, quota, servers; then the slowest writer.",
        warm_up=lambda _: _UNDER_WAY,
        needs=_PROGRESS,
        ends_with_job=True,
        settings=("checkpoint",),
        inhibited_by={"node_silent": Scope(), "device_lost": Scope()},
    ),
    Rule(
        "efa_degraded", Severity.WARNING,
        "an EFA device retransmits more than {retransmits:.1%} of its packets and 8 times its "
        "peers' share, for 12 s or on average over bursts of 45 s or more, or counts errors for "
        "12 s, or carries less than {card_traffic:.0%} of its usual share of traffic, or, alone, "
        "less than 72 % of its peers' traffic from the start",
        EfaDegraded, hold=0.0, clear_hold=10.0,
        summary="{node} {efa_device}: {symptom}",
        many="{nodes}: EFA devices degraded",
        advice="Probe the node against a healthy node; if it fails again, drain it.",
        warm_up=lambda _: WarmUp(EFA.min_duration),
        needs=("efa_tx_bytes_total", "efa_retrans_pkts_total"),
        settings=("retransmits", "card_traffic"),
        inhibited_by={"efa_down": _OWN_NODE, "node_silent": Scope(), "device_lost": _OWN_NODE},
    ),
    Rule(
        "efa_down", Severity.CRITICAL,
        "an EFA device is missing, not active, completes no commands, or carries no traffic for "
        "{card_silent:g} s while its peers carry the job's traffic",
        EfaDown, hold=3.0, clear_hold=5.0,
        summary="{node} {efa_device}: {symptom}",
        many="{nodes}: EFA devices down",
        advice="Check dmesg for efa and reboot; if the device stays down, replace the node.",
        warm_up=lambda _: WarmUp(EFA.min_used),
        needs=("node_efa_cards",),
        settings=("card_silent",),
        inhibited_by={"node_silent": _OWN_NODE},
    ),
    Rule(
        "latency_regression", Severity.WARNING,
        "a probed link has more than {latency:g} times its usual latency in two results in a row, "
        "or 3 times in one, and other links do not",
        LatencyRegression, hold=0.0, clear_hold=0.0, interval=5.0,
        summary="{where}: {what} ({tool} probe)",
        many="{nodes}: EFA latency has increased (probes)",
        advice="Probe the same peer from another node, and from another EFA device of this node.",
        warm_up=lambda _: WarmUp(results=LATENCY.min_baseline + 1),
        needs=("link_latency_seconds",),
        settings=("latency",),
        inhibited_by={"efa_degraded": Scope(), "efa_down": Scope(), "node_silent": Scope()},
    ),
    Rule(
        "node_silent", Severity.CRITICAL,
        "no data from any source of the node for {node_silent:g} s",
        NodeSilent, hold=0.0, clear_hold=0.0,
        summary="{node}: no data since {since}; last source: {last}",
        many="{nodes}: no data since {since}",
        advice="Check that the node is up, neuron-monitor is running and the network path is open.",
        warm_up=lambda settings: WarmUp(settings.node_silent),
        settings=("node_silent",),
    ),
    Rule(
        "device_lost", Severity.CRITICAL,
        "a device is missing from two readings in a row of a source that listed it and still lists "
        "others, or the device count has dropped",
        DeviceLost, hold=3.0, clear_hold=10.0, interval=2.0,
        summary="{node}: {what} ({basis})",
        many="{nodes} have lost devices",
        advice="Check dmesg and neuron-ls, drain the node; if the device stays lost, replace it.",
        warm_up=lambda _: _COUNTED,
        needs=("node_devices",),
    ),
    Rule(
        "ecc_uncorrected", Severity.CRITICAL,
        "an uncorrected HBM or SRAM error is counted",
        EccUncorrected, hold=0.0, clear_hold=600.0, interval=2.0,
        summary="{node} {device}: {count} ({basis})",
        advice="Drain the node and replace it; results since then are suspect.",
        warm_up=lambda _: _COUNTED,
        needs=("node_ecc_uncorrected_events",),
    ),
    Rule(
        "execution_errors", Severity.CRITICAL,
        "executions end with an error or any status but `completed`; a warning where the program "
        "itself may be the cause",
        ExecutionErrors, hold=0.0, clear_hold=60.0,
        summary="{node}: {count}: {kinds} ({basis})",
        many="{nodes}: executions fail",
        advice="Drain the node after a hardware error, check the loss after a numerical one; "
        "else read the runtime's log.",
        warm_up=lambda _: _COUNTED,
        needs=("node_executions_failed_total",),
        inhibited_by={
            "ecc_uncorrected": _OWN_NODE, "device_lost": _OWN_NODE, "node_silent": Scope(before=0),
            "hang": Scope(before=0), "efa_down": Scope(before=0),
        },
    ),
    Rule(
        "memory_pressure", Severity.WARNING,
        "a device uses more than {memory:.0%} of its HBM, or more than 90 % and will be full "
        "within 5 minutes; or less than 4 % of the host's memory is available",
        MemoryPressure, hold=None, clear_hold=10.0, interval=5.0,
        summary="{node}: {what} {how} ({basis})",
        many="{nodes}: HBM nearly full",
        advice="Find what grows: tensors (activations, leaks) or scratchpad (a new graph).",
        warm_up=lambda _: WarmUp(MEMORY.min_span),
        needs=("device_memory_used_ratio", "node_memory_available_bytes"),
        settings=("memory",),
    ),
    Rule(
        "idle_allocation", Severity.WARNING,
        "a process holds memory of cores that are idle for {idle:g} s, and nothing explains it; 15 "
        "times as long if it has worked without other nodes, as one that serves requests does",
        IdleAllocation, hold=0.0, clear_hold=10.0, interval=5.0,
        summary="{node}: {who}, idle since {since} (neuron-monitor)",
        many="{nodes} hold idle cores (neuron-monitor)",
        advice="Find its owner with neuron-ls and run py-spy dump; end it if it is left over.",
        warm_up=lambda settings: WarmUp(settings.idle),
        needs=("neuroncore_memory_used_bytes", "runtime_device_memory_used_bytes"),
        settings=("idle",),
        inhibited_by=dict.fromkeys(
            ("hang", "node_silent", "checkpoint_stall", "recompile", "device_lost", "efa_down",
             "execution_errors", "ecc_uncorrected"),
            Scope(before=120.0),
        ),
    ),
    Rule(
        "version_skew", Severity.WARNING,
        "versions of driver, EFA driver or runtime differ within a job or instance type",
        VersionSkew, hold=10.0, clear_hold=30.0, interval=5.0,
        summary="{where}: {what} (inventory)",
        advice="Update the node that differs before the next run.",
    ),
)  # fmt: skip
KINDS = tuple(rule.kind for rule in RULEBOOK)
NEXT_STEPS = {rule.kind: rule.advice for rule in RULEBOOK}
"""What to do first, by kind of incident."""


def rules(settings: Settings, custom: Sequence[CustomRule] = ()) -> tuple[Rule, ...]:
    """The rules in force.

    Args:
        settings: section `analysis`.
        custom: rules of the settings.

    Raises:
        SettingsError: `analysis.disabled` contains an unknown kind.
    """
    table = (*RULEBOOK, *map(rule_of, custom))
    kinds = [rule.kind for rule in table]
    for kind in settings.disabled:
        if kind not in kinds:
            raise SettingsError(f"analysis.disabled: {unknown('rule', kind, kinds)}")
    return tuple(rule for rule in table if rule.kind not in settings.disabled)
