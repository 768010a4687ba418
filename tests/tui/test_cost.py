from trntop.tui.cost import Cost, TicksPerPicture


def test_share_and_rate_of_the_last_whole_stretch() -> None:
    now, used, written = [100.0], [1.0], [1000]
    cost = Cost(lambda: now[0], lambda: used[0], lambda: written[0])
    now[0], used[0], written[0] = 101.0, 1.5, 2000
    cost.sample()
    assert cost.share is None
    assert cost.rate is None
    now[0], used[0] = 102.0, 1.5
    cost.sample()
    assert cost.share == 0.25
    assert cost.rate == 500
    now[0], used[0], written[0] = 103.0, 9.0, 9000
    cost.sample()
    assert cost.share == 0.25
    assert cost.rate == 500


def test_no_terminal_no_rate() -> None:
    now, written = [0.0], [None, 5]
    cost = Cost(lambda: now[0], lambda: 0.0, lambda: written[0])
    now[0] = 2.0
    cost.sample()
    assert cost.rate is None
    written.pop(0)
    now[0] = 4.0
    cost.sample()
    assert cost.rate is None


def paces(*skipped: int) -> list[int]:
    """The pace after each picture; so many ticks were left out before it."""
    pace = TicksPerPicture()
    seen = []
    for count in skipped:
        for _ in range(count):
            pace.skip()
        pace.show()
        seen.append(pace.every)
    return seen


def test_one_tick_too_early_is_no_slow_line() -> None:
    assert paces(0, 0, 0, 0, 1, 0, 0) == [1] * 7


def test_the_pace_is_a_power_of_two_and_changes_slowly() -> None:
    assert paces(*[4] * 8) == [4] * 3 + [8] * 5
    assert paces(*[3] * 8, *[0] * 8) == [4] * 13 + [2, 1, 1]
