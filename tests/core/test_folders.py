import pytest

from trntop.core.folders import state_folder


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({"XDG_STATE_HOME": "/s", "HOME": "/h"}, "/s/trntop"),
        ({"XDG_STATE_HOME": "s", "HOME": "/h"}, "/h/.local/state/trntop"),
        ({"HOME": "/h"}, "/h/.local/state/trntop"),
        ({}, None),
    ],
)
def test_state_folder(environ: dict[str, str], found: str | None) -> None:
    folder = state_folder(environ)
    assert (None if folder is None else str(folder)) == found
