"""All EFA cards, side by side: who carries what, who resends, and how long messages take."""

from dataclasses import replace
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, VerticalScroll
from textual.content import Content
from textual.getters import query_one
from textual.reactive import reactive

from trntop.core.model import Incident

from ..measures import RECEIVE, RETRANSMIT, TRANSMIT
from ..messages import NodeAsked
from ..render import card, card_map, efa, layers
from ..render.fabric import CARDS, EXPECTED, SHARE, Fabric
from ..render.line import printable
from ..render.probed import LATENCY
from ..widgets.card_map import (
    FIRST,
    CardDetail,
    CardMap,
    CardMeans,
    CardNames,
    CardTrends,
    FabricSums,
    PairMatrix,
)
from ..widgets.row_table import RowTable
from .finding import FaultFinding, Finding


class EfaScreen(FaultFinding):
    """A map of cards, the card under the cursor, and the latency between nodes."""

    CSS_PATH = "efa.tcss"
    PLACE = "efa"
    QUANTITIES = (
        TRANSMIT, RECEIVE, SHARE, RETRANSMIT, CARDS, EXPECTED,
        efa.TX, efa.RX, efa.LINK, efa.RETRANSMIT, efa.SIBLINGS,
        *(f"efa_{name}_total" for name in card.COUNTERS), LATENCY,
    )  # fmt: skip
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back", id="efa.back",
                tooltip="Takes back what was chosen, then leads back to the fleet"),
        Binding(
            "m", "layer", "Map", id="efa.map",
            tooltip="Color EFA devices by traffic, retransmits, peers or latency",
        ),
        Binding("left_square_bracket", "card(-1)", "Device left", show=False, id="efa.previous",
                tooltip="EFA device to the left"),
        Binding("right_square_bracket", "card(1)", "Device right", show=False, id="efa.next",
                tooltip="EFA device to the right"),
        Binding("s", "sort", "Sort", id="efa.sort", tooltip="Worst nodes first, or by name"),
        Binding("J,shift+j", "scroll(1)", "Counters down", show=False, id="efa.down",
                tooltip="Scroll the device's counters down"),
        Binding("K,shift+k", "scroll(-1)", "Counters up", show=False, id="efa.up",
                tooltip="Scroll the device's counters up"),
    ]  # fmt: skip

    table = query_one(CardMap)
    detail = query_one("#card", VerticalScroll)

    fabric: reactive[Fabric | None] = reactive(None, repaint=False)
    look: reactive[card_map.Look] = reactive(FIRST, repaint=False)
    node: reactive[str | None] = reactive(None, repaint=False)
    """The node under the cursor."""
    titles: reactive[tuple[str, str]] = reactive(("", ""), repaint=False, init=False)
    """Of the card's panel and of the map's."""
    chosen: reactive[str | None] = reactive(None, repaint=False)
    """The card that the user chose; None is the worst of the node."""

    def body(self) -> ComposeResult:
        """The sums, the map, and below or beside it a card and the pairs."""
        glyphs = self.glyphs
        parts = [
            FabricSums(glyphs=glyphs, id="sums"),
            CardNames(glyphs=glyphs, id="names"),
            CardMeans(glyphs=glyphs, id="means"),
            PairMatrix(glyphs=glyphs, id="pairs"),
        ]
        table, detail = CardMap(glyphs=glyphs, id="cards"), CardDetail(glyphs=glyphs)
        lately = CardTrends(glyphs=glyphs, id="lately")
        for part in (*parts, table, detail, lately):
            part.data_bind(EfaScreen.fabric, EfaScreen.look)
        for part in (detail, lately):
            part.data_bind(EfaScreen.node)
        table.data_bind(Finding.selection)
        sums, names, means, matrix = parts
        fleet = Container(names, table, means, lately, id="fleet")
        scroll = VerticalScroll(detail, id="card", can_focus=False)
        matrix.border_title = "latency between nodes, one way"
        for panel in (fleet, scroll, matrix):
            panel.add_class("panel")
        yield self.filter_bar()
        yield sums
        yield Container(fleet, Container(scroll, matrix, id="closer"), id="split")

    @property
    def listed(self) -> CardMap:
        """The map."""
        return self.table

    @property
    def subject(self) -> str | None:
        """The node under the cursor."""
        current = self.table.current
        return None if current is None else current.name

    @property
    def incident(self) -> Incident | None:
        """That of the card under the cursor, else of its node, else the worst of all."""
        if self.fabric is None or self.node is None:
            return super().incident
        found = self.fabric.view_model.by_node.get(self.node, ())
        of_card = card.incident_of(self.fabric, self.node, self._card or "")
        return of_card or next(iter(found), None) or super().incident

    @property
    def _card(self) -> str | None:
        """The card under the cursor."""
        if self.fabric is None or self.look.column is None:
            return None
        names = self.fabric.rails.names
        return names[self.look.column] if self.look.column < len(names) else None

    def watch_view_model(self) -> None:
        """A new tick."""
        if self.view_model is None:
            return
        fabric = Fabric(self.view_model, self.fabric)
        if self.node is None:
            # What is shown first is laid out once: where the cursor will be is known before.
            chosen = self.selection.names(self.view_model)
            names = (node.name for node in card_map.worst_first(fabric, self.look.layer))
            self.node = next((name for name in names if name in chosen), None)
        top = layers.top(fabric.shares, self.look.top)
        self.look = replace(self.look, top=top, column=self._pointed(fabric))
        self.fabric = fabric
        if self.is_mounted:
            self.call_next(self._follow)

    def watch_selection(self) -> None:
        """The first row may have become another node."""
        if self.is_mounted:
            self.call_next(self._follow)

    @on(RowTable.Moved)
    def _follow(self) -> None:
        """Points at a card of the node under the cursor."""
        if self.fabric is None:
            return
        self.node = self.subject
        self.look = replace(self.look, column=self._pointed(self.fabric))
        self.titles = (
            f"{self.node or 'no node'} · {self._card or 'no EFA device'}",
            f"EFA devices · {self.look.layer.title}",
        )

    def watch_titles(self) -> None:
        """Another card, or other colours; a title that is set again repaints its whole panel."""
        for panel, title in zip(("#card", "#fleet"), self.titles, strict=True):
            # Content, because a border title given as a string is parsed as markup.
            self.query_one(panel).border_title = Content(printable(title))

    def _pointed(self, fabric: Fabric) -> int | None:
        """The column of the chosen card, else of the node's worst."""
        names, row = fabric.rails.names, fabric.rails.row_of.get(self.node or "")
        if not names or row is None:
            return None
        if self.chosen in names:
            return names.index(self.chosen)
        found = card_map.marks(fabric, fabric.rails.nodes[row], links=True)
        return max(found, key=lambda column: found[column].rank, default=0)

    @on(RowTable.Chosen)
    def _open(self, event: RowTable.Chosen) -> None:
        self.post_message(NodeAsked(event.key))

    @on(CardMap.Pointed)
    def _choose(self, event: CardMap.Pointed) -> None:
        self._take(event.column)

    def _take(self, column: int) -> None:
        if self.fabric is not None and self.fabric.rails.names:
            names = self.fabric.rails.names
            self.chosen = names[min(len(names) - 1, max(0, column))]
            self._follow()

    def action_card(self, step: int) -> None:
        """Points at the card `step` columns on."""
        self._take((self.look.column or 0) + step)

    def action_layer(self) -> None:
        """Colours the cards by the next quantity."""
        place = layers.LAYERS.index(self.look.layer) + 1
        self.look = replace(self.look, layer=layers.LAYERS[place % len(layers.LAYERS)])
        # Where there is no room for both, the pairs take the place of the card.
        self.set_class(place == len(layers.LAYERS) - 1, "-latency")
        self._follow()

    def action_sort(self) -> None:
        """Takes the other order."""
        self.query_one("#fleet").border_subtitle = self.table.sort_by_next()
        self._follow()

    def action_scroll(self, step: int) -> None:
        """Scrolls the card's counters."""
        self.detail.scroll_relative(y=3 * step, animate=False)
