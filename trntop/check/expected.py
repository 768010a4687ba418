"""How many EFA cards a node must have."""

from trntop.check.model import Inspection
from trntop.core.instances import INSTANCE_TYPES

MAXIMUM = "efa_interfaces_max"
"""The fact that tells EC2's MaximumEfaInterfaces."""

ATTACHED = "efa_interfaces"
"""The fact that tells how many EFA interfaces the instance was launched with."""


def expected_cards(seen: Inspection) -> int | None:
    """By EC2's word, else by the table of instance types; None where neither says."""
    told = seen.facts.get(MAXIMUM, "")
    if told.isascii() and told.isdecimal():
        return int(told)
    row = INSTANCE_TYPES.get(seen.instance_type)
    return row.efa_cards if row else None
