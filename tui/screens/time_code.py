"""Asks for the moment to go to."""

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.getters import query_one
from textual.screen import ModalScreen
from textual.widgets import Input, Label

from trntop.core import units

from .. import timecode
from ..scene import Scene


class TimeCodeScreen(ModalScreen[float | None]):
    """One line to type a time into; answers with unix seconds, or with None.

    Args:
        scene: what is shown.
    """

    CSS_PATH = "time_code.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "escape", "dismiss", "Close", key_display="esc", id="time_code.close",
            tooltip="Stay where you are",
        ),
    ]  # fmt: skip

    answer = query_one(Input)
    note = query_one(Label)

    def __init__(self, scene: Scene) -> None:
        super().__init__()
        self._scene = scene

    def compose(self) -> ComposeResult:
        """The line, and below it what is shown now, or what is wrong with it."""
        with Vertical(id="time-code") as panel:
            panel.border_title = "go to a time"
            yield Input(placeholder=timecode.FORMS, max_length=40, compact=True)
            yield Label(self._now(), markup=False)

    def _now(self) -> str:
        scene = self._scene
        clock = units.clock(scene.view.time, utc=scene.utc)
        place = f", {timecode.position(scene.view.time, scene.span)}" if scene.span else ""
        return f"shown is {clock}{' UTC' * scene.utc}{place}"

    @on(Input.Submitted)
    def _done(self, event: Input.Submitted) -> None:
        event.stop()
        scene = self._scene
        try:
            self.dismiss(timecode.parse(event.value, scene.view.time, scene.span, utc=scene.utc))
        except ValueError as error:
            self.note.update(str(error))
            self.note.add_class("-wrong")

    @on(Input.Changed)
    def _changed(self) -> None:
        self.note.update(self._now())
        self.note.remove_class("-wrong")
