"""Themes that can be read: by contrast, by luminance, and without telling red from green."""

import re
from itertools import combinations, pairwise
from pathlib import Path

import pytest
from rich.style import Style
from textual.color import Color
from textual.theme import Theme

import trntop.tui
from trntop.core.model import Severity
from trntop.tui.render.palette import DIM, FAINT, MUTED, Palette, contrast, luminance, palette
from trntop.tui.themes import CONTRAST, DEUTERANOPIA, THEMES

MIXED = [theme for theme in THEMES if not theme.ansi]
"""Those whose colours are ours, and not the terminal's."""
FRAME = Path(trntop.tui.__file__).parent / "screens" / "base.tcss"
DEUTERANOPE = (
    (0.367322, 0.860646, -0.227968),
    (0.280085, 0.672501, 0.047413),
    (-0.011820, 0.042940, 0.968881),
)
"""What an eye without the middle cones sees of linear red, green and blue: Machado, Oliveira and
Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency", 2009."""


def palette_of(theme: Theme) -> Palette:
    return palette(theme.to_color_system().generate() | theme.variables)


def front(style: Style) -> Color:
    assert style.color is not None
    return Color.from_rich_color(style.color)


@pytest.mark.parametrize("theme", MIXED, ids=lambda theme: theme.name)
def test_all_text_can_be_read(theme: Theme) -> None:
    made = palette_of(theme)
    grounds = [Color.parse(str(colour)) for colour in (theme.background, theme.surface)]
    least = {"muted": MUTED, "faint": FAINT, "dim": DIM}
    if theme is CONTRAST:
        names = ("text", "strong", "accent", "warning", "critical", "muted")
        least = dict.fromkeys(names, 9.0) | {"dim": DIM}
    for name in (
        "text", "muted", "faint", "dim", "strong", "accent", "ok", "warning", "critical", "aside",
        "key",
    ):  # fmt: skip
        for ground in grounds:
            assert contrast(front(getattr(made, name)), ground) >= least.get(name, 4.5), name
    for style in (*made.cells, made.badge):
        assert style.bgcolor is not None
        assert contrast(front(style), Color.from_rich_color(style.bgcolor)) >= 4.5


@pytest.mark.parametrize("theme", MIXED, ids=lambda theme: theme.name)
def test_levels_differ_without_their_colour(theme: Theme) -> None:
    steps = [luminance(front(style)) for style in palette_of(theme).levels]
    if not theme.dark:
        steps.reverse()
    assert all(low < high for low, high in pairwise(steps))


@pytest.mark.parametrize("theme", MIXED, ids=lambda theme: theme.name)
def test_critical_is_as_strong_as_warning_and_nothing_else_is(theme: Theme) -> None:
    made = palette_of(theme)
    ground = Color.parse(str(theme.background))
    assert contrast(front(made.critical), ground) >= contrast(front(made.warning), ground)
    assert made.badge.bgcolor is not None
    for colour in (front(made.aside), Color.from_rich_color(made.badge.bgcolor)):
        assert colour not in (front(made.critical), front(made.warning))


@pytest.mark.parametrize("theme", MIXED, ids=lambda theme: theme.name)
@pytest.mark.parametrize("severity", ["warning", "critical"])
def test_the_background_of_an_alert_is_visible_and_its_text_readable(
    theme: Theme, severity: str
) -> None:
    rule = re.search(rf"&\.-{severity} \{{ background: \$\w+ (\d+)%", FRAME.read_text())
    assert rule is not None
    made = palette_of(theme)
    loud = front(made.warning if severity == "warning" else made.critical)
    below = Color.parse(str(theme.background))
    ground = below.blend(loud, int(rule[1]) / 100)
    assert contrast(ground, below) >= 1.2
    for style in (made.text, made.strong, made.key, made.muted, made.severity(Severity(severity))):
        assert contrast(front(style), ground) >= 3.0


def simulated(colour: Color) -> tuple[float, ...]:
    """A colour in linear light, as a deuteranope sees it."""
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in colour.normalized
    ]
    return tuple(sum(a * b for a, b in zip(row, linear, strict=True)) for row in DEUTERANOPE)


def test_deuteranopes_can_distinguish_healthy_from_unhealthy() -> None:
    made = palette_of(DEUTERANOPIA)
    shown = {name: simulated(front(getattr(made, name))) for name in ("ok", "warning", "critical")}
    for (left, first), (other, second) in combinations(shown.items(), 2):
        distance = sum((a - b) ** 2 for a, b in zip(first, second, strict=True)) ** 0.5
        assert distance > 0.3, (left, other)
