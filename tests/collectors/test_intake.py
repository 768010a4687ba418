from trntop.collectors.intake import Intake


async def test_newest_wins_and_the_rest_is_counted() -> None:
    times = iter([1.0, 2.0])
    intake = Intake(lambda: next(times))
    intake.feed(b'{"a":1}\n{"a":2}\n{"a"')
    assert intake.arrived.is_set()
    intake.feed(b":3}\n")
    assert intake.pop_newest() == (2.0, b'{"a":3}')
    assert intake.pop_newest() is None
    assert intake.counts == {"reports": 3, "dropped": 2, "skipped": 0, "oversize": 0}


async def test_a_taken_report_is_not_dropped() -> None:
    intake = Intake(lambda: 0.0)
    for number in range(3):
        intake.feed(b'{"a":%d}\n' % number)
        assert intake.pop_newest() == (0.0, b'{"a":%d}' % number)
    assert intake.counts["dropped"] == 0


async def test_the_end_completes_or_counts_the_last_piece() -> None:
    intake = Intake(lambda: 0.0)
    intake.feed(b'{"a":1}')
    intake.close()
    assert intake.pop_newest() == (0.0, b'{"a":1}')
    intake.feed(b'{"a":')
    intake.close()
    assert intake.pop_newest() is None
    intake.close()
    assert intake.counts["skipped"] == 1
    intake.feed(b'{"a":2}\n')
    assert intake.pop_newest() == (0.0, b'{"a":2}')


async def test_garbage_is_counted() -> None:
    intake = Intake(lambda: 0.0)
    intake.feed(b"panic: 1\n[1, 2]\n")
    assert not intake.arrived.is_set()
    assert intake.counts["skipped"] == 2
