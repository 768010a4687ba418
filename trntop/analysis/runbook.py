"""The runbooks: what to do about each kind of incident, as Markdown, in the package."""

from functools import cache
from importlib.resources import files


@cache
def runbook(kind: str) -> str:
    """The page of a kind; empty for rules of the user's own."""
    page = files("trntop") / "runbooks" / f"{kind}.md"
    return page.read_text("utf-8") if page.is_file() else ""


def title(kind: str) -> str:
    """What it is about, in a phrase; empty where there is none."""
    return runbook(kind).partition("\n")[0].partition(": ")[2]
