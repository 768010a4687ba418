"""Facts about a node from a list of nodes: `{"facts": {name: text}, "period": seconds}`.

Facts go by the names of `Inventory.facts`; an empty text takes one back. An `instance_state` other
than pending or running means that the node cannot report, and why.
"""

import msgspec

from trntop.catalog import FLEET
from trntop.core.model import Sample
from trntop.core.text import clean
from trntop.sources import tolerant
from trntop.sources.source import Role, Source

MAX_FACTS = 64
MAX_NAME = 64
ALIVE = ("", "pending", "running")
"""States of an instance that may report."""


class _Told(msgspec.Struct):
    facts: dict[str, str] = {}
    period: float | None = None


_decoder = msgspec.json.Decoder(_Told)


def decode(data: bytes) -> Sample:
    """The facts of one node.

    Raises:
        DecodeError: the payload is not a JSON object of this kind.
    """
    listed, problems = tolerant.decode(data, _decoder)
    facts = {
        clean(name, MAX_NAME): clean(text) for name, text in list(listed.facts.items())[:MAX_FACTS]
    }
    state = facts.get("instance_state", "")
    why = facts.get("state_reason", "")
    gone = "" if state in ALIVE else f"EC2 reports: {state}{f' ({why})' if why else ''}"
    period = listed.period
    return Sample(
        facts={"facts": facts},
        period=period if period is not None and 0 < period < float("inf") else None,
        problems=problems,
        unusable=gone,
    )


SOURCE = Source(
    name=FLEET,
    decode=decode,
    role=Role.REMOTE,
    stale_after=1800.0,  # facts are valid until the list changes
    gives="facts about a node from a list of nodes: EC2's id, type, zone, placement group, network "
    "nodes, capacity block, scheduled events and status checks; Slurm's job",
    origin="the list that the nodes come from: `ec2:`, `slurm:`, labels in a file (docs/nodes.md)",
    needs="for EC2, permission (docs/nodes.md)",
    without="these facts, unless the node itself reports them",
)
