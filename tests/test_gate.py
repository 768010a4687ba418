"""The gate runs the README's own lines, and finds them."""

import subprocess
from pathlib import Path

import pytest

LINES = Path(__file__).parents[1] / ".ci" / "lines"
pytestmark = pytest.mark.skipif(not LINES.exists(), reason="not a checkout")

TRY = "python3 -m venv .venv && .venv/bin/pip install -q . && .venv/bin/trntop demo"
DEVELOP = "python3 -m venv .venv && .venv/bin/pip install -q -e '.[test]' && .venv/bin/pytest"


def lines(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(LINES), *arguments], capture_output=True, text=True, check=False, timeout=60
    )


def test_the_readme_has_its_two_lines() -> None:
    assert lines().stdout.splitlines() == [TRY, DEVELOP]


@pytest.mark.parametrize("found", [[], [TRY], [DEVELOP, TRY], [TRY, DEVELOP, DEVELOP]])
def test_any_other_number_or_order_is_an_error(tmp_path: Path, found: list[str]) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("\n".join(["text", *found, ""]))
    done = lines(str(readme))
    assert done.returncode == 1
    assert done.stdout == ""
    assert "README.md must have one line" in done.stderr
