import pytest
from textual.pilot import Pilot

from tests.tui.settled import settled


@pytest.fixture(autouse=True)
def _pauses_by_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pilot, "pause", settled)
