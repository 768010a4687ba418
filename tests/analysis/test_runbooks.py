"""A page for each kind of incident, all of one form, that agrees with rulebook and settings."""

import re
from pathlib import Path

import pytest

from trntop.analysis.rulebook import KINDS, RULEBOOK
from trntop.core.settings import Analysis

FOLDER = Path(__file__).parents[2] / "docs" / "runbooks"
HEADINGS = [
    "What it means",
    "How trntop detects it",
    "Check first",
    "Commands",
    "When it closes",
    "False positives and similar cases",
]


def page(kind: str) -> str:
    return (FOLDER / f"{kind}.md").read_text()


def test_there_is_a_page_for_each_kind_and_no_other() -> None:
    assert {path.stem for path in FOLDER.glob("*.md")} == {*KINDS, "README"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_is_short_and_of_the_same_form(kind: str) -> None:
    text = page(kind)
    assert text.startswith(f"# {kind}: ")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == HEADINGS
    lines = text.splitlines()
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 100
    assert text.count("```sh") == text.count("```") / 2 >= 1
    assert text.isascii()


@pytest.mark.parametrize("kind", KINDS)
def test_settings_and_kinds_that_a_page_names_exist(kind: str) -> None:
    text = page(kind)
    named = set(re.findall(r"`analysis\.(\w+)`", text))
    assert named <= set(Analysis.__struct_fields__)
    for rule in RULEBOOK:
        if rule.kind == kind:
            assert set(rule.settings) <= named
    kinds = {name for name in re.findall(r"`([a-z]+_[a-z]+)`", text) if name in KINDS}
    assert kind not in kinds


def test_the_index_links_every_page() -> None:
    links = re.findall(r"\]\((\w+)\.md\)", (FOLDER / "README.md").read_text())
    assert sorted(links) == sorted(KINDS)
