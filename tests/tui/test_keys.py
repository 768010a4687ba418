"""Every key has a name, a word and a sentence, and does something."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.binding import Binding

import trntop.tui
from trntop.tui.app import TrntopApp
from trntop.tui.screens.base import BaseScreen
from trntop.tui.screens.cluster import ClusterScreen
from trntop.tui.screens.comm import CommScreen
from trntop.tui.screens.efa import EfaScreen
from trntop.tui.screens.explain import ExplainScreen
from trntop.tui.screens.filtered import FilteredScreen, NodeListScreen
from trntop.tui.screens.incidents import IncidentsScreen
from trntop.tui.screens.node import NodeScreen
from trntop.tui.screens.run import RunScreen
from trntop.tui.screens.time_code import TimeCodeScreen
from trntop.tui.widgets.filter_bar import FilterBar, FilterInput
from trntop.tui.widgets.row_table import RowTable

OWNERS: tuple[type, ...] = (
    TrntopApp, BaseScreen, ExplainScreen, TimeCodeScreen, ClusterScreen, NodeScreen,
    IncidentsScreen,
    RowTable, FilteredScreen, NodeListScreen,
    FilterBar, FilterInput, EfaScreen,
    CommScreen, RunScreen,
)  # fmt: skip
FOLDER = Path(trntop.tui.__path__[0])


def bindings() -> Iterator[tuple[type, Binding]]:
    for owner in OWNERS:
        for binding in owner.__dict__.get("BINDINGS", ()):
            assert isinstance(binding, Binding)
            yield owner, binding


@pytest.mark.parametrize("owner", OWNERS)
def test_a_key_explains_itself(owner: type) -> None:
    for screen, binding in bindings():
        if screen is owner:
            assert binding.id, binding
            assert binding.description, binding
            assert binding.tooltip, binding
            assert hasattr(owner, f"action_{binding.action.partition('(')[0]}"), binding


def test_colours_are_only_in_themes() -> None:
    import re

    colour = re.compile(r"#[0-9a-fA-F]{3}(?:[0-9a-fA-F]{3})?\b")
    offenders = [
        f"{path.relative_to(FOLDER)}: {found.group()}"
        for path in FOLDER.rglob("*")
        if path.suffix in (".py", ".tcss") and path.name != "themes.py"
        for found in colour.finditer(path.read_text(encoding="utf-8"))
    ]
    assert not offenders
