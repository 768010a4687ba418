from trntop.tui.cost import Cost


def test_share_of_the_last_whole_stretch() -> None:
    now, used = [100.0], [1.0]
    cost = Cost(lambda: now[0], lambda: used[0])
    assert cost.share() is None
    now[0], used[0] = 101.0, 1.5
    assert cost.share() is None
    now[0], used[0] = 102.0, 1.5
    assert cost.share() == 0.25
    now[0], used[0] = 103.0, 9.0
    assert cost.share() == 0.25
