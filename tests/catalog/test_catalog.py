import re

import pytest

from tools.reference import DOCS, PAGES
from trntop.catalog import (
    AGENT,
    CATALOG,
    Entity,
    Kind,
    Page,
    page_of,
)
from trntop.pipeline.derive import FORMULAS, RATES, ROLLUP_FORMULAS, ROLLUPS
from trntop.pipeline.smooth import BOUNDS
from trntop.sources import BY_NAME

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
    assert computed == {*FORMULAS, *ROLLUP_FORMULAS, *BOUNDS}
    assert {name for name, _, _ in ROLLUPS} == {
        name for name, quantity in CATALOG.items() if quantity.rollup_of
    }
    assert set(RATES.values()) == {name for name, quantity in CATALOG.items() if quantity.rate_of}


def test_quantities_come_from_known_sources() -> None:
    for quantity in CATALOG.values():
        # An agent's messages have no decoder; its clock offset follows from their arrival.
        assert {quantity.source, quantity.fallback} <= {*BY_NAME, AGENT, ""}


def test_every_exported_quantity_is_on_one_page() -> None:
    for quantity in CATALOG.values():
        page = page_of(quantity)
        assert (page is None) is not quantity.exported
        of_core = quantity.entity in (Entity.CORE, Entity.PHYSICAL_CORE)
        assert not quantity.exported or (page is Page.CORES) is of_core, quantity.name
    of = {entity: {page_of(quantity) for quantity in CATALOG.values() if quantity.entity is entity}
          for entity in Entity}  # fmt: skip
    assert of[Entity.NODE] >= {Page.METRICS, Page.DETAIL}
    assert of[Entity.LINK] == {Page.DETAIL}
    assert of[Entity.RANK] == of[Entity.RUNTIME] == {None}


def test_pages_have_a_path_each() -> None:
    paths = [page.path for page in Page]
    assert paths == ["/metrics", "/metrics/detail", "/metrics/cores"]


def test_a_counter_and_a_gauge_never_share_a_name() -> None:
    """In OpenMetrics a counter's family is called without its suffix."""
    for quantity in CATALOG.values():
        if quantity.kind is Kind.COUNTER:
            assert quantity.name.removesuffix("_total") not in CATALOG


@pytest.mark.parametrize("page", PAGES)
def test_the_pages_are_current(page: str) -> None:
    assert (DOCS / page).read_text() == PAGES[page]() + "\n", "run: make docs"
