import re
from pathlib import Path

import pytest

from trntop.catalog import CATALOG, GUIDE, SOURCES, Entity, Kind, describe, describe_sources
from trntop.decode import DECODERS
from trntop.derive import FORMULAS, LATE_FORMULAS, RATES, ROLLUPS
from trntop.estimate import WINDOWED

UNITS = ("bytes", "seconds", "ratio")


@pytest.mark.parametrize("quantity", CATALOG.values(), ids=str)
def test_names_follow_the_conventions(quantity: object) -> None:
    from trntop.catalog import Quantity

    assert isinstance(quantity, Quantity)
    assert re.fullmatch(r"[a-z][a-z0-9_]*", quantity.name)
    assert quantity.name.endswith("_total") == (quantity.kind is Kind.COUNTER)
    stem = quantity.name.removesuffix("_total")
    if quantity.unit in UNITS:
        assert stem.endswith(quantity.unit)
    assert quantity.help
    # Pids are unbounded: nothing keyed by them has a series.
    assert not (quantity.entity is Entity.RUNTIME and quantity.exported)


def test_every_quantity_comes_from_somewhere() -> None:
    for quantity in CATALOG.values():
        ways = [quantity.source, quantity.formula, quantity.rate_of, quantity.rollup_of]
        assert sum(map(bool, ways)) == 1, quantity.name
        for other in (quantity.rate_of, quantity.rollup_of):
            assert not other or other in CATALOG
    computed = {name for name, quantity in CATALOG.items() if quantity.formula}
    assert computed == {*FORMULAS, *LATE_FORMULAS, *WINDOWED}
    assert {name for name, _, _ in ROLLUPS} == {
        name for name, quantity in CATALOG.items() if quantity.rollup_of
    }
    assert set(RATES.values()) == {name for name, quantity in CATALOG.items() if quantity.rate_of}


def test_every_source_has_a_decoder_and_a_guide() -> None:
    assert set(SOURCES) == set(DECODERS) == set(GUIDE)
    for quantity in CATALOG.values():
        assert {quantity.source, quantity.fallback} <= {*SOURCES, ""}


@pytest.mark.parametrize(
    ("page", "text"), [("metrics.md", describe()), ("sources.md", describe_sources())]
)
def test_the_pages_are_current(page: str, text: str) -> None:
    assert (Path(__file__).parents[1] / "docs" / page).read_text() == text + "\n", "run: make docs"
