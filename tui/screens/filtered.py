"""Screens with a list that a filter applies to; all screens share one filter."""

from collections.abc import Mapping
from typing import Any, ClassVar

from textual import on
from textual.binding import BindingType
from textual.getters import query_one
from textual.reactive import reactive

from ..keys import key
from ..selection import ALL, Selection
from ..widgets.filter_bar import FilterBar
from ..widgets.row_table import RowTable
from .base import BaseScreen

_TYPED = frozenset({"filter", "faults", "sort", "map", "layer", "rows", "listed", "explain"})
"""Actions whose keys are letters of the filter while it is open."""


class FilteredScreen(BaseScreen):
    """A screen whose list has only what belongs to the selected nodes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("slash", "filter", "Filter", "Filter nodes, for example util<30 & node~trn-0"),
    ]

    bar = query_one(FilterBar)

    selection: reactive[Selection] = reactive(ALL, repaint=False, bindings=True)
    """The nodes that are shown."""

    def filter_bar(self) -> FilterBar:
        """Shown above the list."""
        return FilterBar().data_bind(BaseScreen.view_model, FilteredScreen.selection)

    @property
    def list_table(self) -> RowTable[Any]:
        """The list; it gets the focus when the filter is closed."""
        raise NotImplementedError

    @property
    def subject(self) -> str | None:
        return self.list_table.node

    def supported(self, selection: Selection) -> Selection:
        """The part of a selection that applies to the list."""
        return Selection(selection.filter) if selection.faults else selection

    def labels(self) -> Mapping[str, str]:
        labels = super().labels()
        return {**labels, "back": "Clear"} if self.selection.narrow else labels

    def on_screen_resume(self) -> None:
        self.selection = self.supported(self.dashboard.shared.selection)
        super().on_screen_resume()

    async def on_screen_suspend(self) -> None:
        """Discards text that was not applied."""
        if self.bar.editing:
            await self.bar.action_cancel()

    @on(RowTable.Moved)
    def _remember_node(self, event: RowTable.Moved) -> None:
        if event.sender is self.list_table and event.sender.cursor is not None and self.subject:
            self.dashboard.shared.node = self.subject

    def choose(self, selection: Selection) -> None:
        """Selects other nodes, on all screens."""
        self.dashboard.shared.selection = selection
        self.selection = self.supported(selection)

    @on(FilterBar.Changed)
    def _filter(self, event: FilterBar.Changed) -> None:
        self.choose(Selection(event.filter, faults=self.dashboard.shared.selection.faults))

    @on(FilterBar.Closed)
    def _focus_list(self) -> None:
        self.list_table.focus()
        self.refresh_bindings()

    async def action_filter(self) -> None:
        await self.bar.open()
        self.refresh_bindings()

    async def action_back(self) -> None:
        """Discards the text, else clears the filter, else shows all nodes, else leaves."""
        if self.bar.editing:
            await self.bar.action_cancel()
        elif self.selection.narrow:
            faults = self.dashboard.shared.selection.faults and self.selection.filter is not None
            self.choose(Selection(faults=faults))
        else:
            await super().action_back()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in _TYPED and self.is_mounted and self.bar.editing:
            return False
        return super().check_action(action, parameters)


class NodeListScreen(FilteredScreen):
    """A filtered screen whose rows are nodes or parts of nodes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("f", "faults", "Faults", "Show only nodes with an open incident, or not fresh"),
    ]

    def supported(self, selection: Selection) -> Selection:
        return selection

    def on_screen_resume(self) -> None:
        """Moves the cursor to the node that was selected last."""
        super().on_screen_resume()
        if self.dashboard.shared.node is not None:
            self.list_table.point_at(self.dashboard.shared.node)

    def action_faults(self) -> None:
        self.choose(Selection(self.selection.filter, faults=not self.selection.faults))
