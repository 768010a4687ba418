"""Peers round by round: who is found, when, and above all who is not."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trntop.analysis.peers import TUNING, Peers
from trntop.pipeline.axis import Axis, PartAxis
from trntop.pipeline.statistics import excess, group_median, node_median

NAN = float("nan")
LEAST = 0.07


class Rounds:
    """Rounds of a group, with a cause that begins at some time."""

    def __init__(self, interval: float, noise: float, size: int = 8, seed: int = 1) -> None:
        self.peers = Peers(LEAST)
        self.interval = interval
        self.noise = noise
        self.random = np.random.default_rng(seed)
        self.axis = Axis([f"n{index}" for index in range(size)])
        self.bias = np.zeros(size)
        self.time = 1000.0

    def run(
        self,
        rounds: int,
        slow: Callable[[float], npt.NDArray[np.float64] | float] = lambda since: 0.0,
        population: str = "",
    ) -> dict[str, float]:
        """Who was found, and how long after the beginning of these rounds."""
        begin, found = self.time + self.interval, {}
        for _ in range(rounds):
            self.time += self.interval
            times = 2.0 * (1.0 + self.bias + slow(self.time - begin))
            times = times * (1.0 + self.noise * self.random.standard_normal(len(self.axis)))
            off = excess(times, np.zeros(len(self.axis), np.int64))
            self.peers.round(self.time, self.axis, off, self.interval, population)
            for index in np.flatnonzero(self.peers.value > 1.0).tolist():
                found.setdefault(str(self.axis.key(index)), self.time - begin)
        return found


def slower(share: float, index: int = 3, size: int = 8) -> npt.NDArray[np.float64]:
    values = np.zeros(size)
    values[index] = share
    return values


# A tenth is just above the limit: the more noise and the fewer rounds, the longer it takes.
@pytest.mark.parametrize(
    ("interval", "noise", "within"),
    [
        (1.0, 0.01, 20.0),
        (1.0, 0.02, 20.0),
        (1.0, 0.03, 45.0),
        (4.0, 0.01, 20.0),
        (4.0, 0.02, 30.0),
        (4.0, 0.03, 45.0),
        (10.0, 0.01, 20.0),
        (10.0, 0.02, 50.0),
        (10.0, 0.03, 90.0),
    ],
)
def test_only_the_slow_member_is_found_soon(interval: float, noise: float, within: float) -> None:
    late = 0
    for seed in range(10):
        rounds = Rounds(interval, noise, seed=seed)
        assert rounds.run(40) == {}
        found = rounds.run(40, lambda since: slower(0.10))
        assert found.keys() <= {"n3"}
        late += found.get("n3", np.inf) > within
    assert late <= 2


@pytest.mark.parametrize("interval", [1.0, 4.0, 10.0])
def test_a_slower_member_is_found_as_soon_with_much_noise(interval: float) -> None:
    late = 0
    for seed in range(5):
        rounds = Rounds(interval, 0.03, seed=seed)
        assert rounds.run(40) == {}
        found = rounds.run(30, lambda since: slower(0.25))
        assert found.keys() == {"n3"}
        late += found["n3"] > max(20.0, 3 * interval)
    assert late <= 1


@pytest.mark.parametrize("interval", [1.0, 4.0])
@pytest.mark.parametrize(("share", "seconds"), [(0.1, 10), (0.5, 8), (3.0, 8)])
def test_a_hiccup_is_none(interval: float, share: float, seconds: float) -> None:
    for seed in range(5):
        rounds = Rounds(interval, 0.02, seed=seed)
        rounds.run(40)
        assert rounds.run(40, lambda since: slower(share if since < seconds else 0.0)) == {}


def test_one_outlier_is_ignored_at_any_interval() -> None:
    for interval in (1.0, 4.0, 10.0, 30.0):
        rounds = Rounds(interval, 0.01)
        rounds.run(20)
        assert rounds.run(20, lambda since: slower(5.0 if since == 0 else 0.0)) == {}


def test_a_slow_member_is_released_after_recovery() -> None:
    rounds = Rounds(2.0, 0.01)
    rounds.run(30)
    assert rounds.run(30, lambda since: slower(0.15)).keys() == {"n3"}
    assert rounds.peers.value[3] > 1.0
    assert rounds.peers.effect[3] == pytest.approx(0.15, abs=0.02)
    rounds.run(6)
    assert rounds.peers.value[3] <= 1.0
    assert rounds.run(60) == {}


def test_it_stays_found_for_as_long_as_it_lasts() -> None:
    rounds = Rounds(2.0, 0.01)
    rounds.run(30)
    rounds.run(20, lambda since: slower(0.15))
    for _ in range(400):
        rounds.run(1, lambda since: slower(0.15))
        assert rounds.peers.value[3] > 1.0


def test_since_when_it_is_slow() -> None:
    rounds = Rounds(2.0, 0.01)
    rounds.run(30)
    began = rounds.time + rounds.interval
    rounds.run(20, lambda since: slower(0.15))
    assert rounds.peers.since[3] == pytest.approx(began, abs=4)


def test_two_slow_members() -> None:
    rounds = Rounds(2.0, 0.01)
    rounds.run(30)
    found = rounds.run(20, lambda since: slower(0.12, 1) + slower(0.2, 6))
    assert found.keys() == {"n1", "n6"}


def test_what_sets_a_member_apart_for_ever_is_taken_away() -> None:
    rounds = Rounds(2.0, 0.01)
    rounds.bias = np.array([0.0, 0.3, 0.0, -0.2, 0.1, 0.0, 0.0, 0.0])
    assert rounds.run(200) == {}
    assert rounds.peers.bias[1] == pytest.approx(0.3, abs=0.01)
    # On top of it, a tenth more is found; as a share of what is usual for the others.
    assert rounds.run(20, lambda since: slower(0.12, 1)).keys() == {"n1"}


def test_a_slow_drift_is_taken_away() -> None:
    rounds = Rounds(2.0, 0.01)
    rounds.run(30)
    assert rounds.run(600, lambda since: slower(0.05 * min(since / 1200, 1.0))) == {}


def test_the_noise_of_populations_does_not_mix() -> None:
    """A noisy job next to a calm one: neither blinds nor excites the other."""
    peers = Peers(LEAST)
    random = np.random.default_rng(3)
    axis = Axis(range(16))
    calm, noisy = np.arange(16) < 8, np.arange(16) >= 8

    def both(time: float, slow: float = 0.0) -> set[int]:
        values = np.where(calm, 0.01, 0.08) * random.standard_normal(16)
        values[2] += slow
        for chosen, name in ((calm, "calm"), (noisy, "noisy")):
            peers.round(time, axis, np.where(chosen, values, np.nan), 2.0, name)
        return set(np.flatnonzero(peers.value > 1.0).tolist())

    for t in range(100):
        assert both(2.0 * t) == set()
    assert peers.noise("calm") < 0.02
    assert peers.noise("noisy") > 0.05
    found: set[int] = set()
    for t in range(100, 110):
        found |= both(2.0 * t, 0.12)
    assert found == {2}


def test_an_absent_member_is_neither_found_nor_cleared() -> None:
    rounds = Rounds(2.0, 0.01)
    rounds.run(30)
    rounds.run(15, lambda since: slower(0.2))
    assert rounds.peers.value[3] > 1.0
    before = rounds.peers.value[3]
    rounds.run(30, lambda since: slower(NAN))
    assert rounds.peers.value[3] == before
    rounds.run(20)
    assert rounds.peers.value[3] <= 1.0


def test_no_member_takes_part() -> None:
    peers = Peers(LEAST)
    axis = Axis("abc")
    for t in range(20):
        peers.round(float(t), axis, np.full(3, np.nan), 1.0)
    assert not (peers.value > 1.0).any()
    peers.round(20.0, Axis(), np.empty(0), 1.0)
    assert len(peers.value) == 0


def test_members_join_and_leave() -> None:
    rounds = Rounds(2.0, 0.01)
    rounds.bias = slower(0.3)
    rounds.run(40)
    # n0 leaves, two join, one of which is slow by nature; all have other indices.
    rounds.axis = Axis(["new0", "n7", "n6", "n5", "n4", "n3", "n2", "n1", "new1"])
    rounds.bias = np.array([0.25, 0, 0, 0, 0, 0.3, 0, 0, 0])
    assert rounds.run(100) == {}
    assert rounds.run(20, lambda since: slower(0.15, 8, 9)).keys() == {"new1"}


def test_a_finding_outlives_new_members() -> None:
    rounds = Rounds(2.0, 0.01)
    rounds.run(30)
    rounds.run(15, lambda since: slower(0.2))
    rounds.axis = Axis(["a", *(f"n{index}" for index in range(8))])
    rounds.bias = np.zeros(9)
    rounds.run(1, lambda since: slower(0.2, 4, 9))
    assert np.flatnonzero(rounds.peers.value > 1.0).tolist() == [4]


def test_no_member_is_judged_before_its_bias_is_known() -> None:
    rounds = Rounds(10.0, 0.005)
    rounds.bias = slower(0.5)
    assert rounds.run(TUNING.learning) == {}


def test_clear_forgets_all() -> None:
    rounds = Rounds(2.0, 0.01)
    rounds.run(30)
    rounds.run(20, lambda since: slower(0.2))
    rounds.peers.clear()
    assert len(rounds.peers.value) == 0
    assert rounds.run(30) == {}


@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32 - 1),
    noise=st.floats(0.0, 0.04),
    pace=st.sampled_from([0.5, 1.0, 4.0, 10.0, 40.0]),
    size=st.integers(2, 24),
    spread=st.floats(0.0, 0.5),
)
def test_without_any_shift_nobody_is_ever_found(
    seed: int, noise: float, pace: float, size: int, spread: float
) -> None:
    rounds = Rounds(pace, noise, size, seed)
    rounds.bias = np.clip(spread * rounds.random.standard_normal(size), -0.5, 1.0)
    assert rounds.run(300) == {}


@settings(max_examples=50, deadline=None, derandomize=True)
@given(
    values=st.lists(st.one_of(st.just(NAN), st.floats(0.1, 10.0)), min_size=1, max_size=20),
    data=st.data(),
)
def test_the_median_of_a_group(values: list[float], data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.integers(0, 3), min_size=len(values), max_size=len(values)))
    column, groups = np.array(values), np.array(numbers, np.int64)
    result = group_median(column, groups)
    for group in set(numbers):
        own = column[groups == group]
        known = own[~np.isnan(own)]
        expected = np.median(known) if len(known) else NAN
        mine = result[groups == group]
        assert np.allclose(mine, expected, equal_nan=True)


def test_excess() -> None:
    off = excess(np.array([2.0, 2.0, 3.0, NAN]), np.zeros(4, np.int64))
    assert np.array_equal(off, [0.0, 0.0, 0.5, NAN], equal_nan=True)
    assert np.isnan(excess(np.full(3, NAN), np.zeros(3, np.int64))).all()


@pytest.mark.parametrize("widths", [(4, 4, 4), (3, 3), (4, 2, 5), (1, 1), ()])
@pytest.mark.parametrize("absent", [(), (0,), (0, 1, 2, 3)])
def test_the_median_of_a_node(widths: tuple[int, ...], absent: tuple[int, ...]) -> None:
    axis = PartAxis(Axis([f"n{node}" for node in range(len(widths))]), list(map(_parts, widths)))
    values = np.random.default_rng(3).random(len(axis))
    values[[index for index in absent if index < len(axis)]] = np.nan
    found = node_median(values, axis)
    np.testing.assert_array_equal(found, group_median(values, axis.owner))


def _parts(width: int) -> tuple[int, ...]:
    return tuple(range(width))


def test_a_hiccup_in_the_first_rounds_is_no_offset() -> None:
    rounds = Rounds(2.0, 0.005)
    rounds.run(2)
    rounds.run(1, lambda since: slower(1.0))
    rounds.run(10)
    assert abs(rounds.peers.bias[3]) < 0.02


def test_load_that_wanders_is_no_straggler() -> None:
    """Of each member, slowly: an expert that is asked more often for a minute."""
    rounds = Rounds(2.0, 0.005, size=12)
    wander = np.random.default_rng(7)
    load = np.zeros(12)

    def walk(_since: float) -> npt.NDArray[np.float64]:
        load[:] = 0.95 * load + 0.012 * wander.standard_normal(12)
        return load

    assert rounds.run(400, walk) == {}


def test_half_of_the_members_may_do_twice_the_work() -> None:
    """A round in which one of the others lags moves the plain median from one half to the other."""
    peers, axis = Peers(LEAST), Axis([f"n{index}" for index in range(8)])
    peers.follow(axis)
    work = np.array([1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0])
    groups = np.zeros(8, np.int64)
    for number in range(30):
        values = work * np.where((np.arange(8) == 1) & (number % 7 == 6), 1.5, 1.0)
        off = peers.deviation(values, groups)
        peers.round(2.0 * number, axis, off, 2.0)
        if number > TUNING.learning:
            assert np.abs(np.delete(peers.deviation(values, groups) - peers.bias, 1)).max() < 0.01


def test_a_member_that_becomes_like_its_peers_is_not_slower_than_they_are() -> None:
    rounds = Rounds(5.0, 0.005)
    rounds.bias[2], rounds.bias[5] = -0.12, -0.02
    rounds.run(60)
    assert rounds.run(12, lambda _: slower(0.15, 2) + slower(0.15, 5)).keys() == {"n2", "n5"}
    assert rounds.peers.slower[2] <= 1.0 < rounds.peers.slower[5]


def test_members_that_start_over_keep_what_is_known_of_their_noise() -> None:
    rounds = Rounds(5.0, 0.02)
    rounds.run(40)
    noise, wander = rounds.peers.noise(), rounds.peers.wander()
    rounds.peers.restart()
    rounds.peers.follow(rounds.axis)
    assert (rounds.peers.noise(), rounds.peers.wander()) == (noise, wander)
    assert (rounds.peers.count == 0).all()
