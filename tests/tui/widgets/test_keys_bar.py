from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.pilot import Pilot

from trntop.tui.themes import DARK
from trntop.tui.widgets.keys_bar import Key, KeysBar, fitting

KEYS = [
    Key(action[0], action[0], "x" * cells, action, True, "")
    for action, cells in (
        ("open", 4), ("sort", 4), ("cluster", 7), ("run", 3), ("pause", 9), ("help", 4),
    )
]  # fmt: skip


def test_the_screens_own_keys_go_before_those_that_lead_on() -> None:
    def shown(width: int) -> list[str]:
        return [key.action for key in fitting(KEYS, width)]

    assert shown(48) == ["open", "sort", "cluster", "run", "pause", "help"]
    assert shown(47) == ["open", "sort", "cluster", "run", "help"]
    assert shown(35) == ["open", "cluster", "run", "help"]
    assert shown(23) == ["cluster", "run", "help"]
    assert shown(20) == ["cluster", "help"]
    assert shown(1) == ["help"]


def test_the_way_back_to_the_present_stays_longest() -> None:
    held = [*KEYS, Key("l", "l", "Live", "live", True, "")]
    assert [key.action for key in fitting(held, 30)] == ["pause", "help", "live"]
    assert [key.action for key in fitting(held, 20)] == ["pause", "live"]


RIGHT = 54
"""Where the keys start that are not of screens."""


class Barred(App[None]):
    BINDINGS = [  # noqa: RUF012 -- an instance variable in Textual
        Binding("s", "sort", "Sort", tooltip="In another order"),
        Binding("space", "pause", "Pause"),
        Binding("question_mark", "help", "Help", key_display="?"),
    ]
    helped = 0
    can_sort = False

    def on_mount(self) -> None:
        self.register_theme(DARK)
        self.theme = DARK.name

    def compose(self) -> ComposeResult:
        yield KeysBar()

    def action_sort(self) -> None:
        raise AssertionError

    def action_help(self) -> None:
        self.helped += 1

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return None if action == "sort" and not self.can_sort else True


def shown(pilot: Pilot[None]) -> str:
    return pilot.app.query_one(KeysBar).render_line(0).text.strip()


async def test_keys_come_and_go_with_the_width() -> None:
    async with Barred().run_test(size=(80, 5)) as pilot:
        await pilot.pause()
        assert shown(pilot) == "s Sort space Pause ? Help"
        await pilot.resize_terminal(16, 5)
        await pilot.pause()
        assert shown(pilot) == "s Sort ? Help"


async def test_the_mouse_clicks_them_and_shows_their_tooltips() -> None:
    app = Barred()
    async with app.run_test(size=(80, 5), tooltips=True) as pilot:
        await pilot.pause()
        await pilot.click(KeysBar, offset=(RIGHT + 21, 0))
        assert app.helped == 1
        # One that does nothing now, a gap, and the blanks before them all.
        await pilot.click(KeysBar, offset=(RIGHT + 2, 0))
        await pilot.click(KeysBar, offset=(RIGHT + 7, 0))
        await pilot.click(KeysBar, offset=(20, 0))
        assert app.helped == 1
        await pilot.hover(KeysBar, offset=(RIGHT + 2, 0))
        assert app.query_one(KeysBar).tooltip == "In another order"
        await pilot.hover(KeysBar, offset=(20, 0))
        assert app.query_one(KeysBar).tooltip is None


async def test_a_key_that_comes_to_work_is_no_longer_grey() -> None:
    app = Barred()
    async with app.run_test(size=(80, 5)) as pilot:
        await pilot.pause()
        bar = app.query_one(KeysBar)
        before = [part.style for part in bar.render_line(0)]
        app.can_sort = True
        app.refresh_bindings()
        await pilot.pause()
        assert [part.style for part in bar.render_line(0)] != before
