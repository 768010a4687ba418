"""Two runs side by side: as a table and as JSON."""

from collections.abc import Sequence

from trntop.analysis.compare import Comparison, Figure, Pair, Side, kinds
from trntop.catalog import Provenance
from trntop.core import units

from .document import SCHEMA, Document, incident
from .grid import Column, fill, lines, plural

SIMULATED = "SIMULATED"
UNMARKED = "  "
"""In place of a provenance mark."""


def text(found: Comparison, width: int) -> str:
    """Lines of at most `width` cells."""
    columns = [
        Column("", left=True),
        Column("A"),
        Column("B"),
        Column("B / A", rank=2),
        Column("B is", left=True, rank=1),
    ]
    for row in _rows(found):
        fill(columns, row)
    head = [f"A  {_named(found.a)}", f"B  {_named(found.b)}", ""]
    return "\n".join([*head, *(line.rstrip() for line in lines(columns, width)), "", *_marks()])


def document(found: Comparison) -> Document:
    """The same as JSON; an unknown figure is null."""
    return {
        "schema": SCHEMA,
        "a": _side(found.a),
        "b": _side(found.b),
        "figures": [
            {
                "name": pair.name,
                "a": _figure(pair.a, found.a),
                "b": _figure(pair.b, found.b),
                "ratio": pair.ratio,
                "b_is": pair.verdict or None,
            }
            for pair in found.pairs
        ],
    }


def _side(side: Side) -> Document:
    return {
        "source": side.source,
        "simulated": side.simulated,
        "from": side.first,
        "to": side.last,
        "duration_seconds": side.seconds,
        "nodes": side.nodes,
        "instance_types": list(side.types),
        "job": side.job or None,
        "job_nodes": side.job_nodes,
        "price_per_node_hour": side.price,
        "incidents": [incident(found) for found in side.incidents],
    }


def _figure(figure: Figure | None, side: Side) -> Document | None:
    if figure is None:
        return None
    provenance = Provenance.SIMULATED if side.simulated else figure.provenance
    return {"value": figure.value, "provenance": provenance.value}


def _rows(found: Comparison) -> list[Sequence[str]]:
    a, b = found.a, found.b
    rows: list[Sequence[str]] = [
        (title, form(a) + UNMARKED, form(b) + UNMARKED, "", "")
        for title, form in (("nodes", _nodes), ("job", _job), ("seen", _seen))
    ]
    rows += [
        (pair.title, _number(pair, pair.a), _number(pair, pair.b), _ratio(pair), pair.verdict)
        for pair in found.pairs
    ]
    rows.append(_counted("incidents", len(a.incidents), len(b.incidents)))
    for kind in kinds((a, b)):
        rows.append(_counted(f"  {kind}", a.kinds.get(kind, 0), b.kinds.get(kind, 0)))
    return rows


def _counted(title: str, a: int, b: int) -> Sequence[str]:
    verdict = "similar" if a == b else "better" if b < a else "worse"
    return title, f"{a}{UNMARKED}", f"{b}{UNMARKED}", "", verdict


def _named(side: Side) -> str:
    return f"{side.source}{f' ({SIMULATED})' if side.simulated else ''}"


def _nodes(side: Side) -> str:
    if len(side.types) == 1:
        return f"{side.nodes} × {side.types[0]}"
    return plural(side.nodes, "node")


def _job(side: Side) -> str:
    return side.job or units.ABSENT


def _seen(side: Side) -> str:
    return units.span(side.seconds)


def _number(pair: Pair, figure: Figure | None) -> str:
    """With its unit and its mark or a blank."""
    if figure is None:
        return units.ABSENT + UNMARKED
    return f"{pair.form(figure.value)} {units.mark(figure.provenance) or ' '}"


def _ratio(pair: Pair) -> str:
    return "" if pair.ratio is None else f"{pair.ratio:.2f}×"


def _marks() -> list[str]:
    known = [
        f"{units.mark(provenance)} {provenance.value}"
        for provenance in (Provenance.REPORTED, Provenance.DERIVED, Provenance.ESTIMATED)
    ]
    return [f"{', '.join(known)}; {units.ABSENT} unknown in this run; similar: within 2 %"]
