import math

import numpy as np
import pytest

from trntop.core.comparison import Comparison, number


@pytest.mark.parametrize(
    ("sign", "held"),
    [
        ("<", [True, False, False]),
        ("<=", [True, True, False]),
        (">", [False, False, True]),
        (">=", [False, True, True]),
        ("=", [False, True, False]),
        ("!=", [True, False, True]),
    ],
)
def test_absent_values_fulfil_nothing(sign: str, held: list[bool]) -> None:
    comparison = Comparison("util", sign, 2.0)
    assert comparison.among(np.array([1.0, 2.0, 3.0, math.nan])).tolist() == [*held, False]
    assert [comparison.holds(value) for value in (1.0, 2.0, 3.0)] == held
    assert comparison.below is sign.startswith("<")


def test_numbers() -> None:
    assert number("1e3") == 1000.0
    for text in ("1.2.3", "9e999", "nan", "", "x"):
        with pytest.raises(ValueError, match="is not a valid number"):
            number(text)
