"""Screens as SVG."""

from xml.etree import ElementTree

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tests.tui.sample_run import make_app
from tools.picture import screenshot, svg

SVG = "{http://www.w3.org/2000/svg}"
RED, GREY = Style(color="#ff0000"), Style(color="#777777", bgcolor="#111111")


def drawn(*rows: list[Segment], ground: str = "#000000") -> ElementTree.Element:
    width = max(sum(segment.cell_length for segment in row) for row in rows)
    return ElementTree.fromstring(svg([[[Strip(row)] for row in rows]], width, ground, "a <title>"))


def texts(picture: ElementTree.Element) -> list[tuple[str | None, str | None, str | None]]:
    """Column, line and words of each text."""
    return [
        (element.get("x"), element.get("y"), element.text) for element in picture.iter(f"{SVG}text")
    ]


def areas(picture: ElementTree.Element) -> dict[str | None, str | None]:
    return {element.get("fill"): element.get("d") for element in picture.iter(f"{SVG}path")}


def test_texts_are_in_their_cells_without_surrounding_blanks() -> None:
    picture = drawn([Segment("  a<b  ", RED), Segment("c", GREY)], [Segment("日d", RED)])
    assert texts(picture) == [("20", "15", "a<b"), ("70", "15", "c"), ("0", "34", "日d")]
    assert picture.findtext(f"{SVG}title") == "a <title>"
    assert areas(picture) == {"#111111": "M70 0h10v19h-10z"}


def test_equal_styles_are_one_text_and_blanks_join_any() -> None:
    picture = drawn([Segment("a", RED), Segment(" ", GREY), Segment("b", RED)])
    assert texts(picture) == [("0", "15", "a b")]


def test_blocks_are_areas() -> None:
    picture = drawn([Segment("a██▄▄ b", RED)])
    assert areas(picture) == {"#ff0000": "M10 0h20v19h-20zM30 9.5h20v9.5h-20z"}
    assert texts(picture) == [("0", "15", "a"), ("60", "15", "b")]


def test_lines_under_blanks_stay() -> None:
    lined = Style(color="#ff0000", underline=True, bold=True)
    assert texts(drawn([Segment(" a ", lined)])) == [("0", "15", " a ")]


def test_styles() -> None:
    picture = drawn(
        [
            Segment("a", Style(color="#ff0000", bgcolor="#0000ff", reverse=True)),
            Segment("b", Style(color="#ffffff", dim=True)),
            Segment("c", Style(italic=True, strike=True)),
        ],
        ground="ansi_default",
    )
    rules = picture.findtext(f"{SVG}style")
    assert rules is not None
    assert ".c0{fill:#0000ff}" in rules
    assert ".c1{fill:#a9a9a9}" in rules
    assert ".c2{fill:#c5c8c6;font-style:italic;text-decoration:line-through}" in rules
    assert areas(picture) == {"#ff0000": "M0 0h10v19h-10z"}


async def test_a_screen_asks_no_other_machine_for_anything() -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        picture = screenshot(app)
    assert "http" not in picture.replace("http://www.w3.org/2000/svg", "")
    assert ElementTree.fromstring(picture).get("viewBox") == "0 0 820 476"
    assert "trn-000" in picture


def test_an_animation_shows_one_frame_at_a_time() -> None:
    rows = [[Strip([Segment(text, RED)])] for text in ("one", "two", "three")]
    text = svg([[row] for row in rows], 5, "#000000", "x", still=1)
    groups = [
        group
        for group in ElementTree.fromstring(text).iter(f"{SVG}g")
        if group.get("class", "").startswith("s ")
    ]
    assert ["".join(group.itertext()).strip() for group in groups] == ["one", "two", "three"]
    assert [group.get("class") for group in groups] == ["s s0", "s s1", "s s2"]
    assert text.count("fill:#ff0000") == 1, "frames share their styles"
    assert ".s{visibility:hidden;animation:s 12s step-end infinite}" in text
    assert ".s2{animation-delay:-4s}" in text
    assert ".s1{visibility:visible}" in text
