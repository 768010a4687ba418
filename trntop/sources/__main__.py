"""Prints `docs/sources.md`, or with the argument `metrics` `docs/metrics.md`."""

import sys

from trntop.catalog import CATALOG, computed_from, describe
from trntop.sources import BUILT_IN


def describe_sources() -> str:
    """The sources and their quantities as Markdown: `docs/sources.md`."""
    lines = [
        "# Sources",
        "",
        "Made by `python -m trntop.sources > docs/sources.md`; do not edit.",
        "",
        "Where each value comes from, what it needs, and what replaces it. A value that is",
        "not known is `–` on screen with its reason, `null` or missing in JSON, and no series on",
        "the metrics page. `trntop doctor` checks the machine it runs on. Units and",
        "provenance: [metrics](metrics.md).",
    ]
    for source in BUILT_IN:
        lines += [
            "",
            f"## {source.name}",
            "",
            f"Gives {source.gives}.",
            "",
            f"- From: {source.origin}",
            f"- Needs: {source.needs}",
            f"- Without it: {source.without}",
            "",
            "| quantity | needs besides |",
            "|---|---|",
        ]
        lines += [
            f"| `{quantity.name}`{' (without steps)' * (quantity.fallback == source.name)} "
            f"| {quantity.needs} |"
            for quantity in CATALOG.values()
            if source.name in (quantity.source, quantity.fallback)
        ]
    lines += [
        "",
        "## Computed",
        "",
        "Absent while one of their inputs is.",
        "",
        "| quantity | from | needs besides |",
        "|---|---|---|",
    ]
    lines += [
        f"| `{quantity.name}` | {computed_from(quantity)} | {quantity.needs} |"
        for quantity in CATALOG.values()
        if not quantity.source
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(describe() if "metrics" in sys.argv[1:] else describe_sources())
