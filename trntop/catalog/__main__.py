"""Prints `docs/metrics.md`, or with the argument `sources` `docs/sources.md`."""

import sys

from trntop.catalog import describe, describe_sources

print(describe_sources() if "sources" in sys.argv[1:] else describe())
