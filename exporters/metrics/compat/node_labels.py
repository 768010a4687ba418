"""Labels that distinguish the nodes of a cluster where those of the other exporter do not."""

from collections.abc import Callable, Iterator

from trntop.core.model import Cluster, Inventory, NodeView

LabelPairs = tuple[tuple[str, str], ...]
"""Names and values of labels."""


def labeled_nodes(
    cluster: Cluster, original: Callable[[Inventory], LabelPairs]
) -> Iterator[tuple[NodeView, LabelPairs]]:
    """Every node, with the labels that identify it on each of its series.

    These are the labels of the other exporter, `original`, which serves one machine. All nodes get
    `node` if two of them would have the same labels, and `provenance` if the values are simulated.
    """
    found = {name: original(view.inventory) for name, view in cluster.nodes.items()}
    ambiguous = len(set(found.values())) < len(found)
    for name, view in cluster.nodes.items():
        pairs = found[name]
        if ambiguous:
            pairs += (("node", name),)
        if view.frame.simulated:
            pairs += (("provenance", "simulated"),)
        yield view, pairs
