"""Labels that distinguish the nodes of a cluster where those of the other exporter do not."""

from collections.abc import Callable, Iterator

from trntop.core.model import Cluster, Inventory, NodeView

Pairs = tuple[tuple[str, str], ...]
"""Names and values of labels."""


def placed(
    cluster: Cluster, place: Callable[[Inventory], Pairs]
) -> Iterator[tuple[NodeView, Pairs]]:
    """Every node, and the labels that stand for it on each of its series.

    They are the other exporter's own, `place`, which speaks for one machine. `node` is added on
    all nodes where two of them could not be told apart otherwise, and `provenance` where the
    values are simulated.
    """
    own = {name: place(view.inventory) for name, view in cluster.nodes.items()}
    alike = len(set(own.values())) < len(own)
    for name, view in cluster.nodes.items():
        pairs = own[name]
        if alike:
            pairs += (("node", name),)
        if view.frame.simulated:
            pairs += (("provenance", "simulated"),)
        yield view, pairs
