"""No data and no source that works: what was looked for, and what to do."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.strip import Strip

from ..render import welcome
from ..render.glyphs import Glyphs
from ..widgets.drawn import Drawn
from .frame import Frame, Latest


class Findings(Drawn):
    """What the sources say of themselves, as lines."""

    DEFAULT_CSS = "Findings { height: auto; }"

    def __init__(self, *, glyphs: Glyphs, demo: bool) -> None:
        super().__init__(glyphs=glyphs)
        self._demo = demo

    def draw(self, width: int, height: int) -> Sequence[Strip]:
        """As many lines as there is to say."""
        return welcome.draw(self.view_model, width, self.context, demo=self._demo)


class WelcomeScreen(Frame):
    """Shown instead of empty tables.

    Args:
        latest: as for every screen.
        glyphs: as for every screen.
        demo: starts the simulation; None where there is none to offer.
    """

    CSS_PATH = "welcome.tcss"
    QUANTITIES = ()
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "demo", "Demo", id="welcome.demo", tooltip="Watch a simulated run"),
    ]

    def __init__(
        self,
        latest: Latest,
        glyphs: Glyphs,
        demo: Callable[[], None] | None,
    ) -> None:
        super().__init__(latest, glyphs)
        self.add_class("welcome")
        self._demo = demo

    def body(self) -> ComposeResult:
        """One text."""
        with VerticalScroll():
            yield Findings(glyphs=self.glyphs, demo=self._demo is not None).data_bind(
                Frame.view_model
            )

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """No demo is promised where there is none."""
        if action == "demo" and self._demo is None:
            return False
        return super().check_action(action, parameters)

    def action_demo(self) -> None:
        """Starts the simulation."""
        if self._demo is not None:
            self._demo()
