"""Every fault that a check can find: test, name, outcome, next step."""

import shlex
from dataclasses import dataclass

from trntop.check.model import Action, Finding, Outcome
from trntop.core.text import clean

MAX_REASON = 100


@dataclass(frozen=True, slots=True)
class Fault:
    test: str
    name: str
    outcome: Outcome
    next_step: str = ""
    """`{drain}` stands for the commands that take the node out of service."""
    action: Action = Action.NONE

    def found(
        self,
        text: str,
        node: str = "",
        *,
        component: str = "",
        outcome: Outcome | None = None,
        next_step: str = "",
    ) -> Finding:
        """The finding of this fault; `outcome` and `next_step` replace those of the table."""
        device = component.partition(":")[2]
        drain = _drain(node, f"{self.name} {device}".strip())
        return Finding(
            check=self.test,
            outcome=outcome or self.outcome,
            fault=self.name,
            node=node,
            component=component,
            text=text,
            action=self.action,
            next_step=next_step or self.next_step.replace("{drain}", drain),
        )


def remark(test: str, text: str, node: str = "") -> Finding:
    return Finding(check=test, outcome=Outcome.PASS, node=node, text=text)


def _drain(node: str, reason: str) -> str:
    """The commands that take a node out of service."""
    # Backquotes enclose the commands.
    name = shlex.quote(node.replace("`", "'"))
    why = shlex.quote(f"trntop check: {clean(reason, MAX_REASON)}".replace("`", "'"))
    return (
        f"Drain it: `scontrol update nodename={name} state=drain reason={why}`"
        f" or `kubectl cordon {name}`."
    )


_PASS, _WARN, _FAIL, _UNKNOWN = Outcome.PASS, Outcome.WARN, Outcome.FAIL, Outcome.UNKNOWN
_ONE_IMAGE = "Use one image for all nodes of a job."
_REACH = "Check that the node is up, its agent is running and no firewall blocks the port."
_REPLACE = "{drain} Replace the instance if a second check fails again."
_RESTART = "{drain} Stop and start the instance."
_WHEN_IDLE = "Check again when the hosts are idle; `uptime` shows the load."

# Nodes

UNRESOLVED = Fault("reachable", "unreachable", _FAIL, "Check DNS or /etc/hosts.")
UNREACHABLE = Fault(
    "reachable", "unreachable", _FAIL, f"{_REACH} {{drain}} Reboot it if it is not running.",
    Action.ISOLATE,
)  # fmt: skip
STOPPED = Fault("reachable", "stopped responding", _FAIL, UNREACHABLE.next_step, Action.ISOLATE)
ALL_UNREACHABLE = Fault("reachable", "unreachable", _UNKNOWN, _REACH)
REFUSED = Fault(
    "reachable", "probes refused", _UNKNOWN,
    "Start its agent with --allow-probes and --probe-token-file FILE, and give the check the same"
    " token: --set fleet.token_file=FILE; or check over ssh://.",
)  # fmt: skip
BUSY = Fault(
    "busy", "busy", _UNKNOWN, "Check it when it is idle, or add --include-busy to probe it anyway."
)
TOOL_MISSING = Fault(
    "tools", "probe tool missing", _UNKNOWN,
    "Install the EFA installer or Debian's libfabric-bin.",
)  # fmt: skip
NOT_PROBED = Fault("latency", "not probed", _UNKNOWN)
INCOMPLETE = Fault("time", "check incomplete", _UNKNOWN)

# EFA and Neuron devices

EFA_UNKNOWN = Fault(
    "EFA devices", "EFA devices unknown", _UNKNOWN,
    "Run on the node: `ls /sys/class/infiniband`, `trntop doctor`.",
)  # fmt: skip
NO_EFA = Fault("EFA devices", "no EFA devices", _FAIL, _RESTART, Action.REBOOT)
NO_EFA_KNOWN = Fault(
    "EFA devices", "no EFA devices", _FAIL, "Add --provider tcp to probe over the ordinary network."
)
EFA_MISSING = Fault(
    "EFA devices", "EFA devices missing", _FAIL,
    "{drain} Reboot it; if the device stays missing, stop and start the instance.", Action.REBOOT,
)  # fmt: skip
EFA_FEWER = Fault(
    "EFA devices", "EFA devices missing", _WARN,
    "Ignore this if the nodes were launched with fewer interfaces on purpose.",
)  # fmt: skip
EFA_LOST = Fault("EFA devices", "EFA device lost", _FAIL, _RESTART, Action.ISOLATE)
EFA_RATE = Fault("EFA devices", "EFA link rate low", _FAIL, _RESTART, Action.ISOLATE)
EFA_DEAD = Fault(
    "admin queue", "EFA admin queue dead", _FAIL,
    "{drain} Reboot it; if it recurs, replace the instance.", Action.REBOOT,
)  # fmt: skip
EFA_RESET = Fault("counters", "EFA driver reset", _WARN, action=Action.MONITOR)
RETRANSMITS = Fault(
    "retransmits", "retransmits high", _WARN,
    "Check again with --per-device --full; if it is slow too, drain it.", Action.MONITOR,
)  # fmt: skip
ALL_RETRANSMIT = Fault(
    "retransmits", "retransmits high", _WARN, "Check the network between the nodes."
)
NEURON_MISSING = Fault(
    "devices", "Neuron devices missing", _FAIL,
    "{drain} Reboot it; if a device stays missing, replace the instance.", Action.REBOOT,
)  # fmt: skip
NO_NEURON = Fault("devices", "no Neuron devices", _FAIL, NEURON_MISSING.next_step, Action.REBOOT)
NEURON_UNHEALTHY = Fault(
    "health", "Neuron device unhealthy", _FAIL, "{drain} Replace the instance.", Action.ISOLATE
)
EFA_UNHEALTHY = Fault(
    "health", "EFA device unhealthy", _FAIL, "{drain} Replace the instance.", Action.ISOLATE
)

# Software and limits

VERSIONS = Fault("versions", "version mismatch", _WARN, _ONE_IMAGE)
MODULES = Fault(
    "modules", "kernel module missing", _FAIL,
    "{drain} Reinstall the EFA software and the Neuron driver, or `modprobe` them.", Action.ISOLATE,
)  # fmt: skip
UVERBS = Fault(
    "uverbs", "uverbs missing", _FAIL, "Load ib_uverbs; in a container, mount /dev/infiniband."
)
MEMLOCK = Fault(
    "memlock", "memlock too low", _WARN,
    "Set memlock to unlimited in /etc/security/limits.conf, and in the unit of slurmd or"
    " containerd.",
)  # fmt: skip
HUGE_PAGES = Fault("huge pages", "too few huge pages", _WARN)
PEER_TO_PEER = Fault(
    "peer-to-peer", "no peer-to-peer access", _WARN,
    "Load the Neuron driver before the EFA driver, or reboot.",
)  # fmt: skip

# Probes

SIDE_FAILED = Fault(
    "probe", "probe failed", _FAIL, "{drain} Run `fi_info -p efa` and `trntop doctor` on it.",
    Action.ISOLATE,
)  # fmt: skip
SIDE_FLAKY = Fault("probe", "probe failed", _WARN, action=Action.MONITOR)
ALL_SIDES_FAILED = Fault(
    "probe", "all probes failed", _FAIL,
    "Check what the nodes share: image, provider, tool; run `fi_info -p efa`.",
)  # fmt: skip
_USUAL_CAUSES = (
    "Check that the security group allows all traffic from and to itself, that all nodes are in one"
    " zone, and that the provider is installed."
)
PROBE_FAILED = Fault("latency", "probe failed", _FAIL, _USUAL_CAUSES)
ALL_PROBES_FAILED = Fault("latency", "all probes failed", _FAIL, _USUAL_CAUSES)
NO_GOOD_PAIR = Fault("latency", "no good pair", _UNKNOWN)
NODE_FAILS = Fault("latency", "probe failed", _FAIL, _REPLACE, Action.ISOLATE)
NODE_SLOW = Fault("latency", "slow network", _FAIL, _REPLACE, Action.ISOLATE)
NODE_LOADED = Fault("latency", "slow network", _UNKNOWN, _WHEN_IDLE)
EFA_FAILS = Fault("latency", "EFA device unreachable", _FAIL, _REPLACE, Action.ISOLATE)
EFA_SLOW = Fault("latency", "slow EFA device", _FAIL, _REPLACE, Action.ISOLATE)
EFA_LOADED = Fault("latency", "slow EFA device", _UNKNOWN, _WHEN_IDLE)
MANY_NODES = Fault(
    "latency", "many slow nodes", _FAIL,
    "Check what they share and the others do not: placement, image, subnet.",
)  # fmt: skip
MANY_PAIRS = Fault(
    "latency", "many slow pairs", _PASS,
    "Use a cluster placement group; nodes in different racks normally show two groups of"
    " latencies.",
)  # fmt: skip
_EVERY_PAIR = "Check again with --full to probe every pair."
PATH_FAILED = Fault("latency", "path failed", _FAIL, _EVERY_PAIR, Action.MONITOR)
PATH_LOSSY = Fault("latency", "lossy path", _WARN, _EVERY_PAIR, Action.MONITOR)
PATH_SLOW = Fault("latency", "slow path", _WARN, _EVERY_PAIR, Action.MONITOR)
PATH_LOADED = Fault("latency", "slow path", _UNKNOWN, _WHEN_IDLE)
