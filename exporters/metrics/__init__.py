"""Prometheus' and OpenMetrics' pages, and who else takes them."""
