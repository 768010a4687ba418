from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.widgets._footer import FooterKey

from trntop.tui.widgets.keys_bar import KeysBar, fitting

KEYS = [("open", 7), ("sort", 7), ("cluster", 10), ("run", 6), ("pause", 12), ("help", 7)]


def test_the_screens_own_keys_go_before_those_that_lead_on() -> None:
    def shown(width: int) -> list[str]:
        return [KEYS[place][0] for place in sorted(fitting(KEYS, width))]

    assert shown(49) == ["open", "sort", "cluster", "run", "pause", "help"]
    assert shown(48) == ["open", "sort", "cluster", "run", "help"]
    assert shown(36) == ["open", "cluster", "run", "help"]
    assert shown(24) == ["cluster", "run", "help"]
    assert shown(20) == ["cluster", "help"]
    assert shown(1) == ["help"]


class Barred(App[None]):
    BINDINGS = [  # noqa: RUF012 -- an instance variable in Textual
        Binding("s", "sort", "Sort"),
        Binding("space", "pause", "Pause"),
        Binding("question_mark", "help", "Help", key_display="?"),
    ]

    def compose(self) -> ComposeResult:
        yield KeysBar()


async def test_keys_come_and_go_with_the_width() -> None:
    app = Barred()
    async with app.run_test(size=(80, 5)) as pilot:

        def shown() -> list[str]:
            return [key.description for key in app.query(FooterKey)]

        await pilot.pause()
        assert shown() == ["Sort", "Pause", "Help"]
        await pilot.resize_terminal(16, 5)
        await pilot.pause()
        assert shown() == ["Sort", "Help"]
        await pilot.resize_terminal(16, 6)
        await pilot.pause()
        assert shown() == ["Sort", "Help"]
