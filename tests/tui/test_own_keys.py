"""Keys of the user's own: what is refused, and that the screen and its help follow."""

import msgspec
import pytest

from tests.tui.render.pens import text
from tests.tui.scenes import SETTINGS, make_app
from trntop.core.errors import SettingsError
from trntop.core.settings import Settings
from trntop.tui.app import TrntopApp
from trntop.tui.keys import bindings, validate
from trntop.tui.screens.cluster import ClusterScreen
from trntop.tui.screens.help import HelpScreen, KeyList


def settings(**keys: str) -> Settings:
    own = {name.replace("__", "."): value for name, value in keys.items()}
    return msgspec.structs.replace(
        SETTINGS, screen=msgspec.structs.replace(SETTINGS.screen, keys=own)
    )


def refusal(**keys: str) -> str:
    with pytest.raises(SettingsError) as caught:
        make_app(settings=settings(**keys))
    return str(caught.value)


def test_every_key_of_every_screen_is_known() -> None:
    ids = {binding.id for _, binding in bindings(TrntopApp)}
    assert {"app.quit", "cluster.sort", "node.next", "incidents.back", "table.open"} <= ids
    assert None not in ids


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"app.quit": "Q,ctrl+q"},
        {"app.help": "f1"},
        {"app.help": "slash,ctrl+h", "find.filter": "?"},
        {"app.theme": "b", "app.baseline": "t"},
        {"node.next": "s"},
        {"app.onset": "ü"},
        {"app.quit": "ctrl+shift+q"},
    ],
)
def test_what_can_be_done(keys: dict[str, str]) -> None:
    ids = {binding.id for _, binding in bindings(TrntopApp)}
    if set(keys) <= ids:
        assert validate(keys, TrntopApp) == keys


def test_an_unknown_id() -> None:
    assert refusal(app__qit="Q") == ("screen.keys: unknown action app.qit; did you mean app.quit?")
    assert "known: app." in refusal(zzzzzzzz="Q")


def test_an_unknown_key() -> None:
    assert "'hyper' is not a valid key; use x, X, f5" in refusal(app__quit="hyper")
    assert "'' is not a valid key" in refusal(app__quit="Q,")
    assert "modifiers are alt, ctrl" in refusal(app__quit="hyper+q")


def test_a_key_for_two_things() -> None:
    assert "screen.keys: s would be " in refusal(app__quit="s")
    assert "cluster.sort" in refusal(app__quit="s")
    assert "question_mark would be" in refusal(app__quit="?")
    assert "app.theme" in refusal(table__open="t")


async def test_the_screen_and_its_help_follow() -> None:
    app = make_app(settings=settings(app__help="f1", cluster__sort="z"))
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("s", "question_mark")
        await pilot.pause()
        assert isinstance(app.screen, ClusterScreen)
        before = app.screen.table.sorted_by
        await pilot.press("z")
        assert app.screen.table.sorted_by != before
        await pilot.press("f1")
        await pilot.pause()
        assert isinstance(app.screen, HelpScreen)
        lines = text(app.screen.query_one(KeyList).draw(100, 0)).splitlines()
        assert any(line.startswith("f1 ") and "Help" in line for line in lines)
        assert any(line.startswith("z ") and "Sort" in line for line in lines)
        assert any(line.startswith("shift+←") for line in lines)
