"""The drawings that need nothing but the scene."""

from collections.abc import Sequence

from textual.content import Content
from textual.reactive import reactive
from textual.strip import Strip

from ..render import alert, curves, fleet_map, header
from ..render.glyphs import BLOCK, Glyphs
from ..selection import ALL, Selection
from .drawn import Drawn


class RunHeader(Drawn):
    """What run is this, and is it well."""

    DEFAULT_CSS = "RunHeader { height: 2; }"

    crumbs: reactive[tuple[str, ...]] = reactive((), repaint=False)
    """Where the user is."""

    def watch_crumbs(self) -> None:
        """Another place."""
        self.redraw()

    def draw(self, width: int, height: int) -> Sequence[Strip]:
        """Two lines."""
        return (
            header.draw(self.view_model, width, self.context, self.crumbs)
            if self.view_model
            else ()
        )


class AlertStrip(Drawn):
    """The worst open incident, or calm."""

    DEFAULT_CSS = "AlertStrip { height: auto; min-height: 1; max-height: 2; }"

    def draw(self, width: int, height: int) -> Sequence[Strip]:
        """One line, or two."""
        return alert.draw(self.view_model, width, self.context) if self.view_model else ()

    def watch_view_model(self) -> None:
        """Tells the style sheet how bad it is."""
        found = self.view_model.incidents if self.view_model else ()
        self.set_class(bool(found) and found[0].severity.rank == 1, "-warning")
        self.set_class(bool(found) and found[0].severity.rank == 2, "-critical")
        super().watch_view_model()


class FleetMap(Drawn):
    """Every node in one picture.

    Args:
        glyphs: what it is drawn with.
        id: of the widget.
    """

    selection: reactive[Selection] = reactive(ALL, repaint=False)
    """The nodes that are not dimmed."""
    shown_layer: reactive[fleet_map.Layer] = reactive(fleet_map.LAYERS[0], repaint=False)

    def __init__(self, *, glyphs: Glyphs = BLOCK, id: str | None = None) -> None:  # noqa: A002
        super().__init__(glyphs=glyphs, id=id)
        self._title = Content()

    def watch_shown_layer(self) -> None:
        """Other colours."""
        self._entitle()
        self.redraw()

    def watch_view_model(self) -> None:
        """A new tick, which may have more nodes."""
        self._entitle()
        super().watch_view_model()

    def on_resize(self) -> None:
        """Another size, in which the map may be finer or coarser."""
        self._entitle()

    def notify_style_update(self) -> None:
        """Another theme: the scale has other colours."""
        super().notify_style_update()
        if self.is_mounted:
            self._entitle()

    def _entitle(self) -> None:
        """Says what the colours are, and of what."""
        title = fleet_map.heading(
            self.view_model, self.shown_layer, self.size.width, self._most_lines(), self.context
        )
        if not title.is_same(self._title):  # one that is set again would repaint the whole map
            self._title = title
            self.border_title = title

    def watch_selection(self) -> None:
        """Others are dimmed."""
        self.redraw()

    def turn(self) -> None:
        """Takes the next layer."""
        place = fleet_map.LAYERS.index(self.shown_layer) + 1
        self.shown_layer = fleet_map.LAYERS[place % len(fleet_map.LAYERS)]

    def draw(self, width: int, height: int) -> Sequence[Strip]:
        """As many lines as the nodes need, at most `max-height`."""
        if self.view_model is None:
            return ()
        chosen = self.selection.mask(self.view_model) if self.selection.narrow else None
        most = self._most_lines()
        return fleet_map.draw(self.view_model, width, most, self.context, self.shown_layer, chosen)

    def _most_lines(self) -> int:
        most = self.styles.max_height
        return int(most.value) - self.gutter.height if most is not None else 1


class Trends(Drawn):
    """The run's last minutes."""

    def draw(self, width: int, height: int) -> Sequence[Strip]:
        """Charts that fill the area."""
        if self.view_model is None:
            return ()
        return curves.fleet(self.view_model, width, height, self.context)
