"""Widgets that are drawn by pure functions and repainted where they changed.

A tick changes a few numbers of a screen. Comparing the new lines with the old ones before
anything is repainted keeps an unchanged picture free, and the bytes to the terminal few.
"""

import logging
from collections.abc import Hashable, Mapping, Sequence
from itertools import takewhile, zip_longest

from rich.style import Style
from textual.geometry import Region, Size
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from trntop.core.model import Severity

from ..render.context import RenderContext
from ..render.glyphs import BLOCK, Glyphs
from ..render.line import line
from ..render.palette import palette
from ..view_model import ViewModel

log = logging.getLogger(__name__)


class Drawn(Widget):
    """Base of such widgets: implement `draw`, call `redraw` when an input changed."""

    view_model: reactive[ViewModel | None] = reactive(None, repaint=False)

    def __init__(self, *, glyphs: Glyphs = BLOCK, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.glyphs = glyphs
        self._drawing: Sequence[Strip] = ()
        self._drawn_for: Hashable = None
        self._render_context: RenderContext | None = None
        self._variables: Mapping[str, str] = {}
        """Of the theme that the pen is made for."""
        self._base = Style.null()
        """The widget's ground, as it was when it was last painted."""

    def draw(self, width: int, height: int) -> Sequence[Strip]:
        """The lines for an area of this size; height 0 asks for as many as there are."""
        raise NotImplementedError

    @property
    def context(self) -> RenderContext:
        """What to draw with under the app's theme."""
        variables = self.app.theme_variables
        if self._render_context is None or variables is not self._variables:
            self._variables = variables
            self._render_context = RenderContext(palette(variables), self.glyphs)
        return self._render_context

    @property
    def auto_height(self) -> bool:
        """Whether the widget is as high as its lines."""
        return self.styles.height is not None and self.styles.height.is_auto

    def watch_view_model(self) -> None:
        """A new tick."""
        self.redraw()

    def redraw(self) -> None:
        """Draws anew and repaints what changed."""
        if not self.is_mounted or not all(node.display for node in self.ancestors_with_self):
            # Where it is shown again, all is laid out anew.
            self._drawn_for = None
            return
        if not self.size:
            self._drawn_for = None
            if self.auto_height:
                self.refresh(layout=True)
            return
        before = self._drawing if self._drawn_for == self._key() else None
        lines = self._lines()
        if before is None:
            self.refresh(layout=self.auto_height)
        elif len(before) != len(lines) and self.auto_height:
            self.refresh(layout=True)
        else:
            changed = [
                Region(start, y, end - start, 1)
                for y, (old, new) in enumerate(zip_longest(before, lines))
                if old != new
                for start, end in [changed_cells(old, new, self.size.width)]
            ]
            if changed:
                self.refresh(*changed)

    def render_lines(self, crop: Region) -> list[Strip]:
        """The lines of an area: what they have in common is looked up once, not for each."""
        if self._drawn_for != self._key():
            self._lines()
        self._base = self.rich_style
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """One line of the drawing on the widget's ground; called by `render_lines`."""
        width = self.size.width
        if y >= len(self._drawing):
            return Strip.blank(width, self._base)
        return self._drawing[y].adjust_cell_length(width).apply_style(self._base)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many lines as the drawing has at this width."""
        return len(self._drawn(width, 0)) if width > 0 else 0

    def notify_style_update(self) -> None:
        """The theme may have changed: the next line is drawn with new ink."""
        super().notify_style_update()
        self._drawn_for = None

    def _lines(self) -> Sequence[Strip]:
        self._drawing = self._drawn(*self.size)
        self._drawn_for = self._key()
        return self._drawing

    def _drawn(self, width: int, height: int) -> Sequence[Strip]:
        """The lines, or one that says why there are none: the other panels go on."""
        try:
            return self.draw(width, height)
        except Exception as error:
            if self.app.is_headless:
                # Pictures and tests are to fail, not to show it.
                raise
            log.exception("%s cannot be drawn", type(self).__name__)
            sign = self.glyphs.severities[Severity.WARNING]
            text = f"{sign} this panel failed: {type(error).__name__}: {error}"
            return [line([(text, self.context.palette.warning)], width)]

    def _key(self) -> Hashable:
        """What, besides the inputs, a drawing depends on."""
        return self.size, id(self.context.palette), self.scroll_offset


def changed_cells(old: Strip | None, new: Strip | None, width: int) -> tuple[int, int]:
    """First and last-plus-one cell in which two lines differ, by whole segments."""
    if old is None or new is None or old.cell_length != new.cell_length:
        return 0, width
    before, after = list(old), list(new)
    start, end = (
        sum(
            segment.cell_length
            for segment, _ in takewhile(lambda pair: pair[0] == pair[1], zip(*sides, strict=False))
        )
        for sides in ((before, after), (before[::-1], after[::-1]))
    )
    return start, max(start + 1, new.cell_length - end)
