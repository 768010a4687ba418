"""Where each source comes from, what it needs, and what is seen without it.

`docs/sources.md` and `trntop doctor` say what stands here.
"""

from dataclasses import dataclass

from trntop.catalog.names import (
    CLOUDWATCH,
    EFA_EXPORTER,
    EFA_SOURCE,
    FLEET,
    HOST,
    JOB_MAPPING,
    KERNEL_LOG,
    LOG,
    NEURON_EXPORTER,
    NEURON_LS,
    NEURON_MONITOR,
    NEURON_SYSFS,
    OBSERVER,
    POD_RESOURCES,
    PROBE,
    PROFILES,
    SSH,
    STEPS,
    TENSOR_ENGINE,
)


@dataclass(frozen=True, slots=True)
class Guide:
    """What a user may want to know of one source."""

    gives: str
    origin: str
    """Where trntop reads it."""
    needs: str
    without: str
    """What is absent, and what stands in its place."""


GUIDE = {
    NEURON_MONITOR: Guide(
        "utilization, FLOP/s and HBM use per NeuronCore, executions, latency, errors, ECC",
        "the program `neuron-monitor`, started by trntop, or its output on standard input",
        "aws-neuronx-tools and the Neuron driver (aws-neuronx-dkms)",
        "no logical cores, runtimes or executions, and so no HBM bandwidth; devices, memory and "
        "tensor engines are still read from sysfs where the driver is loaded",
    ),
    NEURON_SYSFS: Guide(
        "memory, execution statuses, ECC, power and health from the Neuron driver itself",
        "`/sys/devices/virtual/neuron_device/neuron*`, nodes found by name",
        "the Neuron driver; counters are live from driver 2.30.2 (SDK 2.32)",
        "no power, health or ECC totals; memory and ECC are still told by neuron-monitor where it "
        "runs",
    ),
    TENSOR_ENGINE: Guide(
        "the tensor engines' busy share, which tells work from waiting",
        "`pe_cntrs` of each physical core in the same tree, two reads",
        "the Neuron driver of SDK 2.25 or newer",
        "no TE column, and no ceiling for an estimated communication share",
    ),
    NEURON_LS: Guide(
        "PCI addresses, NUMA nodes and topology of the devices; which process holds which",
        "the program `neuron-ls`, as JSON",
        "aws-neuronx-tools",
        "devices without PCI and NUMA, no list of processes",
    ),
    EFA_SOURCE: Guide(
        "traffic, retransmits, drops and errors of each EFA card",
        "`/sys/class/infiniband/*/ports/1/hw_counters` and `/sys/class/infiniband/*/hw_counters`",
        "the EFA driver; retransmits from 2.17.0 and Nitro v4, the true line rate from 2.13.0",
        "no EFA columns, and no floor for an estimated communication share",
    ),
    STEPS: Guide(
        "step time, compute, total and exposed communication time, tokens, loss, as reported by "
        "the training process",
        "a Unix socket or JSON lines in files, written by `trntop.steps`",
        "a few lines in the training loop (docs/steps.md)",
        "step time from the log where one is followed; the communication share becomes an "
        "estimated range, marked `~`",
    ),
    LOG: Guide(
        "step, loss, tokens/s, MFU and step time from the lines a training run prints",
        "the files named in the setting `collect.logs`",
        "a log of TorchTitan, NxD, NeMo, optimum-neuron, or a pattern in `collect.log_patterns`",
        "these values, unless step telemetry reports them",
    ),
    HOST: Guide(
        "CPU, memory, network, disks, Lustre, compilers and compile cache",
        "psutil, `/proc`, and the folder of the compile cache",
        "nothing on the host; in a container its `/proc` (setting `collect.root`)",
        "no host panel, and a compilation looks like idle cores",
    ),
    KERNEL_LOG: Guide(
        "NEURON_HW_ERR events and complaints of the EFA driver",
        "`/dev/kmsg`, else `journalctl -k`",
        "root or CAP_SYSLOG, or membership of systemd-journal",
        "hardware errors are seen only once a counter shows them",
    ),
    PROFILES: Guide(
        "HBM bytes per execution of a NEFF, and so HBM bandwidth",
        "summaries of neuron-explorer, kept by `trntop profile add FILE`",
        "one profile of each program that runs (`neuron-explorer view --output-format "
        "summary-json`)",
        "no HBM bandwidth: no Neuron interface tells it live",
    ),
    JOB_MAPPING: Guide(
        "which job a scheduler such as Slurm gave the node or its devices to",
        "files in the folder that the setting `collect.job_mapping` names, one for each Neuron "
        "device index, or `all`, with a job id a line: the form of dcgm-exporter's "
        "`--hpc-job-mapping-dir`",
        "a prolog and an epilog of the scheduler that write and remove them (deploy/slurm)",
        "nobody tells an idle node from one that was given away and is not used",
    ),
    POD_RESOURCES: Guide(
        "which pod and container has which Neuron devices or cores, on Kubernetes",
        "`List` of the kubelet's PodResources API, on the Unix socket that the setting "
        "`collect.pod_resources` names",
        "root, the socket's folder mounted into the agent's container, and the Python package h2: "
        "`.venv/bin/pip install '.[kubernetes]'`",
        "devices without pods, unless neuron-monitor runs with its Kubernetes plugin",
    ),
    PROBE: Guide(
        "latency from the node to its peers, measured by messages sent for that alone",
        "results of `fi_pingpong`, `ib_send_lat` or `nccom-test`, written as docs/recording.md "
        "says into a recording or a stream",
        "a prober of the cluster's own; EFA cards count no latency",
        "no latency: traffic and retransmits are all that cards tell",
    ),
    NEURON_EXPORTER: Guide(
        "what AWS's neuron-monitor-prometheus.py publishes of a node: utilization and HBM use per "
        "NeuronCore, executions, latency, errors, ECC",
        "its page, `http://HOST:8000/metrics`, polled each 5 s (docs/nodes.md)",
        "the script, or its DaemonSet, on a node without an agent of trntop",
        "these values, unless an agent, ssh or CloudWatch tells them; FLOP/s, tensor engines and "
        "HBM bandwidth are not on the page",
    ),
    EFA_EXPORTER: Guide(
        "traffic, retransmits, drops and errors of each EFA card, as AWS's EFA node exporter "
        "publishes them",
        "its page, `http://HOST:9100/metrics`, polled each 5 s",
        "node_exporter with the collector `amazonefa` on a node without an agent of trntop",
        "no EFA columns of such a node",
    ),
    OBSERVER: Guide(
        "what is public of Neuron Observer's metrics: utilization of the node, uncorrected memory "
        "errors, EFA counters",
        "its page of metrics, polled each 5 s; a beta, whose names may change",
        "Neuron Observer (Trn2, Trn3 on EKS) on a node without an agent of trntop",
        "these values, unless another source tells them",
    ),
    CLOUDWATCH: Guide(
        "Container Insights' metrics of each node of a cluster: utilization, HBM use, latency, "
        "execution errors, EFA traffic, by the minute",
        "GetMetricData of CloudWatch, each 60 s, one to three minutes late",
        "the CloudWatch agent with accelerated compute metrics on the nodes and "
        "permission (docs/nodes.md)",
        "nothing of nodes that cannot be reached otherwise",
    ),
    FLEET: Guide(
        "what a list of nodes tells of a node: EC2's id, type, zone, placement group, network "
        "nodes, capacity block, scheduled events and status checks; Slurm's job",
        "the list that the nodes come from: `ec2:`, `slurm:`, labels in a file (docs/nodes.md)",
        "for EC2, permission (docs/nodes.md)",
        "these facts, as far as the node itself does not tell them",
    ),
    SSH: Guide(
        "whether a node on which nothing is installed answers, and if not, why",
        "OpenSSH and a shell on the node, which read the other sources there (docs/ssh.md)",
        "ssh to the node without a question asked: a key or an agent, and a known host key",
        "no value of such a node",
    ),
}
"""Source → its guide, for every source there is."""
