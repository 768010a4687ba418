"""Monitor (feed, tick), runner, collector protocol, notifications."""
