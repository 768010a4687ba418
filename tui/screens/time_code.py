"""The dialog for the time to go to."""

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.getters import query_one
from textual.screen import ModalScreen
from textual.widgets import Input, Label

from trntop.core import units

from .. import timecode
from ..keys import key
from ..view_model import ViewModel


class TimeCodeScreen(ModalScreen[float | None]):
    """One line for a time; returns unix seconds, or None."""

    CSS_PATH = "time_code.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        key("escape", "dismiss", "Close", "Stay at this time"),
    ]

    answer = query_one(Input)
    note = query_one(Label)

    def __init__(self, view_model: ViewModel) -> None:
        super().__init__()
        self._view_model = view_model

    def compose(self) -> ComposeResult:
        with Vertical(id="time-code") as panel:
            panel.border_title = "go to a time"
            yield Input(placeholder=timecode.FORMS, max_length=40, compact=True)
            yield Label(self._now(), markup=False)

    def _now(self) -> str:
        view_model = self._view_model
        clock = units.clock(view_model.view.time, utc=view_model.utc)
        span = view_model.span
        place = f", {timecode.position(view_model.view.time, span)}" if span else ""
        return f"now at {clock}{' UTC' * view_model.utc}{place}"

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
