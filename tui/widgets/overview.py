"""The alert line and the map of the fleet."""

from collections.abc import Sequence

from textual.reactive import reactive
from textual.strip import Strip

from ..render import alert, fleet_map
from ..selection import ALL, Selection
from .drawn import Drawn


class AlertLine(Drawn):
    """The worst open incident; its background depends on the severity."""

    DEFAULT_CSS = "AlertLine { height: auto; min-height: 1; max-height: 2; }"

    def draw(self, width: int, height: int) -> Sequence[Strip]:
        return alert.draw(self.view_model, width, self.context) if self.view_model else ()

    def update(self) -> None:
        found = self.view_model.incidents if self.view_model else ()
        quiet = not found or (self.view_model and found[0].id in self.view_model.acknowledged)
        rank = 0 if quiet else found[0].severity.rank
        self.set_class(rank == 1, "-warning")
        self.set_class(rank == 2, "-critical")
        super().update()


class FleetMap(Drawn):
    """Every node in one picture."""

    selection: reactive[Selection] = reactive(ALL, repaint=False)
    """The other nodes are dimmed."""
    chosen: reactive[fleet_map.Layer | None] = reactive(None, repaint=False)
    """The layer that the user chose; None follows the worst incident."""

    @property
    def current_layer(self) -> fleet_map.Layer:
        return self.chosen or fleet_map.layer_of(self.view_model)

    def update(self) -> None:
        self._describe()
        super().update()

    def on_resize(self) -> None:
        self._describe()

    def notify_style_update(self) -> None:
        """The scale in the title has the colors of the theme."""
        super().notify_style_update()
        if self.is_mounted:
            self._describe()

    def _describe(self) -> None:
        """The title has the quantity and the scale of colors."""
        width, height = self.size.width, self._max_lines()
        title = fleet_map.heading(self.view_model, self.current_layer, width, height, self.context)
        self.entitle(title)

    def next_layer(self) -> None:
        place = fleet_map.LAYERS.index(self.current_layer) + 1
        self.chosen = fleet_map.LAYERS[place % len(fleet_map.LAYERS)]

    def draw(self, width: int, height: int) -> Sequence[Strip]:
        """As many lines as the nodes need, at most `max-height`."""
        if self.view_model is None:
            return ()
        mask = self.selection.mask(self.view_model) if self.selection.narrow else None
        height = self._max_lines()
        return fleet_map.draw(
            self.view_model, width, height, self.context, self.current_layer, mask
        )

    def _max_lines(self) -> int:
        most = self.styles.max_height
        return int(most.value) - self.gutter.height if most is not None else 1
