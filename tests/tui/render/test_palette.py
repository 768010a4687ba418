import pytest
from textual.theme import BUILTIN_THEMES, Theme

from trntop.core.model import Severity, State
from trntop.tui.render.palette import LEVELS, level_of, palette
from trntop.tui.themes import THEMES


def variables(theme: Theme) -> dict[str, str]:
    return theme.to_color_system().generate() | theme.variables


@pytest.mark.parametrize("theme", [*THEMES, *BUILTIN_THEMES.values()], ids=lambda theme: theme.name)
def test_every_theme_gives_a_palette(theme: Theme) -> None:
    made = palette(variables(theme))
    assert len(made.levels) == len(made.cells) == LEVELS
    assert all(style.bgcolor is not None for style in made.cells)


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_what_needs_a_person_is_highlighted(theme: Theme) -> None:
    """Warning and critical share their colour with nothing calm."""
    made = palette(variables(theme))
    loud = {made.warning.color, made.critical.color}
    calm = {made.text.color, made.muted.color, made.ok.color, made.graph.color, made.accent.color}
    assert len(loud) == 2
    assert not loud & (calm | {style.color for style in made.levels})


def test_the_same_variables_give_the_same_palette() -> None:
    assert palette(variables(THEMES[0])) is palette(variables(THEMES[0]))


def test_levels() -> None:
    assert [level_of(ratio) for ratio in (-1, 0, 0.5, 0.999, 1, 2)] == [0, 0, 8, 15, 15, 15]


def test_severities_and_states_have_their_colours() -> None:
    made = palette(variables(THEMES[0]))
    assert made.severity(Severity.CRITICAL) is made.critical
    assert made.severity(Severity.WARNING) is made.warning
    assert made.severity(None) is made.muted
    assert made.state(State.DOWN) is made.critical
    assert made.state(State.STALE) is made.warning
    assert made.state(State.ENDED) is made.muted
