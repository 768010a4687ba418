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
from ..view_model import ViewModel


class TimeCodeScreen(ModalScreen[float | None]):
    """One line to type a time into; answers with unix seconds, or with None.

    Args:
        view_model: what is shown.
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

    def __init__(self, view_model: ViewModel) -> None:
        super().__init__()
        self._view_model = view_model

    def compose(self) -> ComposeResult:
        """The line, and below it what is shown now, or what is wrong with it."""
        with Vertical(id="time-code") as panel:
            panel.border_title = "go to a time"
            yield Input(placeholder=timecode.FORMS, max_length=40, compact=True)
            yield Label(self._now(), markup=False)

    def _now(self) -> str:
        view_model = self._view_model
        clock = units.clock(view_model.view.time, utc=view_model.utc)
        place = (
            f", {timecode.position(view_model.view.time, view_model.span)}"
            if view_model.span
            else ""
        )
        return f"shown is {clock}{' UTC' * view_model.utc}{place}"

    @on(Input.Submitted)
    def _done(self, event: Input.Submitted) -> None:
        event.stop()
        view_model = self._view_model
        try:
            self.dismiss(
                timecode.parse(
                    event.value, view_model.view.time, view_model.span, utc=view_model.utc
                )
            )
        except ValueError as error:
            self.note.update(str(error))
            self.note.add_class("-wrong")

    @on(Input.Changed)
    def _changed(self) -> None:
        self.note.update(self._now())
        self.note.remove_class("-wrong")
