"""Widgets that are drawn by pure functions and repainted where they changed.

A tick changes a few numbers of a screen. Comparing the new lines with the old ones avoids
repainting an unchanged widget, and keeps the bytes to the terminal few.
"""

import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import takewhile, zip_longest
from typing import Any

from rich.style import Style
from textual.content import Content
from textual.geometry import Region, Size
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from trntop.core.model import NodeView, Severity

from ..render import glyphs
from ..render.context import RenderContext
from ..render.line import line, printable
from ..render.palette import palette
from ..view_model import JobFigures, ViewModel

log = logging.getLogger(__name__)


class Drawn(Widget):
    """Base of such widgets: implement `draw`.

    A change of any reactive of a subclass calls `update`, unless it has its own watch method.
    """

    view_model: reactive[ViewModel | None] = reactive(None, repaint=False)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, value in list(vars(cls).items()):
            if isinstance(value, reactive) and not hasattr(cls, f"watch_{name}"):
                setattr(cls, f"watch_{name}", lambda self: self.update())

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._drawing: Sequence[Strip] = ()
        self._drawn_for: Hashable = None
        self._title = Content()
        self._render_context: RenderContext | None = None
        self._variables: Mapping[str, str] = {}
        """The theme of the context."""
        self._base = Style.null()
        """The background of the widget when it was last painted."""

    def draw(self, width: int, height: int) -> Sequence[Strip]:
        """The lines for an area of this size; height 0 asks for all lines."""
        raise NotImplementedError

    def watch_view_model(self) -> None:
        self.update()

    def update(self) -> None:
        """Called when an input changed."""
        self.redraw()

    @property
    def context(self) -> RenderContext:
        """The palette of the theme of the app."""
        variables = self.app.theme_variables
        if self._render_context is None or variables is not self._variables:
            self._variables = variables
            if self.app.no_color:
                # As greys, warning and error would be darker than healthy values.
                bright = dict.fromkeys(("warning", "error"), variables["foreground"])
                variables = {**variables, **bright}
            self._render_context = RenderContext(palette(variables))
        return self._render_context

    @property
    def auto_height(self) -> bool:
        """Whether the widget is as high as its lines."""
        return self.styles.height is not None and self.styles.height.is_auto

    def entitle(self, title: str | Content) -> None:
        """Sets the title; setting the same title again would repaint the whole widget."""
        # Content, because a border title given as a string is parsed as markup.
        content = Content(printable(title)) if isinstance(title, str) else title
        if not content.is_same(self._title):
            self._title = content
            self.border_title = content

    def redraw(self) -> None:
        """Draws again and repaints what changed."""
        if not self.is_mounted or not all(node.display for node in self.ancestors_with_self):
            # The layout is computed again when it is shown.
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
        """The lines of an area; their common style is computed once."""
        if self._drawn_for != self._key():
            self._lines()
        self._base = self.rich_style
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """One line of the drawing on the background; called by `render_lines`."""
        width = self.size.width
        if y >= len(self._drawing):
            return Strip.blank(width, self._base)
        return self._drawing[y].adjust_cell_length(width).apply_style(self._base)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._drawn(width, 0)) if width > 0 else 0

    def notify_style_update(self) -> None:
        """The theme may have changed."""
        super().notify_style_update()
        self._drawn_for = None

    def _lines(self) -> Sequence[Strip]:
        self._drawing = self._drawn(*self.size)
        self._drawn_for = self._key()
        return self._drawing

    def _drawn(self, width: int, height: int) -> Sequence[Strip]:
        """The lines, or an error in this panel only."""
        try:
            return self.draw(width, height)
        except Exception as error:
            if self.app.is_headless:
                raise
            log.exception("%s cannot be drawn", type(self).__name__)
            sign = glyphs.SEVERITIES[Severity.WARNING]
            text = f"{sign} this panel failed: {type(error).__name__}: {error}"
            return [line([(text, self.context.palette.warning)], width)]

    def _key(self) -> Hashable:
        """What a drawing depends on besides its inputs."""
        return self.size, id(self.context.palette), self.scroll_offset


Paint = Callable[["Panel", ViewModel, int, int], Sequence[Strip]]


class Panel(Drawn):
    """Drawn by a function of the inputs that the panel is bound to.

    Args:
        paint: returns the lines; see `of_node` and `of_job`.
        title: of the border.
        id: of the widget.
    """

    DEFAULT_CSS = "Panel { height: auto; }"

    node: reactive[str | None] = reactive(None, repaint=False)
    job: reactive[JobFigures | None] = reactive(None, repaint=False)
    crumbs: reactive[tuple[str, ...]] = reactive((), repaint=False)
    subject: reactive[str | None] = reactive(None, repaint=False)
    """An incident or a quantity."""

    def __init__(self, paint: Paint, title: str = "", *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._paint = paint
        if title:
            self.add_class("panel")
            self.entitle(title)

    def draw(self, width: int, height: int) -> Sequence[Strip]:
        if self.view_model is None:
            return ()
        return self._paint(self, self.view_model, width, height)


def of_node(
    draw: Callable[[ViewModel, NodeView, int, RenderContext], Sequence[Strip]],
) -> Paint:
    def paint(panel: Panel, view_model: ViewModel, width: int, _height: int) -> Sequence[Strip]:
        node = view_model.cluster.nodes.get(panel.node or "")
        return () if node is None else draw(view_model, node, width, panel.context)

    return paint


def of_job(
    draw: Callable[[ViewModel, JobFigures | None, int, int, RenderContext], Sequence[Strip]],
) -> Paint:
    return lambda panel, view_model, width, height: draw(
        view_model, panel.job, width, height, panel.context
    )


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
