"""The kubelet's allocation of Neuron devices and cores to pods."""

from trntop.catalog import POD_RESOURCES
from trntop.sources.allocations import decode_pods
from trntop.sources.source import Role, Source

SOURCE = Source(
    name=POD_RESOURCES,
    decode=decode_pods,
    role=Role.SCHEDULER,
    stale_after=60.0,  # a kubelet takes its time to restart
    gives="which pod and container has which Neuron devices or cores, on Kubernetes",
    origin="`List` of the kubelet's PodResources API, on the Unix socket that the setting "
    "`collect.pod_resources` names",
    needs="root, the socket's directory mounted into the agent's container, and the Python package "
    "h2: `.venv/bin/pip install '.[kubernetes]'`",
    without="devices without pods",
)
