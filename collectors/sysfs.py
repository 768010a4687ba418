"""Small files that the kernel writes."""

from pathlib import Path

from trntop.text import clean


def first_line(path: Path) -> str:
    """First line of `path`, cleaned; empty when it cannot be read."""
    try:
        with path.open(errors="replace") as file:
            return clean(file.readline(256).strip())
    except OSError:
        return ""
