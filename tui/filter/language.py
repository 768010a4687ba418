"""The language of filters: from text to a function of a scene.

    expression = all ("|" all)*
    all        = one ("&" one)*
    one        = "!" one | "(" expression ")" | NAME SIGN VALUE | FLAG | WORD
    SIGN       = "<" | "<=" | ">" | ">=" | "=" | "!=" | "~" | "!~"

`docs/filter.md` says what it means. Nothing in it is run as a program.
"""

import re
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from trntop import suggest
from trntop.catalog import CATALOG
from trntop.comparison import Comparison
from trntop.comparison import number as read_number
from trntop.text import clean

from ..scene import Scene
from . import fields
from .fields import Places
from .pattern import Pattern, PatternError

MAX_LENGTH = 300
MAX_DEPTH = 20
"""Parentheses and `!` within each other."""
MAX_REMEMBERED = 10_000
"""Words of which it is remembered whether they fit."""
NONE = "none"
"""As a number: the value is not known."""

Test = Callable[[Scene], Places]

_WORD = re.compile(r"""[^\s&|()!<>=~"']+""")
_SIGN = re.compile(r"[<>]=?|!?[=~]")
_QUOTED = re.compile(r"\"([^\"]*)\"|'([^']*)'")
_VALUE = re.compile(r"""[^\s&|()"']+""")
_UNIT = re.compile(r"\s+([^\s&|()]+)")
_NUMBER = re.compile(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)(.*)")


class FilterError(ValueError):
    """A filter that makes no sense.

    Args:
        message: what is wrong, in a phrase.
        at: index of the character where it is; the length of the text where something is missing.
    """

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at


class Filter:
    """A compiled filter.

    Args:
        text: what it says.

    Raises:
        FilterError: it makes no sense.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._test = _Reader(text).whole()

    def places(self, scene: Scene) -> Places:
        """The nodes of which it holds, as a mask over the cluster's, in order."""
        return self._test(scene)


class _Reader:
    """Reads one filter from left to right."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise FilterError(f"a filter has at most {MAX_LENGTH} characters", MAX_LENGTH)
        self._text = text
        self._at = 0
        self._depth = 0

    def whole(self) -> Test:
        found = self._expression()
        if self._peek():
            wrong = "this ) closes nothing" if self._peek() == ")" else "expected & or | before it"
            raise FilterError(wrong, self._at)
        return found

    def _peek(self) -> str:
        """The next character that is no blank; empty at the end."""
        while self._text[self._at : self._at + 1].isspace():
            self._at += 1
        return self._text[self._at : self._at + 1]

    def _take(self, sign: str) -> bool:
        """Whether `sign` comes next; then it is behind."""
        if self._peek() != sign:
            return False
        self._at += 1
        return True

    def _expression(self) -> Test:
        tests = [self._all()]
        while self._take("|"):
            tests.append(self._all())
        return tests[0] if len(tests) == 1 else _any(tests)

    def _all(self) -> Test:
        tests = [self._one()]
        while self._take("&"):
            tests.append(self._one())
        return tests[0] if len(tests) == 1 else _every(tests)

    def _one(self) -> Test:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise FilterError("nested too deeply", self._at)
        try:
            if self._take("!"):
                return _not(self._one())
            if self._peek() == "(":
                self._at += 1
                found = self._expression()
                if not self._take(")"):
                    what = "expected & or | before it" if self._peek() else "a ) is missing"
                    raise FilterError(what, self._at)
                return found
            return self._term()
        finally:
            self._depth -= 1

    def _term(self) -> Test:
        if self._peek() in ('"', "'"):
            return _called(self._quoted())
        begin = self._at
        found = _WORD.match(self._text, begin)
        if found is None:
            what = self._peek()
            wrong = f"expected a name before {what}" if what else "a name is missing"
            raise FilterError(wrong, begin)
        self._at = found.end()
        name = found.group()
        self._peek()
        sign = _SIGN.match(self._text, self._at)
        if sign is not None:
            self._at = sign.end()
            return self._comparison(name, begin, sign.group())
        if (flag := fields.FLAGS.get(name)) is not None:
            return flag
        if name in fields.WORDS or fields.number(name) is not None:
            raise FilterError(f"{name} must be compared, such as {_example(name)}", found.end())
        return _called(name)

    def _comparison(self, name: str, begin: int, sign: str) -> Test:
        words = fields.WORDS.get(name)
        number = None if words else fields.number(name)
        if words is None and number is None:
            raise FilterError(_unknown(name), begin)
        self._peek()
        at = self._at
        if number is not None:
            if "~" in sign:
                raise FilterError(f"{name} is a number: < <= > >= = !=", at - len(sign))
            return self._number(number, Comparison(name, sign, 0.0), at)
        assert words is not None
        if sign[0] in "<>":
            raise FilterError(f"{name} is a word: = != ~ !~", at - len(sign))
        found = _Words(words.values, self._fits(name, words, sign, at))
        return _not(found) if sign[0] == "!" else found

    def _value(self) -> str:
        if self._peek() in ('"', "'"):
            return self._quoted()
        found = _VALUE.match(self._text, self._at)
        if found is None:
            raise FilterError("a value is missing", self._at)
        self._at = found.end()
        return found.group()

    def _quoted(self) -> str:
        found = _QUOTED.match(self._text, self._at)
        if found is None:
            raise FilterError("this quote is never closed", self._at)
        self._at = found.end()
        return found[1] or found[2] or ""

    def _number(self, number: fields.Number, asked: Comparison, at: int) -> Test:
        text = self._value()
        if text == NONE and asked.sign in ("=", "!="):
            return _unknown_values(number) if asked.sign == "=" else _not(_unknown_values(number))
        found = _NUMBER.fullmatch(text)
        if found is None:
            raise FilterError(f"{clean(text, 40)} is no number", at)
        try:
            limit = read_number(found[1])
        except ValueError as error:
            raise FilterError(str(error), at) from None
        # A blank may stand before the unit, as on screen.
        unit, place = found[2], at + len(found[1])
        if not unit and (after := _unit_after(self._text, self._at)):
            unit, place = after.group(1), after.start(1)
            self._at = after.end()
        limit *= _size(number, unit, place)
        return _Numbers(number, Comparison(asked.quantity, asked.sign, limit))

    def _fits(self, name: str, words: fields.Words, sign: str, at: int) -> Callable[[str], bool]:
        text = self._value()
        if "~" in sign:
            inside = at + (self._text[at] in "\"'")
            try:
                return Pattern(text).found_in
            except PatternError as error:
                raise FilterError(str(error), inside + error.at) from None
        wanted = _plain(text)
        if words.known and wanted not in map(_plain, words.known):
            known = ", ".join(words.known)
            raise FilterError(f"{name} is one of {known}", at)
        return lambda word: _plain(word) == wanted


class _Words:
    """Nodes one of whose words fits; what is known of a word is remembered."""

    def __init__(
        self, values: Callable[[Scene], Iterable[Sequence[str]]], fits: Callable[[str], bool]
    ) -> None:
        self._values = values
        self._fits = fits
        self._known: dict[str, bool] = {}

    def __call__(self, scene: Scene) -> Places:
        found = [any(map(self._one, words)) for words in self._values(scene)]
        return np.array(found, np.bool_)

    def _one(self, word: str) -> bool:
        known = self._known.get(word)
        if known is None:
            if len(self._known) >= MAX_REMEMBERED:
                self._known.clear()
            known = self._known[word] = self._fits(word)
        return known


class _Numbers:
    """Nodes one of whose values fits."""

    def __init__(self, number: fields.Number, asked: Comparison) -> None:
        self._number = number
        self._asked = asked

    def __call__(self, scene: Scene) -> Places:
        values, owner = self._number.values(scene)
        return fields.anywhere(self._asked.among(values), owner, len(scene.cluster.nodes))


def _unknown_values(number: fields.Number) -> Test:
    def test(scene: Scene) -> Places:
        values, owner = number.values(scene)
        return ~fields.anywhere(~np.isnan(values), owner, len(scene.cluster.nodes))

    return test


def _called(part: str) -> Test:
    """Nodes whose name has `part` in it."""
    wanted = part.lower()
    return _Words(fields.WORDS["node"].values, lambda name: wanted in name.lower())


def _any(tests: Sequence[Test]) -> Test:
    return lambda scene: np.logical_or.reduce([test(scene) for test in tests])


def _every(tests: Sequence[Test]) -> Test:
    return lambda scene: np.logical_and.reduce([test(scene) for test in tests])


def _not(test: Test) -> Test:
    return lambda scene: ~test(scene)


def _plain(word: str) -> str:
    """For comparing: `warming-up` is `warming up`."""
    return re.sub(r"[-_ ]+", " ", word.lower())


def _unit_after(text: str, at: int) -> re.Match[str] | None:
    found = _UNIT.match(text, at)
    return found if found and found[1] in fields.UNITS else None


def _size(number: fields.Number, unit: str, at: int) -> float:
    """What a number with this unit is multiplied with."""
    if not unit:
        return number.size
    dimension, size = fields.UNITS.get(unit, ("", 0.0))
    if not dimension:
        known = ", ".join(fields.UNITS)
        raise FilterError(f"unknown unit {clean(unit, 20)}; known are {known}", at)
    if dimension != number.unit:
        shown = number.shown or number.unit
        raise FilterError(f"this is in {shown}, not in {unit}", at)
    return size


def _example(name: str) -> str:
    if words := fields.WORDS.get(name):
        return f"{name}={words.known[0]}" if words.known else f"{name}~trn"
    found = fields.number(name)
    return f"{name}>{30 if found and found.shown == '%' else 1}"


def _unknown(name: str) -> str:
    # A field of the screen is suggested before a quantity of the catalog.
    known = fields.NAMES if suggest.closest(name, fields.NAMES) else (*fields.NAMES, *CATALOG)
    return suggest.unknown("field", name, known)
