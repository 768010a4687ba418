from dataclasses import replace

from tests.tui.render.contexts import CONTEXT
from trntop.tui.render.line import fit
from trntop.tui.render.table import Column, column_at, header, layout, row

COLUMNS: list[Column[str]] = [
    Column("a", "name", 6, 100, lambda v, w, p: [(fit(v, w), p.palette.text)], max_width=10),
    Column("b", "load", 4, 10, lambda v, w, p: [(fit("1", w, "right"), p.palette.text)],
                unit="%", align="right"),
    Column("c", "state", 5, 50, lambda v, w, p: [(fit("ok", w), p.palette.text)]),
]  # fmt: skip


def widths(width: int) -> dict[str, int]:
    return {column.id: cells for column, cells in layout(COLUMNS, width)}


def test_all_columns_fit() -> None:
    assert widths(23) == {"a": 6, "b": 6, "c": 5}


def test_the_least_important_goes_first() -> None:
    assert set(widths(22)) == {"a", "c"}
    assert set(widths(12)) == {"a"}
    assert set(widths(3)) == {"a"}


def test_spare_room_goes_to_columns_that_grow() -> None:
    assert widths(25)["a"] == 8
    assert widths(99)["a"] == 10


def test_header_marks_the_sorted_column() -> None:
    columns = layout(COLUMNS, 30)
    drawn = header(columns, 30, CONTEXT, "a", reverse=False)
    assert drawn.text.startswith("  name▾")
    assert header(columns, 30, CONTEXT, "a", reverse=True).text.startswith("  name▴")


def test_the_mark_replaces_the_unit() -> None:
    def title(cells: int) -> str:
        column = replace(COLUMNS[1], width=cells)
        return header(layout([column], cells + 2), cells + 2, CONTEXT, "b", reverse=False).text[2:]

    assert [title(cells) for cells in (8, 7, 6)] == [" load %▾", "load %▾", " load▾"]


def test_rows_are_as_wide_as_the_table() -> None:
    columns = layout(COLUMNS, 30)
    plain = row(columns, "node", 30, CONTEXT, cursor=False)
    chosen = row(columns, "node", 30, CONTEXT, cursor=True)
    assert plain.cell_length == chosen.cell_length == 30
    assert plain.text.startswith("  node")
    assert chosen.text.startswith("▸ node")
    assert all(segment.style and segment.style.bgcolor for segment in chosen)


def test_a_cell_belongs_to_a_column() -> None:
    columns = layout(COLUMNS, 30)
    found = [column_at(columns, x) for x in range(30)]
    ids = "".join(column.id if column else "." for column in found)
    assert ids == ".." + "a" * 12 + "b" * 8 + "c" * 7 + "." * 1
