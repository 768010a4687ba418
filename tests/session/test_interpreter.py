"""Settings of the interpreter."""

import dataclasses
import gc
import sys
from collections.abc import Iterator

import pytest

from tests.builders import make_view
from trntop.session import interpreter


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    interval, thresholds = sys.getswitchinterval(), gc.get_threshold()
    yield
    sys.setswitchinterval(interval)
    gc.set_threshold(*thresholds)


def test_threads_switch_sooner_and_garbage_is_collected_later() -> None:
    sys.setswitchinterval(0.005)
    interpreter.prepare()
    assert sys.getswitchinterval() == pytest.approx(interpreter.SWITCH_SECONDS, abs=2e-6)
    assert gc.get_threshold() == interpreter.COLLECT_AT


def test_what_is_sooner_already_stays() -> None:
    sys.setswitchinterval(0.0001)
    interpreter.prepare()
    assert sys.getswitchinterval() == pytest.approx(0.0001, abs=2e-6)


def test_free_memory_is_given_back_each_second(monkeypatch: pytest.MonkeyPatch) -> None:
    trimmer = interpreter.Trimmer()
    trims: list[int] = []
    monkeypatch.setattr(trimmer, "_trim", trims.append)
    view = make_view(1)
    for second in (100.0, 100.5, 101.0, 101.5, 102.0):
        monkeypatch.setattr("time.monotonic", lambda now=second: now)
        # A past is played in no time.
        trimmer(view)
        trimmer(dataclasses.replace(view, time=view.time + 60))
    assert len(trims) == 3


def test_where_it_cannot_be_given_back_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda _: object())
    interpreter.Trimmer()(make_view(1))
