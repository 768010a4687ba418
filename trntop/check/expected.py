"""The number of EFA devices a node must have."""

from trntop.check.model import Inspection
from trntop.core.instances import INSTANCE_TYPES

MAXIMUM = "efa_interfaces_max"
"""Fact: EC2's MaximumEfaInterfaces."""

ATTACHED = "efa_interfaces"
"""Fact: EFA interfaces the instance was launched with."""


def expected_cards(seen: Inspection) -> int | None:
    """From EC2, else from the table of instance types; None if unknown."""
    told = seen.facts.get(MAXIMUM, "")
    if told.isascii() and told.isdecimal():
        return int(told)
    row = INSTANCE_TYPES.get(seen.instance_type)
    return row.efa_cards if row else None
