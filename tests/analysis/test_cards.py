import pytest

from trntop.analysis.cards import is_up


@pytest.mark.parametrize(
    ("state", "up"),
    [
        ("4: ACTIVE", True),
        ("ACTIVE", True),
        ("active", True),
        ("", True),
        (None, True),
        ("1: DOWN", False),
        ("INACTIVE", False),
        ("2: INIT", False),
    ],
)
def test_what_a_port_says(state: str | None, up: bool) -> None:
    assert is_up(state) is up
