"""Screens with a list of which a filter chooses the rows: one filter for all of them."""

from collections.abc import Mapping
from typing import Any, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.getters import query_one
from textual.reactive import reactive

from ..render.glyphs import Glyphs
from ..selection import ALL, Selection, SharedSelection
from ..widgets.filter_bar import FilterBar
from ..widgets.row_table import RowTable
from .frame import Frame, Latest

_TYPED_OVER = frozenset(
    {"filter", "faults", "sort", "map", "layer", "rows", "only", "explain"}
)  # fmt: skip
"""Actions whose keys are letters of the filter while it is typed."""


class Finding(Frame):
    """A screen whose list has only what is of the chosen nodes.

    Args:
        latest: gives the scene to draw when the screen comes to the front.
        glyphs: what graphs are drawn with.
        held: the choice that screens share; None for one of its own.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", key_display="/", id="find.filter",
                tooltip="Show what is of the nodes that match, such as util<30 & node~trn-0"),
    ]  # fmt: skip

    bar = query_one(FilterBar)

    selection: reactive[Selection] = reactive(ALL, repaint=False, bindings=True)
    """The nodes that are shown."""

    def __init__(self, latest: Latest, glyphs: Glyphs, held: SharedSelection | None = None) -> None:
        super().__init__(latest, glyphs)
        self.held = held or SharedSelection()

    def filter_bar(self) -> FilterBar:
        """What is typed, and what holds; it stands above the list."""
        bar = FilterBar(glyphs=self.glyphs)
        return bar.data_bind(Frame.view_model, Finding.selection)

    @property
    def listed(self) -> RowTable[Any]:
        """The list, to which the keys go when the filter is typed."""
        raise NotImplementedError

    def suited(self, selection: Selection) -> Selection:
        """What of a choice counts here: a list that is not of nodes has no faults alone."""
        return Selection(selection.filter) if selection.faults else selection

    def words(self) -> Mapping[str, str]:
        """Esc takes the choice back before it leads back."""
        words = super().words()
        return {**words, "back": "Clear"} if self.selection.narrow else words

    def on_screen_resume(self) -> None:
        """Takes the choice that was made meanwhile."""
        self.selection = self.suited(self.held.selection)
        super().on_screen_resume()

    @on(RowTable.Moved)
    def _look(self, event: RowTable.Moved) -> None:
        if event.sender is self.listed and event.sender.cursor is not None and self.subject:
            self.held.node = self.subject

    async def on_screen_suspend(self) -> None:
        """Takes back what is typed and was not kept: elsewhere nobody sees that it is."""
        if self.bar.editing:
            await self.bar.action_cancel()

    def choose(self, selection: Selection) -> None:
        """Chooses other nodes, on all screens."""
        self.held.choose(selection)
        self.selection = self.suited(selection)

    @on(FilterBar.Changed)
    def _filter(self, event: FilterBar.Changed) -> None:
        self.choose(Selection(event.filter, faults=self.held.selection.faults))

    @on(FilterBar.Closed)
    def _go_on(self) -> None:
        self.listed.focus()
        self.refresh_bindings()

    async def action_filter(self) -> None:
        """Lets the user type what to look for."""
        await self.bar.open()
        self.refresh_bindings()

    async def action_back(self) -> None:
        """Takes back what is typed, else what holds, else leaves."""
        if self.bar.editing:
            await self.bar.action_cancel()
        elif self.selection.narrow:
            # With a filter, that only faults are shown stays for another time.
            faults = self.held.selection.faults and self.selection.filter is not None
            self.choose(Selection(faults=faults))
        else:
            await self.run_action("app.cluster")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While something is typed, letters are letters."""
        if action in _TYPED_OVER and self.is_mounted and self.bar.editing:
            return False
        return super().check_action(action, parameters)


class FaultFinding(Finding):
    """One whose rows are nodes or parts of nodes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f", "faults", "Faults", id="find.faults",
                tooltip="Show only nodes with an open incident, or not fresh"),
    ]  # fmt: skip

    def suited(self, selection: Selection) -> Selection:
        """All of it."""
        return selection

    def on_screen_resume(self) -> None:
        """Goes to the node last looked at."""
        super().on_screen_resume()
        if self.held.node is not None:
            self.listed.point_at(self.held.node)

    def action_faults(self) -> None:
        """Shows only nodes with a fault, or all again."""
        self.choose(Selection(self.selection.filter, faults=not self.selection.faults))
