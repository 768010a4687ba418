"""The quantities of the explain screen."""

from collections.abc import Sequence
from typing import Any

from ..render import explain, table
from .row_table import RowTable


class QuantityTable(RowTable[str]):
    """Quantities of the catalog with their values of a node, or of all nodes."""

    def __init__(self, names: Sequence[str], of_node: str | None, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._names = names
        self._of_node = of_node

    def key(self, row: str) -> str:
        return row

    def columns(self) -> Sequence[table.Column[Any]]:
        return explain.COLUMNS

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "choose" and super().check_action(action, parameters)

    def find_rows(self) -> Sequence[str]:
        return self._names

    def prepare(self, rows: Sequence[str]) -> Sequence[Any]:
        if self.view_model is None:
            return ()
        return [
            explain.Entry(name, explain.short_value(self.view_model, self._of_node, name))
            for name in rows
        ]
