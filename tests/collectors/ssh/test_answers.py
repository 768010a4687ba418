"""Answers of the script, cut out of whatever else is on standard error."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trntop.collectors.ssh import answers
from trntop.collectors.ssh.answers import Answers

DUMP = b"@t begin efa 7\n>sys/\na:1\nb:@t end of nothing\n#@t exited\n\n@t end efa 7\n"


class Received:
    def __init__(self) -> None:
        self.words: list[tuple[list[str], bytes]] = []
        self.answers = Answers("@t", self.report)

    def report(self, words: Sequence[str], dump: bytes) -> None:
        self.words.append((list(words), dump))


@pytest.fixture
def received() -> Received:
    return Received()


def test_lines_and_dumps(received: Received) -> None:
    received.answers.feed(
        b"Welcome!\n@t ready\n" + DUMP + b"@t monitor ended 3 no driver\n@t idle\n"
    )
    assert received.words == [
        (["ready"], b""),
        (["begin", "efa", "7"], DUMP[15:-14]),
        (["monitor", "ended", "3", "no", "driver"], b""),
        (["idle"], b""),
    ]
    assert list(received.answers.noise) == ["Welcome!"]
    assert received.answers.lines == 1


@given(st.lists(st.integers(1, 40), max_size=30))
def test_however_it_is_cut(cuts: list[int]) -> None:
    received = Received()
    stream = b"noise\n@t ready\n" + DUMP + b"more noise\n" + DUMP + b"@t idle\n"
    for cut in cuts:
        received.answers.feed(stream[:cut])
        stream = stream[cut:]
    received.answers.feed(stream)
    assert [words[0] for words, _ in received.words] == ["ready", "begin", "begin", "idle"]
    assert {dump for words, dump in received.words if words[0] == "begin"} == {DUMP[15:-14]}
    assert list(received.answers.noise) == ["noise", "more noise"]


def test_a_dump_that_is_cut_short_costs_that_dump_only(received: Received) -> None:
    received.answers.feed(b"@t begin efa 7\na:1\n@t idle\n" + DUMP + b"@t begin efa 8\n\n@t end")
    received.answers.feed(b" efa 8\n")
    assert [words for words, _ in received.words] == [
        ["idle"],
        ["begin", "efa", "7"],
        ["begin", "efa", "8"],
    ]
    assert list(received.answers.noise) == ["answer efa was cut off"]


def test_a_greeting_without_an_end_of_line(received: Received) -> None:
    received.answers.feed(b"\x1b[1mhello\x1b[0m @t ready\n")
    assert received.words == [(["ready"], b"")]


def test_noise_is_cleaned_and_bounded(received: Received) -> None:
    received.answers.feed(b"\x1b]0;evil\x07\n" * 1000 + b"x" * 10**6 + b"\n")
    assert len(received.answers.noise) <= answers.MAX_NOISE
    assert "\x1b" not in received.answers.noise[0]
    assert len(received.answers.text()) <= 160


def test_a_line_without_end_is_bounded(received: Received) -> None:
    for _ in range(100):
        received.answers.feed(b"y" * 10_000)
    received.answers.feed(b"\n@t ready\n")
    assert received.words == [(["ready"], b"")]


def test_a_dump_without_end_breaks_it_off(
    received: Received, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "MAX_DUMP", 1000)
    received.answers.feed(b"@t begin efa 1\n" + b"a:1\n" * 1000)
    assert "longer than" in received.answers.broken
    received.answers.feed(b"\n@t end efa 1\n@t idle\n")
    assert received.words == []
