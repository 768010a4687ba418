"""The exporter over HTTP."""
