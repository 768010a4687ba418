"""The styles that strips are drawn with, taken from a theme's variables."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from rich.style import Style
from textual.color import Color, ColorParseError

from trntop.core.model import Severity, State

LEVELS = 16
"""Steps of the utilization scale; each change of color is bytes to the terminal."""

MUTED, FAINT, DIM = 6.5, 4.5, 3.0
"""Contrast of quiet texts with their background, unless the theme sets more (WCAG 2: AA is 4.5)."""

DECADES = 3.0
"""Powers of ten on the scale of retransmits."""
SHADES = 6
"""Color steps from the bottom to the top of a chart."""


@dataclass(frozen=True, slots=True, eq=False)
class Palette:
    """Named styles. None but `cursor`, `cells` and `badge` has a background."""

    text: Style
    muted: Style
    """Labels, units."""
    faint: Style
    """Marks, rules, tracks."""
    dim: Style
    """Names of nodes that a filter excludes."""
    strong: Style
    accent: Style
    ok: Style
    warning: Style
    critical: Style
    aside: Style
    """Paused or simulated; needs no attention."""
    badge: Style
    """The same as a label with a background."""
    key: Style
    cursor: Style
    rule: Style
    graph: Style
    """Sparklines and charts."""
    area: tuple[Style, ...]
    """Rows of a chart from the bottom, `SHADES` of them."""
    over: Mapping[Severity, tuple[Style, ...]]
    """The same for values above a limit, by severity."""
    levels: tuple[Style, ...]
    """Foregrounds from as its peers to far off, `LEVELS` of them."""
    cells: tuple[Style, ...]
    """The same as backgrounds, with a readable foreground."""
    fills: Mapping[Severity, Style]
    """Backgrounds of faulty cells."""

    def severity(self, severity: Severity | None) -> Style:
        if severity is Severity.CRITICAL:
            return self.critical
        if severity is Severity.WARNING:
            return self.warning
        return self.accent if severity is Severity.INFO else self.muted

    def fill(self, severity: Severity) -> Style:
        return self.fills[severity]

    def state(self, state: State) -> Style:
        if state is State.FRESH:
            return self.ok
        if state in (State.DOWN, State.NO_DATA):
            return self.critical
        return self.warning if state in (State.LATE, State.STALE) else self.muted

    def level(self, ratio: float) -> Style:
        """Foreground for a ratio from 0 to 1."""
        return self.levels[level_of(ratio)]


def level_of(ratio: float) -> int:
    """The step of the scale for a ratio from 0 to 1."""
    return min(LEVELS - 1, max(0, int(ratio * LEVELS)))


def retransmit_level(ratio: float, limit: float) -> float:
    """The scale of retransmits: powers of ten, the limit one below its end."""
    if ratio <= 0 or limit <= 0:
        return 0.0
    return min(1.0, max(0.0, 1.0 - 1.0 / DECADES + math.log10(ratio / limit) / DECADES))


def palette(variables: Mapping[str, str]) -> Palette:
    """The styles for a theme's variables (`App.theme_variables`)."""
    return _palette(tuple((name, variables[name]) for name in _VARIABLES if name in variables))


_VARIABLES = (
    "background", "foreground", "primary", "accent", "success", "warning", "error", "surface",
    "secondary", "level-low", "level-mid", "level-high", "muted-contrast", "faint-contrast",
)  # fmt: skip


def _color(text: str, default: Color | None = None) -> Color:
    try:
        return Color.parse(text)
    except ColorParseError:
        return default if default is not None else Color(128, 128, 128)


def contrast(first: Color, second: Color) -> float:
    """The contrast of two colors by WCAG 2, from 1 to 21."""
    low, high = sorted(map(luminance, (first, second)))
    return (high + 0.05) / (low + 0.05)


def luminance(color: Color) -> float:
    """Relative luminance by WCAG 2, from 0 to 1."""
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in color.normalized
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@lru_cache(maxsize=8)
def _palette(items: tuple[tuple[str, str], ...]) -> Palette:
    variables = dict(items)
    base = [_color(variables.get(name, "")) for name in _VARIABLES[:9]]
    background, foreground, primary, accent, success, warning, error, surface, secondary = base
    low = _color(variables.get("level-low", ""), background)
    middle = _color(variables.get("level-mid", ""), primary)
    high = _color(variables.get("level-high", ""), foreground)
    own = any(color.ansi is not None for color in base)

    def front(color: Color, *, bold: bool = False) -> Style:
        return Style(color=color.rich_color, bold=bold or None)

    def toward(share: float) -> Color:
        """Between background and foreground; colors of the terminal cannot be mixed."""
        return Color.parse("ansi_bright_black") if own else background.blend(foreground, share)

    def readable(least: float) -> Style:
        """The quietest text with at least this contrast on both backgrounds."""
        if own:
            # Bright black may be the background.
            return Style(color=foreground.rich_color, dim=True)
        shares = (background.blend(foreground, step / 40) for step in range(41))
        grounds = (background, surface)
        found = (
            color for color in shares if min(contrast(color, ground) for ground in grounds) >= least
        )
        return front(next(found, foreground))

    def on(ground: Color) -> Color:
        """A readable color on a level of the scale."""
        if ground.ansi is not None:
            return Color.parse("ansi_black")
        return max(
            (Color(0, 0, 0), Color(255, 255, 255)), key=lambda color: contrast(color, ground)
        )

    def shades(color: Color) -> tuple[Style, ...]:
        if color.ansi is not None:
            return (front(color),) * SHADES
        return tuple(
            front(background.blend(color, 0.4 + 0.6 * step / (SHADES - 1)))
            for step in range(SHADES)
        )

    steps = []
    for step in range(LEVELS):
        place = 2 * step / (LEVELS - 1)
        if any(color.ansi is not None for color in (low, middle, high)):
            steps.append(low if place < 0.7 else middle if place < 1.4 else high)
        else:
            steps.append(low.blend(middle, place) if place <= 1 else middle.blend(high, place - 1))
    return Palette(
        text=front(foreground),
        muted=front(foreground) if own else readable(float(variables.get("muted-contrast", MUTED))),
        faint=readable(float(variables.get("faint-contrast", FAINT))),
        dim=readable(DIM),
        strong=front(foreground, bold=True),
        accent=front(accent),
        ok=front(success),
        warning=front(warning, bold=True),
        critical=front(error, bold=True),
        aside=front(secondary, bold=True),
        badge=Style(
            color=on(secondary).rich_color,
            bgcolor=secondary.rich_color,
            bold=secondary.ansi is None,
        ),
        key=front(accent, bold=True),
        cursor=Style(bgcolor=None if own else toward(0.13).rich_color, bold=True),
        rule=front(toward(0.18)),
        graph=front(primary),
        area=shades(primary),
        over={
            Severity.INFO: shades(accent),
            Severity.WARNING: shades(warning),
            Severity.CRITICAL: shades(error),
        },
        levels=tuple(front(color) for color in steps),
        fills={
            # Bold black of the terminal may be gray.
            severity: Style(
                color=on(color).rich_color,
                bgcolor=color.rich_color,
                bold=color.ansi is None,
            )
            for severity, color in (
                (Severity.INFO, accent),
                (Severity.WARNING, warning),
                (Severity.CRITICAL, error),
            )
        },
        cells=tuple(
            Style(
                color=on(color).rich_color,
                bgcolor=color.rich_color,
            )
            for color in steps
        ),
    )
