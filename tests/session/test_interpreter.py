"""Settings of the interpreter."""

import dataclasses
import gc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders import make_view
from trntop.session import interpreter

ROOT = Path(__file__).parents[2]


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


def test_cycles_that_outlast_a_round_do_not_add_up() -> None:
    """As the lines of a screen that is painted each second, for an hour."""
    code = """
import collections, gc
from trntop.session import interpreter
interpreter.prepare()
newest = collections.deque(maxlen=15_000)
for number in range(1_200_000):
    line = []
    line.append(line)
    newest.append(line)
lines = (found for found in gc.get_objects() if type(found) is list and len(found) == 1)
print(sum(found[0] is found for found in lines))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 15_000 + 2 * interpreter.COLLECT_AT[0]


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
