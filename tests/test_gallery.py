"""The gallery: its page and its pictures belong together, and stay small."""

import importlib.util
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

FOLDER = Path(__file__).parents[1] / "docs" / "gallery"
LIMIT = 4 << 20
"""Bytes of all pictures."""
COVERED = ("explain-80x24.svg",)


@pytest.fixture(scope="module")
def draw() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gallery", FOLDER / "draw.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_that_of_the_command(draw: ModuleType) -> None:
    assert (FOLDER / "README.md").read_text(encoding="utf-8") == draw.page()


def test_every_picture_is_there_and_no_other(draw: ModuleType) -> None:
    middle, *others = draw.SIZES
    first = draw.THEMES[0].name
    wanted = {"story.svg"} | {
        draw.name_of(shot, size, theme)
        for shot in draw.SHOTS
        for size, theme in (
            *((middle, theme.name) for theme in draw.THEMES),
            *((size, first) for size in others),
        )
    }
    assert {path.name for path in FOLDER.glob("*.svg")} == wanted


def test_pictures_are_complete_marked_simulated_and_without_external_references() -> None:
    pictures = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.svg")}
    assert sum(len(picture.encode()) for picture in pictures.values()) < LIMIT
    for name, picture in pictures.items():
        words = "".join(ElementTree.fromstring(picture).itertext())
        # A panel over the whole of the smallest screen covers the header with the mark.
        assert "SIMULATED" in words or name in COVERED, name
        assert "http" not in picture.replace("http://www.w3.org/2000/svg", ""), name
