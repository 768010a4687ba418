r"""Regular expressions that take time in proportion to the text, whatever they say.

`re` backtracks: a pattern such as `(a*)*b`, or only `.*.*.*b`, may stand still for minutes on a
long name, and the screen with it. These have no backtracking: all places of the pattern at which
the text may be are followed at once (Glushkov's automaton), and what a character does to a set of
places is remembered. There are characters, `.`, `[a-z]`, `[^a-z]`, `\d` `\w` `\s` (and `\D` `\W`
`\S`), `\.` and the like, `*` `+` `?`, `( )`, `|`, `^`, `$`. Upper and lower case are the same.
"""

from collections.abc import Callable
from dataclasses import dataclass

MAX_LENGTH = 100
MAX_REMEMBERED = 10_000
"""Transitions that are kept; beyond, they are worked out anew."""
_BEGIN, _END = "\x02", "\x03"
"""Put round the text, so that `^` and `$` are characters like others."""
_CLASSES: dict[str, Callable[[str], bool]] = {
    "d": str.isdigit,
    "w": lambda char: char.isalnum() or char == "_",
    "s": str.isspace,
}

Test = Callable[[str], bool]


class PatternError(ValueError):
    """A pattern that makes no sense.

    Args:
        message: what is wrong.
        at: index of the character where it is.
    """

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a pattern, as sets of places (bits)."""

    empty: bool
    """Whether it may be nothing."""
    first: int
    last: int


class Pattern:
    """A compiled pattern.

    Args:
        text: the pattern.

    Raises:
        PatternError: it makes no sense, or is too long.
    """

    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise PatternError(f"a pattern has at most {MAX_LENGTH} characters", MAX_LENGTH)
        self._text = text
        self._at = 0
        self._tests: list[Test] = []
        self._follow: list[int] = []
        whole = self._either()
        if self._at < len(text):
            raise PatternError("this ) closes nothing", self._at)
        self._empty, self._first, self._last = whole.empty, whole.first, whole.last
        self._moves: dict[tuple[int, str], int] = {}

    def found_in(self, text: str) -> bool:
        """Whether the pattern matches anywhere in `text`."""
        if self._empty:
            return True
        places = 0
        for char in f"{_BEGIN}{text.lower()}{_END}":
            move = self._moves.get((places, char))
            if move is None:
                move = self._move(places, char)
            places = move
            if places & self._last:
                return True
        return False

    def _move(self, places: int, char: str) -> int:
        """Where the text may be after `char`; a match may begin anywhere."""
        reached = self._first
        for place, follow in enumerate(self._follow):
            if places >> place & 1:
                reached |= follow
        found = sum(
            1 << place
            for place, test in enumerate(self._tests)
            if reached >> place & 1 and test(char)
        )
        if len(self._moves) >= MAX_REMEMBERED:
            self._moves.clear()
        self._moves[places, char] = found
        return found

    # Reading: each returns the part that begins at `_at`

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _either(self) -> _Part:
        part = self._sequence()
        while self._peek() == "|":
            self._at += 1
            other = self._sequence()
            part = _Part(
                part.empty or other.empty, part.first | other.first, part.last | other.last
            )
        return part

    def _sequence(self) -> _Part:
        part = _Part(True, 0, 0)
        while self._peek() not in ("", "|", ")"):
            after = self._repeated()
            self._join(part.last, after.first)
            part = _Part(
                part.empty and after.empty,
                part.first | (after.first if part.empty else 0),
                after.last | (part.last if after.empty else 0),
            )
        return part

    def _repeated(self) -> _Part:
        part = self._atom()
        while (sign := self._peek()) and sign in "*+?{":
            if sign == "{":
                raise PatternError("counts in { } are not known here", self._at)
            self._at += 1
            if sign != "?":
                self._join(part.last, part.first)
            part = _Part(part.empty or sign != "+", part.first, part.last)
        return part

    def _atom(self) -> _Part:
        begin, char = self._at, self._peek()
        self._at += 1
        if char == "(":
            if self._text.startswith("?", self._at):
                raise PatternError("groups have no options here", self._at)
            part = self._either()
            if self._peek() != ")":
                raise PatternError("this ( is never closed", begin)
            self._at += 1
            return part
        if char in "*+?{":
            raise PatternError(f"nothing before {char} to repeat", begin)
        if char == "[":
            return self._place(self._set(begin))
        if char == ".":
            return self._place(_within(lambda one: True))
        if char == "\\":
            return self._place(self._escaped())
        if char in "^$":
            return self._place((_BEGIN if char == "^" else _END).__eq__)
        return self._place(char.lower().__eq__)

    def _escaped(self) -> Test:
        char = self._peek()
        self._at += 1
        if test := _CLASSES.get(char):
            return _within(test)
        if test := _CLASSES.get(char.lower()):
            return _within(_not(test))
        if not char or char.isalnum():
            raise PatternError(f"\\{char} means nothing here", self._at - 2)
        return char.__eq__

    def _set(self, begin: int) -> Test:
        negative = self._peek() == "^"
        self._at += negative
        tests: list[Test] = []
        while (char := self._peek()) != "]" or not tests:
            if not char:
                raise PatternError("this [ is never closed", begin)
            self._at += 1
            if char == "\\":
                tests.append(self._escaped())
            elif self._peek() == "-" and self._text[self._at + 1 : self._at + 2] not in ("", "]"):
                last = self._text[self._at + 1]
                self._at += 2
                tests.append(_between(char.lower(), last.lower()))
            else:
                tests.append(char.lower().__eq__)
        self._at += 1
        return _within(_not(_any(tests)) if negative else _any(tests))

    def _place(self, test: Test) -> _Part:
        bit = 1 << len(self._tests)
        self._tests.append(test)
        self._follow.append(0)
        return _Part(False, bit, bit)

    def _join(self, before: int, after: int) -> None:
        for place in range(len(self._follow)):
            if before >> place & 1:
                self._follow[place] |= after


def _within(test: Test) -> Test:
    """The same, but never for what is put round the text."""
    return lambda char: char not in (_BEGIN, _END) and test(char)


def _not(test: Test) -> Test:
    return lambda char: not test(char)


def _any(tests: list[Test]) -> Test:
    return lambda char: any(test(char) for test in tests)


def _between(first: str, last: str) -> Test:
    return lambda char: first <= char <= last
