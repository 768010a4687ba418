"""The welcome screen: no device and no job."""

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll

from ..render import welcome
from ..widgets.drawn import Panel
from .base import BaseScreen


class WelcomeScreen(BaseScreen):
    """Shown instead of empty tables.

    Args:
        demo: starts the simulation; None without one.
    """

    CSS_PATH = "welcome.tcss"
    NAME = "welcome"
    QUANTITIES = ()
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "demo", "Demo", id="welcome.demo", tooltip="Watch a simulated run"),
    ]

    def __init__(self, demo: Callable[[], None] | None) -> None:
        super().__init__()
        self._demo = demo

    def body(self) -> ComposeResult:
        text = Panel(
            lambda panel, view_model, width, _: welcome.draw(
                view_model, width, panel.context, demo=self._demo is not None
            )
        )
        yield VerticalScroll(text.data_bind(BaseScreen.view_model))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "demo" and self._demo is None:
            return False
        return super().check_action(action, parameters)

    def action_demo(self) -> None:
        if self._demo is not None:
            self._demo()
