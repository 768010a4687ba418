"""A comparison with a number, `util < 30`: the elements of custom rules and filters."""

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
    quantity: str
    sign: str
    limit: float

    @property
    def below(self) -> bool:
        """Whether it holds for small values."""
        return self.sign.startswith("<")

    def holds(self, value: float) -> bool:
        return bool(SIGNS[self.sign](value, self.limit))

    def among(self, values: "npt.NDArray[np.float64]") -> "npt.NDArray[np.bool_]":
        """For which values it holds; never for an absent one."""
        found: npt.NDArray[np.bool_] = SIGNS[self.sign](values, self.limit) & (values == values)
        return found


def number(text: str) -> float:
    """A finite number.

    Raises:
        ValueError: the text is not one.
    """
    try:
        value = float(text)
    except ValueError:  # 1.2.3
        value = math.inf
    if not math.isfinite(value):
        raise ValueError(f"{text} is not a valid number")
    return value
