"""What SageMaker HyperPod states of a node in its Kubernetes labels: `{"period", "labels": {…}}`.

Labels: "Resilience-related Kubernetes labels by SageMaker HyperPod" in the SageMaker developer
guide; `fault-types` and `fault-reasons` as HyperPod's health monitoring agent writes them.
"""

import msgspec

from trntop.catalog import KUBERNETES_NODE
from trntop.core.model import Sample
from trntop.core.text import clean
from trntop.sources import tolerant
from trntop.sources.source import Source

PERIOD = 30.0
PREFIX = "sagemaker.amazonaws.com/"
HEALTH = f"{PREFIX}node-health-status"
DEEP_CHECK = f"{PREFIX}deep-health-check-status"
FAULTS = (f"{PREFIX}fault-types", f"{PREFIX}fault-reasons")
MAX_TEXT = 128


class _Node(msgspec.Struct):
    period: float = PERIOD
    labels: dict[str, str] = {}


_decoder = msgspec.json.Decoder(_Node)


def decode(data: bytes) -> Sample:
    """The health of the node; without HyperPod's labels, nothing.

    Raises:
        DecodeError: the payload is not a JSON object of this kind.
    """
    node, problems = tolerant.decode(data, _decoder)
    labels = {name: clean(value, MAX_TEXT) for name, value in node.labels.items()}
    facts = {}
    if HEALTH in labels:
        # Empty where the label is gone: a fault that was there has been cleared.
        facts = {
            "hyperpod_health": labels[HEALTH],
            "hyperpod_deep_check": labels.get(DEEP_CHECK, ""),
            "hyperpod_fault": ": ".join(filter(None, map(labels.get, FAULTS))),
        }
    return Sample(
        facts={"facts": facts},
        period=node.period if 0 < node.period < float("inf") else PERIOD,
        problems=problems,
    )


SOURCE = Source(
    name=KUBERNETES_NODE,
    decode=decode,
    gives="SageMaker HyperPod's health status, deep health check and faults of a node",
    origin="the labels of the node, from the Kubernetes API",
    needs="a pod whose service account may get nodes, and its node's name in `NODE_NAME`: "
    "`kubectl apply -k deploy/kubernetes/hyperpod`",
    without="no HyperPod health status",
)
