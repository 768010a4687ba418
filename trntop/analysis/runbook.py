"""The runbooks: what to do about each kind of incident, as Markdown, in the package."""

from functools import cache
from pathlib import Path

FOLDER = "docs/runbooks/"


@cache
def runbook(kind: str) -> str:
    """The page of a kind; empty for rules of the user's own."""
    page = Path(__file__).parents[1] / "runbooks" / f"{kind}.md"
    return page.read_text("utf-8") if page.is_file() else ""


def location(kind: str) -> str | None:
    """Its path in the project; None for rules of the user's own."""
    return f"{FOLDER}{kind}.md" if runbook(kind) else None


def kind_name(kind: str) -> str:
    """The kind in words: `EFA degraded`; a custom rule keeps its name."""
    if not runbook(kind):
        return kind
    words = kind.replace("_", " ")
    words = words[:1].upper() + words[1:]
    return words.replace("Efa", "EFA").replace("Ecc", "ECC")


def title(kind: str) -> str:
    """What it is about, in a phrase; empty where there is none."""
    return runbook(kind).partition("\n")[0].partition(": ")[2]
