"""One line of the table."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    what: str
    value: float
    unit: str
    budget: float | None = None
    beside: str = ""

    @property
    def missed(self) -> bool:
        return self.budget is not None and self.value > self.budget

    def line(self) -> str:
        budget = "" if self.budget is None else f"≤ {self.budget:g} {self.unit}"
        value = f"{self.value:.3g} {self.unit}"
        return (
            f"{'!' if self.missed else ' '} {self.what:<56} {budget:>12} {value:>12}  {self.beside}"
        )


def median_seconds(call: Callable[[], object], repeats: int = 200) -> float:
    """Median time of one call, after a warm-up."""
    call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)
