"""Times as people type and read them."""

from datetime import UTC, datetime

import pytest

from trntop.tui import timecode

NOW = datetime(2025, 11, 20, 14, 3, 12, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("text", "away"),
    [
        ("14:03:12", 0),
        (" 14:03 ", -12),
        ("9:00", -5 * 3600 - 192),
        ("+5m", 300),
        ("+5 min", 300),
        ("-30s", -30),
        ("-30", -30),
        ("+1.5h", 5400),
        ("-1h30m", -5400),
        ("- 1 h 5 s", -3605),
        ("23:59:59", 9 * 3600 + 56 * 60 + 47),
    ],
)
def test_times_that_are_understood(text: str, away: float) -> None:
    assert timecode.parse(text, NOW, utc=True) - NOW == pytest.approx(away)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "enter a time"),
        ("soon", "enter a time"),
        ("5m", "enter a time"),
        ("+", "enter a time"),
        ("+5x", "enter a time"),
        ("24:00", "not a valid time of day"),
        ("12:60", "not a valid time of day"),
    ],
)
def test_others_are_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        timecode.parse(text, NOW, utc=True)


def test_a_time_of_day_is_the_one_in_the_recording() -> None:
    span = (NOW - 16 * 3600, NOW + 600)
    assert timecode.parse("23:00", NOW, span, utc=True) == NOW - 15 * 3600 - 192
    assert timecode.parse("23:00", NOW, utc=True) == NOW + 9 * 3600 - 192
    # One that is in no part of it is still a time.
    assert timecode.parse("15:00", NOW, span, utc=True) == NOW + 3600 - 192


def test_local_times_are_local() -> None:
    shown = datetime.fromtimestamp(NOW).strftime("%H:%M:%S")
    assert timecode.parse(shown, NOW, utc=False) == NOW


@pytest.mark.parametrize(
    ("away", "length", "text"),
    [
        (0, 59, "0:00 of 0:59"),
        (750, 3780, "12:30 of 1:03:00"),
        (3661, 7200, "1:01:01 of 2:00:00"),
        (-5, 60, "0:00 of 1:00"),
        (70, 60, "1:00 of 1:00"),
    ],
)
def test_the_position_in_a_recording(away: float, length: float, text: str) -> None:
    assert timecode.position(NOW + away, (NOW, NOW + length)) == text
