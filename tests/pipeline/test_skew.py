import heapq
import random
from collections.abc import Callable, Iterator

import pytest

from tests.reports import monitor_reading, report, runtime
from trntop.core.model import Reading, State, View
from trntop.core.settings import Settings
from trntop.pipeline.skew import LOOK_AHEAD, TOLERANCE, Skew
from trntop.session.monitor import Monitor, play

START = 1.76e9
Clock = Callable[[float], float]


def right(time: float) -> float:
    return time


def ahead(seconds: float, since: float = 0.0, until: float = float("inf")) -> Clock:
    return lambda time: time + (seconds if START + since <= time < START + until else 0.0)


def readings_at(
    node: str, start: float, end: float, period: float = 1.0
) -> list[tuple[float, str]]:
    count = round((end - start) / period)
    return [(START + start + index * period, node) for index in range(count)]


def arriving(*parts: list[tuple[float, str]], **clocks: Clock) -> list[Reading]:
    """Readings in the order of their true times, which are their data, by their nodes' clocks."""
    # A node's index in the alphabet offsets it within a second.
    order = sorted(
        (time + (ord(node[0]) % 32) / 100, node) for part in parts for time, node in part
    )
    return [
        Reading(node, "s", clocks.get(node, right)(time), repr(time).encode())
        for time, node in order
    ]


def errors(stream: list[Reading], skew: Skew | None = None) -> list[float]:
    """By how much each reading's time is off the true one, after alignment."""
    result = list((skew or Skew()).aligned(stream))
    assert [(reading.node, reading.data) for reading in result] == [
        (reading.node, reading.data) for reading in stream
    ]
    return [reading.time - float(reading.data) for reading in result]


def nodes(names: str, end: float = 300.0, period: float = 1.0) -> list[list[tuple[float, str]]]:
    return [readings_at(name, 0.0, end, period) for name in names]


@pytest.mark.parametrize(
    ("period", "seconds"),
    # A skew shorter than the period contradicts no order.
    [
        (1.0, 8.0),
        (1.0, -8.0),
        *(
            (period, seconds)
            for period in (1.0, 5.0, 20.0)
            for seconds in (60.0, -60.0, 300.0, -300.0)
        ),
    ],
)
@pytest.mark.parametrize("odd", ["a", "c", "d"])
def test_a_constant_skew_is_taken_out(seconds: float, odd: str, period: float) -> None:
    skew = Skew()
    stream = arriving(*nodes("abcd", period=period), **{odd: ahead(seconds)})
    assert max(map(abs, errors(stream, skew))) <= max(1.0, period)
    assert skew.offsets == {odd: pytest.approx(seconds, abs=max(1.0, period))}


def test_several_clocks_are_off_by_different_amounts() -> None:
    skew = Skew()
    clocks = {"a": ahead(240.0), "c": ahead(-300.0), "f": ahead(17.0)}
    assert max(map(abs, errors(arriving(*nodes("abcdefg"), **clocks), skew))) < 2
    assert {node: round(offset, -1) for node, offset in skew.offsets.items()} == {
        "a": 240.0, "c": -300.0, "f": 20.0,
    }  # fmt: skip


@pytest.mark.parametrize("seconds", [3600.0, -3600.0, 60.0, -60.0, 100.0, -100.0])
@pytest.mark.parametrize("names", ["ab", "abc", "abcdefghij"])
def test_a_clock_that_leaps_in_the_middle(names: str, seconds: float) -> None:
    skew = Skew()
    stream = arriving(*nodes(names), b=ahead(seconds, since=100.0))
    assert max(map(abs, errors(stream, skew))) < 2
    assert skew.offsets == {"b": pytest.approx(seconds, abs=1.5)}


def test_a_clock_that_is_put_right_again() -> None:
    skew = Skew()
    stream = arriving(*nodes("abc"), b=ahead(3600.0, 100.0, 220.0))
    assert max(map(abs, errors(stream, skew))) < 2
    assert skew.offsets == {}


@pytest.mark.parametrize("seconds", [60.0, -60.0])
def test_the_first_reading_is_of_a_clock_that_is_off(seconds: float) -> None:
    stream = arriving(*nodes("abc", 5.0), a=ahead(seconds))
    assert stream[0].node == "a"
    assert max(map(abs, errors(stream))) < 2


def test_a_skewed_node_that_joins_late() -> None:
    skew = Skew()
    parts = [*nodes("abc"), readings_at("z", 150.0, 300.0)]
    assert max(map(abs, errors(arriving(*parts, z=ahead(-200.0)), skew))) < 2
    assert skew.offsets == {"z": pytest.approx(-200.0, abs=1.5)}


@pytest.mark.parametrize(
    "parts",
    [
        nodes("abc"),
        [*nodes("ab"), readings_at("z", 150.0, 300.0)],
        [
            readings_at("a", 0, 100),
            readings_at("a", 160, 300),
            readings_at("b", 0, 100),
            readings_at("b", 160, 300),
        ],
        [readings_at("a", 0, 100), readings_at("a", 160, 300), readings_at("b", 0, 300)],
        [readings_at("a", 0, 100), readings_at("z", 200, 300), readings_at("a", 400, 500)],
        [
            readings_at("a", 0, 600, 60.0),
            readings_at("b", 10, 600, 60.0),
            readings_at("c", 35, 600, 60.0),
        ],
        [readings_at("a", 0, 600, 60.0), readings_at("b", 10, 600)],
        [readings_at("a", 0, 50), readings_at("a", 4000, 4050)],
        [readings_at("a", 0, 10, 10.0), readings_at("b", 300, 310), readings_at("c", 700, 710)],
        [],
    ],
)
def test_what_is_sorted_by_time_is_untouched(parts: list[list[tuple[float, str]]]) -> None:
    stream, skew = arriving(*parts), Skew()
    result = list(skew.aligned(stream))
    assert all(reading is other for reading, other in zip(result, stream, strict=True))
    assert skew.offsets == {}


def test_jitter_is_untouched() -> None:
    rng = random.Random(3)
    stream = [
        Reading(reading.node, "s", reading.time + rng.uniform(-2, 2), reading.data)
        for reading in arriving(*nodes("abcd"))
    ]
    assert list(Skew().aligned(stream)) == stream


def test_a_gap_of_the_stream_stays_one_though_a_clock_is_off() -> None:
    parts = [readings_at(name, start, start + 100.0) for name in "abc" for start in (0.0, 160.0)]
    stream = arriving(*parts, b=ahead(90.0))
    assert max(map(abs, errors(stream))) < 2


def test_a_pause_of_one_node_stays_one() -> None:
    parts = [*nodes("ab"), readings_at("c", 0, 100), readings_at("c", 160, 300)]
    for clock in (right, ahead(-45.0)):
        assert max(map(abs, errors(arriving(*parts, c=clock)))) < 2


def test_what_comes_late_stays_old() -> None:
    stream = arriving(*nodes("abc"))
    late = [Reading("b", "log", START + 100 - age, b"0") for age in (200.0, 150.0, 30.0)]
    skew = Skew()
    result = list(skew.aligned([*stream[:303], *late, *stream[303:]]))
    assert result == [*stream[:303], *late, *stream[303:]]
    assert skew.offsets == {}


def test_one_reading_of_the_future_does_not_move_the_stream() -> None:
    for names in ("a", "ab"):
        stream = arriving(*nodes(names))
        stream.insert(100, Reading("a", "s", START + 9000, b"0"))
        skew = Skew()
        result = list(skew.aligned(stream))
        assert all(reading.time < START + 301 for reading in result)
        assert skew.offsets == {}


def test_where_all_clocks_go_back_the_stream_does() -> None:
    first = arriving(*nodes("abc"))
    again = [Reading(reading.node, "s", reading.time - 5000.0, reading.data) for reading in first]
    skew = Skew()
    times = [(reading.time, skew.time) for reading in skew.aligned([*first, *again])]
    assert [time for time, _ in times] == [reading.time for reading in [*first, *again]]
    assert all(abs(time - now) < 1 for time, now in times)


def test_the_look_ahead_is_bounded() -> None:
    consumed = 0

    def endless() -> Iterator[Reading]:
        nonlocal consumed
        for index in range(1_000_000):
            consumed += 1
            leap = 4000.0 if index >= 1000 else 0.0
            # From then on no other node reports.
            yield Reading("a" if index % 2 or index > 1000 else "b", "s", index / 100 + leap, b"0")

    for yielded, _ in enumerate(Skew().aligned(endless()), 1):
        assert consumed - yielded <= LOOK_AHEAD
        if yielded == 3000:
            break


def test_random_clusters_with_one_clock_in_three_off() -> None:
    for seed in range(20):
        rng = random.Random(seed)
        names = "abcdefghijklm"[: rng.randint(4, 13)]
        clocks: dict[str, Clock] = {}
        for name in rng.sample(names, len(names) // 3):
            since = rng.choice([0.0, rng.uniform(10, 250)])
            clocks[name] = ahead(rng.choice([-1, 1]) * rng.uniform(10, 300), since)
        parts = [readings_at(name, rng.choice([0, 0, 0, 70]), 300.0) for name in names]
        stream = arriving(*parts, **clocks)
        assert max(map(abs, errors(stream))) < TOLERANCE


def played(stream: list[Reading]) -> tuple[list[View], Skew]:
    skew = Skew()
    data = monitor_reading(report(runtime()), 0.0).data
    readings = [Reading(reading.node, "neuron-monitor", reading.time, data) for reading in stream]
    settings = Settings()
    return list(play(readings, Monitor(settings), skew)), skew


@pytest.mark.parametrize("seconds", [60.0, -60.0, 300.0])
def test_fault_23_a_skewed_node_makes_no_node_stale_or_silent(seconds: float) -> None:
    views, skew = played(arriving(*nodes("abc", 60.0), b=ahead(seconds)))
    assert 58 <= len(views) <= 62
    for view in views[2:-1]:
        for node in view.cluster.nodes.values():
            assert node.state is State.FRESH
            age = node.age()
            assert age is not None
            assert age < 3
    assert list(skew.offsets) == ["b"]


def test_concatenated_recordings_of_different_nodes_play_one_after_the_other() -> None:
    first, other = arriving(readings_at("a", 0, 60)), arriving(readings_at("b", -500, -460))
    views, _ = played([*first, *other])
    assert views[-1].cluster.nodes["b"].state is State.ENDED


def test_readings_are_merged_by_time_where_there_are_several_files() -> None:
    files = [arriving(readings_at("a", 0, 100)), arriving(readings_at("b", 50, 150), b=ahead(30.0))]
    stream = list(heapq.merge(*files, key=lambda reading: reading.time))
    assert list(Skew().aligned(stream)) == stream
