"""Rules for Prometheus, from the rulebook: recording rules and alerts.

The exporter judges, Prometheus passes on: an alert on a kind of incident fires while
`trn_incident_active` says that one lasts, so that screen, page and alert cannot disagree. What is
judged by, thresholds and holds, stands in the settings of the exporter alone.
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
