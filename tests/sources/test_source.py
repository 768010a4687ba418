import pkgutil
from importlib import import_module

import pytest

from trntop import sources
from trntop.catalog import CATALOG, DEVICE_SOURCES
from trntop.catalog.quantity import Entity, Quantity
from trntop.sources import BUILT_IN, SOURCES


def test_the_tuple_lists_each_module_that_declares_a_source() -> None:
    modules = [import_module(f"trntop.sources.{module.name}") for module in
               pkgutil.iter_modules(sources.__path__) if module.name != "__main__"]  # fmt: skip
    declared = [module.SOURCE.name for module in modules if hasattr(module, "SOURCE")]
    assert sorted(declared) == sorted(source.name for source in BUILT_IN)
    assert len(set(declared)) == len(declared)


def test_the_catalogs_device_sources_are_declared_as_such() -> None:
    """The model, below the rows, names those that explain a node without devices."""
    assert set(DEVICE_SOURCES) <= set(sources.DEVICE_SOURCES)


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_a_row_is_complete(source: sources.Source) -> None:
    assert all((source.gives, source.origin, source.needs, source.without))


def test_a_quantity_is_declared_once() -> None:
    quantity = next(iter(CATALOG.values()))
    other = Quantity(quantity.name, "seconds", Entity.NODE, "Something else", source="host")
    with pytest.raises(ValueError, match=f"quantity {quantity.name} exists already"):
        sources.add_quantities([other])
    assert CATALOG[quantity.name] is quantity
