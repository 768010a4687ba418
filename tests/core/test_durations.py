import pytest

from trntop.core import durations


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90.0),
        ("1.5h", 5400.0),
        ("1h30m", 5400.0),
        ("2 min 5 s", 125.0),
        ("1d", 86_400.0),
        ("", None),
        ("m", None),
        ("5x", None),
        ("1h30", None),
        ("-5m", None),
        ("1e3", None),
    ],
)
def test_durations(text: str, seconds: float | None) -> None:
    assert durations.parse(text) == seconds
