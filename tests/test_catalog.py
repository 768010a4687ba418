import re
from pathlib import Path

import pytest

from trntop.catalog import CATALOG, Entity, Kind, describe
from trntop.derive import FORMULAS, LATE_FORMULAS, RATES, ROLLUPS

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
    assert computed == {*FORMULAS, *LATE_FORMULAS}
    assert {name for name, _, _ in ROLLUPS} == {
        name for name, quantity in CATALOG.items() if quantity.rollup_of
    }
    assert set(RATES.values()) == {name for name, quantity in CATALOG.items() if quantity.rate_of}


def test_the_page_of_quantities_is_current() -> None:
    page = Path(__file__).parents[1] / "docs" / "metrics.md"
    assert page.read_text() == describe() + "\n", "run: make docs"
