"""A screen as SVG, for the snapshots of the tests and the gallery.

A sixth of the size of Textual's, without fonts from the network, and the same each time.

A cell is 10 × 19 units, which is what a character takes in the usual fonts at the chosen size.
Blocks are drawn as rectangles, since fonts leave gaps between them.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from html import escape
from itertools import chain
from typing import Any

from rich.cells import cell_len
from rich.color import Color
from rich.style import Style
from rich.terminal_theme import SVG_EXPORT_THEME
from textual._compositor import LayoutUpdate  # App.export_screenshot has Textual's SVG only
from textual.app import App
from textual.color import Color as Blend
from textual.strip import Strip

WIDTH, HEIGHT = 10, 19
"""Of a cell."""
BASE = 15
"""From a cell's top to the baseline of characters."""
MARGIN = 10
FONT = "16.6px ui-monospace,Menlo,'DejaVu Sans Mono',monospace"
BLOCKS = "▁▂▃▄▅▆▇█"
"""From an eighth of a cell to a whole one, from below."""
LINE = "text-decoration"
SECONDS = 4
"""Of each frame of an animation."""
DIM = 0.4
"""How much of its background a dimmed character takes on."""


Lines = Iterable[Iterable[Strip]]
"""Strips of each row, side by side."""


def painted(app: App[Any]) -> Lines:
    """The screen of an app, as painted."""
    update = app.screen._compositor.render_update(
        full=True, screen_stack=app._background_screens, simplify=True
    )
    assert isinstance(update, LayoutUpdate)
    return update.strips


def screenshot(app: App[Any], title: str = "trntop") -> str:
    """The screen of an app as a picture."""
    return svg([painted(app)], app.size.width, app.theme_variables["background"], title)


def svg(frames: Sequence[Lines], width: int, ground: str, title: str, still: int = 0) -> str:
    """Draws a screen; several are an animation without an end.

    Args:
        frames: the screens.
        width: cells of a row.
        ground: the colour behind everything, as hexadecimals; any other word is the terminal's own.
        title: what the picture is called, for those who do not see it.
        still: the frame that is shown where nothing may move.
    """
    ground = ground.lower() if ground.startswith("#") else SVG_EXPORT_THEME.background_color.hex
    classes: dict[str, str] = {}
    bodies, height = [], 0
    for lines in frames:
        page, count = _Page(ground, classes), 0
        for count, strips in enumerate(lines, 1):
            page.row(count - 1, strips)
        bodies.append(page.body())
        height = max(height, HEIGHT * count)
    rules = "".join(f".{name}{{{rule}}}\n" for rule, name in classes.items())
    if len(bodies) > 1:
        rules += _steps(len(bodies), still)
        bodies = [f'<g class="s s{n}">\n{body}</g>\n' for n, body in enumerate(bodies)]
    wide, high = WIDTH * width + 2 * MARGIN, height + 2 * MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}">\n'
        f"<title>{escape(title, quote=False)}</title>\n"
        f"<style>\ntext{{font:{FONT};white-space:pre}}\n{rules}</style>\n"
        f'<rect width="{wide}" height="{high}" rx="{MARGIN}" fill="{ground}"/>\n'
        f'<g transform="translate({MARGIN},{MARGIN})" xml:space="preserve">\n'
        f"{''.join(bodies)}</g>\n</svg>\n"
    )


def _steps(count: int, still: int) -> str:
    """The rules that show one frame after the other."""
    length = SECONDS * count
    delays = "".join(f".s{n}{{animation-delay:{SECONDS * n - length}s}}\n" for n in range(count))
    return (
        f"@keyframes s{{0%{{visibility:visible}}{100 / count:g}%{{visibility:hidden}}}}\n"
        f".s{{visibility:hidden;animation:s {length}s step-end infinite}}\n{delays}"
        f".s{still}{{visibility:visible}}\n"
        "@media(prefers-reduced-motion:reduce){.s{animation:none}}\n"
    )


class _Page:
    """What has been drawn so far: areas by colour, and texts."""

    def __init__(self, ground: str, classes: dict[str, str]) -> None:
        self._ground = ground
        self._classes = classes
        self._behind: dict[str, list[str]] = {}
        self._blocks: dict[str, list[str]] = {}
        self._texts: list[str] = []

    def row(self, row: int, strips: Iterable[Strip]) -> None:
        """Draws a row."""
        x, top = 0, HEIGHT * row
        behind, blocks, texts = _Runs(), _Runs(), _Runs()
        for text, style, _ in chain.from_iterable(strips):
            fill, ground, font = _style(style or Style(), self._ground)
            behind.add(x, text, ground)
            for char in text:
                if char in BLOCKS:
                    blocks.add(x, char, fill, char)
                elif char == " " and LINE not in font:
                    texts.add(x, char)
                else:
                    texts.add(x, char, fill, font)
                x += cell_len(char)
        for index, text, (ground,) in behind.found:
            if ground != self._ground:
                self._area(self._behind, ground, index, cell_len(text), top, HEIGHT)
        for index, text, (fill, char) in blocks.found:
            high = HEIGHT * (BLOCKS.index(char) + 1) / 8
            self._area(self._blocks, fill, index, len(text), top + HEIGHT - high, high)
        for index, text, (fill, font) in texts.found:
            self._text(index, top, text, fill, font)

    @staticmethod
    def _area(
        areas: dict[str, list[str]], fill: str, x: int, cells: int, y: float, high: float
    ) -> None:
        wide = WIDTH * cells
        path = f"M{WIDTH * x} {y:g}h{wide}v{high:g}h-{wide}z"
        areas.setdefault(fill, []).append(path)

    def _text(self, x: int, top: int, text: str, fill: str, font: str) -> None:
        drawn = text if LINE in font else text.rstrip()
        cells = cell_len(drawn)
        name = self._classes.setdefault(f"fill:{fill}{font}", f"c{len(self._classes)}")
        # Fonts differ in width; this holds the columns together.
        span = f' textLength="{WIDTH * cells}"' if cells > 1 else ""
        self._texts.append(
            f'<text class="{name}" x="{WIDTH * x}" y="{top + BASE}"{span}>'
            f"{escape(drawn, quote=False)}</text>"
        )

    def body(self) -> str:
        """The elements of the picture."""
        texts = "".join(f"{text}\n" for text in self._texts)
        return (
            f'<g shape-rendering="crispEdges">\n{_areas(self._behind)}</g>\n'
            f"{_areas(self._blocks)}{texts}"
        )


def _areas(areas: dict[str, list[str]]) -> str:
    return "".join(f'<path fill="{fill}" d="{"".join(found)}"/>\n' for fill, found in areas.items())


class _Runs:
    """Texts of a row; adjacent ones of the same style are one."""

    def __init__(self) -> None:
        self.found: list[tuple[int, str, tuple[str, ...]]] = []
        """Where each begins, its text, and its style."""
        self._end = -1

    def add(self, x: int, text: str, *font: str) -> None:
        """Adds a text; one without a style is blank, and continues the style before it."""
        joins = self._end == x and (not font or self.found[-1][2] == font)
        if not joins and not font:
            return
        start, before, same = self.found.pop() if joins else (x, "", font)
        self.found.append((start, before + text, same))
        self._end = x + cell_len(text)


@lru_cache(4096)
def _style(style: Style, ground: str) -> tuple[str, str, str]:
    """Colour of the characters, colour behind them, and the rest as CSS."""
    fill = _hex(style.color) or SVG_EXPORT_THEME.foreground_color.hex
    behind = _hex(style.bgcolor) or ground
    if style.reverse:
        fill, behind = behind, fill
    if style.dim:
        fill = Blend.parse(fill).blend(Blend.parse(behind), DIM).hex6.lower()
    font = ";font-weight:bold" * bool(style.bold) + ";font-style:italic" * bool(style.italic)
    lines = ["underline"] * bool(style.underline) + ["line-through"] * bool(style.strike)
    return fill, behind, font + (f";{LINE}:{' '.join(lines)}" if lines else "")


def _hex(color: Color | None) -> str:
    """In hexadecimals; empty where the terminal's own is meant."""
    known = color is not None and not color.is_default
    return color.get_truecolor(SVG_EXPORT_THEME).hex if known and color else ""
