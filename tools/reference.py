"""Writes `docs/sources.md` and `docs/metrics.md` from the rows of sources and quantities."""

from pathlib import Path

from trntop.catalog import CATALOG, METRIC_PREFIX, Entity, Quantity, of_entity, page_of
from trntop.sources import BUILT_IN

DOCS = Path(__file__).parent.parent / "docs"


def describe_sources() -> str:
    """The sources and their quantities as Markdown: `docs/sources.md`."""
    lines = [
        "# Sources",
        "",
        "Made by `make docs`; do not edit.",
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


def describe_metrics() -> str:
    """The catalog as Markdown: `docs/metrics.md`."""
    lines = [
        "# Quantities and metrics",
        "",
        "Made by `make docs`; do not edit.",
        "",
        f"Names are those of the JSON; on the page of metrics they begin with `{METRIC_PREFIX}`.",
        "Those marked with – under *page* are on the screen and in the JSON only. Provenance: see",
        "[architecture](architecture.md#provenance); every value of a simulation is `simulated`.",
    ]
    for entity in Entity:
        lines += [
            "",
            f"## Per {entity}",
            "",
            "| name | unit | meaning | provenance | from | kind | page |",
            "|---|---|---|---|---|---|---|",
        ]
        for quantity in of_entity(entity):
            sources = " else ".join(filter(None, (quantity.source, quantity.fallback)))
            origin = sources or computed_from(quantity)
            page = page_of(quantity)
            unit = quantity.unit.replace("_per_second", "/s").replace("per_second", "1/s")
            lines.append(
                f"| `{quantity.name}` | {unit} | {quantity.help} | {quantity.provenance} "
                f"| {origin} | {quantity.kind if page else '–'} | {page.path if page else '–'} |"
            )
    return "\n".join(lines)


def computed_from(quantity: Quantity) -> str:
    """The inputs of a quantity without a source, for people."""
    if quantity.rate_of:
        return f"change of `{quantity.rate_of}`"
    return quantity.formula or f"{quantity.combine} of `{quantity.rollup_of}`"


PAGES = {"sources.md": describe_sources, "metrics.md": describe_metrics}


if __name__ == "__main__":
    for name, describe in PAGES.items():
        (DOCS / name).write_text(describe() + "\n", encoding="utf-8")
