"""The driver without a terminal: the event loop and the system are fakes."""

import os
import threading
from collections.abc import Callable
from typing import Any, cast

import pytest
from textual.events import CursorPosition

from trntop.tui import terminal
from trntop.tui.terminal import Terminal, Writer


class TestWriter:
    def test_it_writes_in_order_and_reports_when_it_is_empty(self) -> None:
        reader, end = os.pipe()
        emptied = threading.Event()
        writer = Writer(end, emptied.set, lambda: None)
        writer.write(b"a" * 10000)
        writer.write(b"b")
        got = b""
        while len(got) < 10001:
            got += os.read(reader, 4096)
        assert emptied.wait(5)
        assert got == b"a" * 10000 + b"b"
        writer.close(5)
        os.close(reader)
        os.close(end)

    def test_a_blocked_reader_delays_nothing(self) -> None:
        reader, end = os.pipe()
        writer = Writer(end, lambda: None, lambda: None)
        for _ in range(100):
            writer.write(b"x" * 4096)
        assert not writer.idle
        writer.drop()
        writer.close(0.01)
        os.set_blocking(reader, False)
        while True:
            try:
                os.read(reader, 65536)
            except BlockingIOError:
                break
        os.close(reader)
        os.close(end)

    def test_a_reader_that_is_gone(self) -> None:
        reader, end = os.pipe()
        os.close(reader)
        lost = threading.Event()
        writer = Writer(end, lambda: None, lost.set)
        writer.write(b"x")
        assert lost.wait(5)
        writer.close(5)
        os.close(end)

    def test_a_terminal_that_does_not_block_is_waited_for(self) -> None:
        reader, end = os.pipe()
        os.set_blocking(end, False)
        emptied = threading.Event()
        writer = Writer(end, emptied.set, lambda: None)
        size = 300_000
        writer.write(b"x" * size)
        got = 0
        while got < size:
            got += len(os.read(reader, 65536))
        assert emptied.wait(5)
        writer.close(5)
        os.close(reader)
        os.close(end)


class Loop:
    """What the driver asks of an event loop."""

    def __init__(self) -> None:
        self.soon: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self.later: list[tuple[float, Callable[..., None], tuple[Any, ...]]] = []

    def call_soon(self, call: Callable[..., None], *arguments: Any) -> None:
        self.soon.append((call, arguments))

    call_soon_threadsafe = call_soon

    def call_later(self, seconds: float, call: Callable[..., None], *arguments: Any) -> None:
        self.later.append((seconds, call, arguments))

    def run(self) -> None:
        while self.soon:
            call, arguments = self.soon.pop(0)
            call(*arguments)

    def expire(self) -> None:
        waiting, self.later = self.later, []
        for _, call, arguments in waiting:
            call(*arguments)


class Pipe:
    """An writer whose reader is the test."""

    def __init__(self) -> None:
        self.content = b""
        self.idle = self.dropped = False

    def drop(self) -> None:
        self.dropped = True

    def write(self, data: bytes) -> None:
        self.content += data


class Replied(threading.Event):
    """Notes how long it is waited for, and waits for nothing."""

    waited: float | None = None

    def wait(self, timeout: float | None = None) -> bool:
        self.waited = timeout
        return self.is_set()


class Line:
    """A driver on that loop and writer, with a clock by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(terminal.time, "monotonic", lambda: self.now)
        self.loop, self.pipe = Loop(), Pipe()
        self.driver = Terminal.__new__(Terminal)
        self.driver._loop = cast(Any, self.loop)
        self.driver._writer = cast(Any, self.pipe)
        self.driver._replied = self.replied = Replied()
        self.replied.set()
        self.driver._left = False
        self.settled = 0
        self.driver.settled = self._settled

    def _settled(self) -> None:
        self.settled += 1

    def write(self, count: int) -> None:
        self.driver.write("x" * count)
        self.loop.run()

    def answer(self) -> None:
        self.driver.process_message(CursorPosition(0, 0))
        self.loop.run()

    def empty(self) -> None:
        self.pipe.idle = True
        self.driver._emptied()
        self.loop.run()


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Line:
    return Line(monkeypatch)


def test_a_picture_is_followed_by_one_query(line: Line) -> None:
    line.driver.write("abc")
    line.driver.write("def")
    line.loop.run()
    assert line.pipe.content == b"abcdef\x1b[6n"
    assert line.driver.in_transit == 10
    line.answer()
    assert line.driver.in_transit == 0
    assert line.settled


def test_output_after_the_query_has_its_own(line: Line) -> None:
    line.write(100)
    line.write(50)
    assert line.pipe.content.count(b"\x1b[6n") == 1
    line.answer()
    assert line.driver.in_transit == 50 + 4
    line.answer()
    assert line.driver.in_transit == 0


def test_a_terminal_that_never_replies_counts_by_the_system(line: Line) -> None:
    line.write(100)
    assert line.driver.busy
    line.empty()
    assert line.driver.in_transit == 0
    line.now += 1
    line.write(100)
    line.empty()
    assert not line.driver.in_transit


def test_a_terminal_that_replies_does_not_count_by_the_system(line: Line) -> None:
    line.write(1)
    line.answer()
    line.write(100)
    line.empty()
    assert line.driver.in_transit
    assert line.driver.busy


def test_a_lost_reply_is_not_waited_for_forever(line: Line) -> None:
    line.write(1)
    line.answer()
    line.write(100)
    line.loop.expire()
    assert line.driver.busy, "the system has not taken it either"
    line.pipe.idle = True
    line.loop.expire()
    assert line.driver.in_transit == 0


@pytest.fixture
def left(line: Line, monkeypatch: pytest.MonkeyPatch) -> Line:
    monkeypatch.setattr(terminal.LinuxDriver, "disable_input", lambda _: None)
    return line


def test_once_left_the_terminal_is_queried_no_more(left: Line) -> None:
    left.pipe.idle = True
    left.driver.disable_input()
    left.write(100)
    assert b"\x1b[6n" not in left.pipe.content
    assert not left.pipe.dropped


def test_a_query_that_was_scheduled_before_is_not_sent_after(left: Line) -> None:
    left.driver.write("picture")
    left.driver.disable_input()
    left.loop.run()
    assert b"\x1b[6n" not in left.pipe.content


@pytest.mark.parametrize(
    ("round_trip", "age", "seconds"),
    [
        (None, 0.25, 0.75),  # no reply so far: it may be slow
        (0.01, 0.1, 0.3),
        (0.25, 0.25, 0.5),
        (7.0, 0.25, 0.75),  # slow output, which is dropped
        (0.01, 3.0, 0.0),  # reads no more
    ],
)
def test_leaving_waits_for_the_outstanding_reply(
    left: Line, round_trip: float | None, age: float, seconds: float
) -> None:
    if round_trip is not None:
        left.write(1)
        left.now += round_trip
        left.answer()
    left.write(1)
    left.now += age
    left.driver.disable_input()
    assert left.replied.waited == pytest.approx(seconds)
    assert left.pipe.dropped, "no reply has come"


def test_a_terminal_that_never_replies_is_queried_once_and_not_waited_for(left: Line) -> None:
    left.pipe.idle = True
    left.write(100)
    left.loop.expire()
    left.write(100)
    assert left.pipe.content.count(b"\x1b[6n") == 1
    left.driver.disable_input()
    assert left.replied.is_set()
    assert not left.pipe.dropped
