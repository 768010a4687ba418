"""Settings of the interpreter."""

import gc
import sys
from collections.abc import Iterator

import pytest

from trntop import interpreter


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    interval, thresholds = sys.getswitchinterval(), gc.get_threshold()
    yield
    sys.setswitchinterval(interval)
    gc.set_threshold(*thresholds)


def test_threads_take_turns_sooner_and_cycles_are_looked_for_later() -> None:
    sys.setswitchinterval(0.005)
    interpreter.prepare()
    assert sys.getswitchinterval() == pytest.approx(interpreter.SWITCH_SECONDS, abs=2e-6)
    assert gc.get_threshold() == interpreter.COLLECT_AT


def test_what_is_sooner_already_stays() -> None:
    sys.setswitchinterval(0.0001)
    interpreter.prepare()
    assert sys.getswitchinterval() == pytest.approx(0.0001, abs=2e-6)
