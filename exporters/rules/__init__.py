"""Rules for Prometheus, from the rulebook: recording rules and alerts.

The exporter evaluates the rules: an alert on a kind of incident fires while
`trn_incident_active` has an open incident, so that screen, page and alert agree. Thresholds and
`for` are settings of the exporter.
"""

from .alerts import Links, incident_group, watch_group
from .model import Alert, Group, Recording, rule_file
from .recording import recording_groups

__all__ = [
    "Alert",
    "Group",
    "Links",
    "Recording",
    "incident_group",
    "recording_groups",
    "rule_file",
    "watch_group",
]
