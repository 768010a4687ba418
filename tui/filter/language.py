"""Parses a filter into a function of a view model.

    filter = group ("|" group)*
    group  = term+                              all terms match; "&" between them is optional
    term   = ["!"] (FIELD OP VALUE | FLAG | PART_OF_A_NODE_NAME)
    OP     = "<" | "<=" | ">" | ">=" | "=" | "!=" | "~" | "!~"

`docs/filter.md` is the reference for users.
"""

import re
from collections.abc import Callable
from fnmatch import translate
from functools import lru_cache

import numpy as np

from trntop.catalog import CATALOG
from trntop.core import suggest
from trntop.core.comparison import Comparison
from trntop.core.comparison import number as read_number
from trntop.core.text import clean

from ..view_model import ViewModel
from . import fields
from .fields import Mask

MAX_LENGTH = 300
NONE = "none"
"""The value that matches nodes whose number is unknown."""

Test = Callable[[ViewModel], Mask]

_NAME = re.compile(r"""[^\s&|()!<>=~"']+""")
_OPERATOR = re.compile(r"\s*([<>]=?|!?[=~])\s*")
_VALUE = re.compile(r"""(["'])(?P<quoted>.*?)\1|(?P<bare>[^\s&|"']+)""")
_UNIT = re.compile(r"\s+([^\s&|]+)")
_NUMBER = re.compile(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)(.*)")


class FilterError(ValueError):
    """An invalid filter.

    Args:
        message: the error.
        at: index of the offending character; the length of the text where something is missing.
    """

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at


class Filter:
    """A parsed filter.

    Raises:
        FilterError: `text` is invalid.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._groups = _Parser(text).groups()

    def mask(self, view_model: ViewModel) -> Mask:
        """The matching nodes, `[node]` in the cluster's order."""
        groups = [
            np.logical_and.reduce([test(view_model) for test in group]) for group in self._groups
        ]
        matches: Mask = np.logical_or.reduce(groups)
        return matches


class _Parser:
    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise FilterError(f"a filter has at most {MAX_LENGTH} characters", MAX_LENGTH)
        self._text = text
        self._at = 0

    def groups(self) -> list[list[Test]]:
        groups: list[list[Test]] = [[]]
        term_missing = True
        while char := self._next():
            if char not in "&|":
                groups[-1].append(self._term())
                term_missing = False
            elif term_missing:
                raise FilterError(f"expected a name before {char}", self._at)
            else:
                self._at += 1
                term_missing = True
                if char == "|":
                    groups.append([])
        if term_missing:
            raise FilterError("a name is missing", len(self._text))
        return groups

    def _next(self) -> str:
        """The next character that is not blank; empty at the end."""
        while self._text[self._at : self._at + 1].isspace():
            self._at += 1
        return self._text[self._at : self._at + 1]

    def _term(self) -> Test:
        if self._next() == "!":
            self._at += 1
            test = self._term()
            return lambda view_model: ~test(view_model)
        if self._next() in ('"', "'"):
            return _node_name(self._value())
        begin = self._at
        found = _NAME.match(self._text, begin)
        if found is None:
            char = self._next()
            if char and char in "()":
                raise FilterError("parentheses are not supported; separate groups with |", begin)
            wrong = f"expected a name before {char}" if char else "a name is missing"
            raise FilterError(wrong, begin)
        self._at = found.end()
        name = found.group()
        if operator := _OPERATOR.match(self._text, self._at):
            self._at = operator.end()
            return self._comparison(name, begin, operator[1], operator.start(1))
        if (flag := fields.FLAGS.get(name)) is not None:
            return flag
        if name in fields.TEXTS or fields.number(name) is not None:
            raise FilterError(f"{name} needs a comparison, such as {_example(name)}", self._at)
        return _node_name(name)

    def _comparison(self, name: str, begin: int, operator: str, operator_at: int) -> Test:
        if (text := fields.TEXTS.get(name)) is not None:
            if operator[0] in "<>":
                raise FilterError(f"{name} is text: use = != ~ !~", operator_at)
            return self._text_test(name, text, operator)
        number = fields.number(name)
        if number is None:
            raise FilterError(_unknown(name), begin)
        if "~" in operator:
            raise FilterError(f"{name} is a number: use < <= > >= = !=", operator_at)
        return self._number_test(number, operator)

    def _value(self) -> str:
        found = _VALUE.match(self._text, self._at)
        if found is None:
            unclosed = self._next() in ('"', "'") and self._next()
            raise FilterError("unclosed quote" if unclosed else "a value is missing", self._at)
        self._at = found.end()
        return found["quoted"] if found["bare"] is None else found["bare"]

    def _number_test(self, number: fields.Number, operator: str) -> Test:
        at = self._at
        text = self._value()
        if text == NONE and operator in ("=", "!="):
            return _is_unknown(number, operator == "=")
        found = _NUMBER.fullmatch(text)
        if found is None:
            raise FilterError(f"{clean(text, 40)} is not a number", at)
        try:
            limit = read_number(found[1])
        except ValueError as error:
            raise FilterError(str(error), at) from None
        unit, unit_at = found[2], at + len(found[1])
        if not unit:  # on screen a blank precedes the unit
            after = _UNIT.match(self._text, self._at)
            if after and after[1] in fields.UNITS:
                unit, unit_at, self._at = after[1], after.start(1), after.end()
        comparison = Comparison("", operator, limit * _scale(number, unit, unit_at))

        def test(view_model: ViewModel) -> Mask:
            values, owners = number.values(view_model)
            return fields.any_of_node(
                comparison.among(values), owners, len(view_model.cluster.nodes)
            )

        return test

    def _text_test(self, name: str, field: fields.Text, operator: str) -> Test:
        at = self._at
        text = self._value()
        fits = _glob(text) if "~" in operator else _equal(text)
        if "~" not in operator and field.choices and not any(map(fits, field.choices)):
            raise FilterError(f"{name} is one of {', '.join(field.choices)}", at)
        inverted = operator[0] == "!"

        def test(view_model: ViewModel) -> Mask:
            found = [any(map(fits, texts)) for texts in field.values(view_model)]
            return np.array(found, np.bool_) ^ inverted

        return test


def _glob(pattern: str) -> Callable[[str], bool]:
    """Whether a text contains a shell pattern."""
    match = re.compile(translate(f"*{pattern.lower()}*")).match
    return lambda text: match(text.lower()) is not None


def _equal(wanted: str) -> Callable[[str], bool]:
    normalized = _normalized(wanted)
    return lambda text: _normalized(text) == normalized


def _is_unknown(number: fields.Number, wanted: bool) -> Test:
    def test(view_model: ViewModel) -> Mask:
        values, owners = number.values(view_model)
        known = fields.any_of_node(~np.isnan(values), owners, len(view_model.cluster.nodes))
        return known ^ wanted

    return test


def _node_name(part: str) -> Test:
    wanted = part.lower()

    def test(view_model: ViewModel) -> Mask:
        return np.array([wanted in name.lower() for name in view_model.cluster.names], np.bool_)

    return test


@lru_cache(maxsize=1 << 14)
def _normalized(word: str) -> str:
    """Words that differ in case, `-` and `_` only are the same."""
    return re.sub(r"[-_ ]+", " ", word.lower())


def _scale(number: fields.Number, unit: str, at: int) -> float:
    """What converts a number with this unit into the catalog's unit."""
    if not unit:
        return number.scale
    dimension, size = fields.UNITS.get(unit, ("", 0.0))
    if not dimension:
        known = ", ".join(fields.UNITS)
        raise FilterError(f"unknown unit {clean(unit, 20)}; use one of {known}", at)
    if dimension != number.unit:
        raise FilterError(f"the unit is {number.shown or number.unit}, not {unit}", at)
    return size


def _example(name: str) -> str:
    if text := fields.TEXTS.get(name):
        return f"{name}={text.choices[0]}" if text.choices else f"{name}~trn"
    found = fields.number(name)
    return f"{name}>{30 if found and found.shown == '%' else 1}"


def _unknown(name: str) -> str:
    # A field of the screen is suggested before a quantity of the catalog.
    known = fields.NAMES if suggest.closest(name, fields.NAMES) else (*fields.NAMES, *CATALOG)
    return suggest.unknown("field", name, known)
