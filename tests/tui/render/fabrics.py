"""EFA devices and links to draw."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tests.builders import NOON, efa_name, make_node, view_of
from trntop.catalog import Entity
from trntop.core.model import Incident, NodeView
from trntop.core.settings import Analysis
from trntop.pipeline.history import History
from trntop.tui.render.fabric import Fabric
from trntop.tui.view_model import ViewModel

FACTS = {"tool": "fi_pingpong", "statistic": "mean", "size_bytes": "64", "load": "training"}


def view_model_of(*nodes: NodeView, incidents: Sequence[Incident] = ()) -> ViewModel:
    return ViewModel(
        view=view_of(*nodes, incidents=incidents), history=History(60), limits=Analysis(), utc=True
    )


def fabric_of(*nodes: NodeView, incidents: Sequence[Incident] = ()) -> Fabric:
    return Fabric(view_model_of(*nodes, incidents=incidents))


def efa_devices(
    index: int, efa: int = 4, columns: Mapping[str, Sequence[float] | None] | None = None
) -> NodeView:
    """A node with two devices and some EFA devices."""
    return make_node(index, 2, 2, efa, columns=columns)


def renamed(node: NodeView, *names: str) -> NodeView:
    """The same node with other names for its EFA devices."""
    keys = {**node.inventory.keys, Entity.EFA: names}
    return replace(node, inventory=replace(node.inventory, keys=keys, efa_links={}))


def probing(
    node: NodeView,
    latencies: Mapping[str, float],
    *,
    facts: Mapping[str, str] = FACTS,
    age: float = 5.0,
) -> NodeView:
    """The same node with links: `peer` or `device>peer` → seconds."""
    inventory, frame = node.inventory, node.frame
    links = tuple(latencies)
    return NodeView(
        replace(
            inventory,
            keys={**inventory.keys, Entity.LINK: links},
            links={link: dict(facts) for link in links},
        ),
        replace(
            frame,
            columns={
                **frame.columns,
                "link_latency_seconds": np.array(list(latencies.values())),
                "link_probe_size_bytes": np.full(len(links), 64.0),
                "link_probe_timestamp_seconds": NOON - age - np.arange(len(links)),
            },
        ),
    )


def probed(count: int = 4, slow: tuple[int, int] | None = None) -> list[NodeView]:
    """Nodes each of which probes those after it from its first device; one pair may be slow."""
    return [
        probing(
            efa_devices(index),
            {
                f"{efa_name(0)}>trn-{peer:03d}": 54e-6 if (index, peer) == slow else 16e-6
                for peer in range(index + 1, count)
            },
        )
        for index in range(count)
    ]
