"""One comparison of something with a number: `util < 30`. Rules and filters consist of them."""

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

SIGNS: Mapping[str, Callable[[Any, Any], Any]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    "!=": operator.ne,
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is compared with what."""

    quantity: str
    sign: str
    limit: float

    @property
    def below(self) -> bool:
        """Whether it holds for small values."""
        return self.sign.startswith("<")

    def holds(self, value: float) -> bool:
        """Whether it holds for a value."""
        return bool(SIGNS[self.sign](value, self.limit))

    def among(self, values: "npt.NDArray[np.float64]") -> "npt.NDArray[np.bool_]":
        """For which of several values it holds; for an absent one no comparison does."""
        found: npt.NDArray[np.bool_] = SIGNS[self.sign](values, self.limit) & (values == values)
        return found


def number(text: str) -> float:
    """The number to compare with.

    Raises:
        ValueError: it is none, or without end.
    """
    try:
        value = float(text)
    except ValueError:  # 1.2.3
        value = math.inf
    if not math.isfinite(value):
        raise ValueError(f"{text} is no number to compare with")
    return value
