"""Numbers as people read them: one place for screens, tables and summaries.

Every formatter takes a float in base units, or None or NaN for an absent value, which it shows
as a dash. A number and its unit are separated by one space.
"""

import math
import re
import time
from collections.abc import Callable, Iterable
from typing import TypeGuard

from trntop.catalog import Provenance

ABSENT = "–"

_IEC = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_SI = ("", "k", "M", "G", "T", "P", "E")
_AGES = ((60.0, 1.0, "s"), (3600.0, 60.0, "min"), (172_800.0, 3600.0, "h"))
_DAY = 86_400.0
_SPANS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_MARKS = {Provenance.REPORTED: "r", Provenance.DERIVED: "d", Provenance.ESTIMATED: "~"}


def percent(ratio: float | None) -> str:
    """A ratio as a percentage: `25 %`; one decimal below ten: `2.1 %`."""
    if not _known(ratio):
        return ABSENT
    share = 100.0 * ratio
    if share == 0:
        return "0 %"
    # 9.96 shows as 10, not 10.0, so the rounded value decides.
    return f"{share:.1f} %" if abs(round(share, 1)) < 10 else f"{share:.0f} %"


def fixed(value: float | None, decimals: int = 0) -> str:
    """A number of a column: all with the same decimals, `0` for zero, `<0.1` for a trace."""
    if not _known(value):
        return ABSENT
    if value == 0:
        return "0"
    least = 10.0**-decimals
    if abs(value) < least / 2:
        return f"<{least:.{decimals}f}"
    return f"{value:,.{decimals}f}"


def bytes_iec(count: float | None) -> str:
    """Bytes in powers of 1024: `512 B`, `71.3 GiB`."""
    return _scaled(count, 1024.0, _IEC) if _known(count) else ABSENT


def gib(count: float | None) -> str:
    """Bytes as a number of GiB of any size, for a column whose header names the unit."""
    if not _known(count):
        return ABSENT
    size = count / 2**30
    return f"{size:.1f}" if size == 0 or size >= 0.95 else f"{size:.2g}"


def gigabytes(rate: float | None) -> str:
    """Bytes per second as a number of GB/s, for a column whose header names the unit."""
    return count(rate / 1e9) if _known(rate) else ABSENT


def plain_seconds(duration: float | None) -> str:
    """Seconds as a number of any size, for a column whose header names the unit."""
    return f"{duration:.2f}" if _known(duration) else ABSENT


def gigabits(bytes_per_second: float | None, *, unit: bool = True) -> str:
    """Bytes per second as decimal gigabits: `1,412 Gb/s`, `3.2 Gb/s`, `412` without the unit."""
    if not _known(bytes_per_second):
        return ABSENT
    rate = bytes_per_second * 8 / 1e9
    if rate == 0:
        number = "0"
    elif abs(round(rate, 1)) >= 10:
        number = f"{rate:,.0f}"
    else:
        number = f"{rate:.1f}" if abs(rate) >= 0.05 else "<0.1"
    return f"{number} Gb/s" if unit else number


def seconds(duration: float | None) -> str:
    """A duration to three figures: `62.9 µs`, `63 ms`, `4.31 s`; from two minutes as a span."""
    if not _known(duration):
        return ABSENT
    if duration == 0:
        return "0 s"
    size = abs(duration)
    if size >= 120:
        return span(duration)
    if size >= 0.9995:
        return f"{_figures(duration)} s"
    if size >= 0.0009995:
        return f"{duration * 1e3:.{1 if size < 0.00995 else 0}f} ms"
    if size >= 0.9995e-6:
        return f"{_figures(duration * 1e6)} µs"
    return f"{duration * 1e9:.0f} ns"


def si(number: float | None) -> str:
    """A count in powers of 1000: `971`, `971 k`, `1.20 M`."""
    return _scaled(number, 1000.0, _SI) if _known(number) else ABSENT


def bytes_rate(rate: float | None) -> str:
    """Bytes per second in powers of 1000: `12.0 MB/s`."""
    number, _, prefix = si(rate).partition(" ")
    return number if number == ABSENT else f"{number} {prefix}B/s"


def share_bounds(floor: float | None, ceiling: float | None) -> str:
    """An estimated share in percent, without its unit: `~3-40`, `~≥ 30`, `~≤ 40`, or a dash.

    A floor above the ceiling is shown alone, because the ceiling bounds only the share that does
    not overlap with compute. A floor that rounds to 0 is not shown alone: it has no information.
    """
    symbol = mark(Provenance.ESTIMATED)
    least, most = (None if bound is None else f"{100 * bound:.0f}" for bound in (floor, ceiling))
    least, most = None if least == "0" and most == "100" else least, None if most == "100" else most
    if least is not None and most is not None and (floor or 0.0) <= (ceiling or 0.0):
        return f"{symbol}{least}" if least == most else f"{symbol}{least}-{most}"
    if least is not None:
        return ABSENT if least == "0" else f"{symbol}≥ {least}"
    return ABSENT if most is None else f"{symbol}≤ {most}"


def natural_sort_key(name: str) -> tuple[tuple[int, str], ...]:
    """Sort key with which `rdmap16s27` comes before `rdmap112s27`."""
    return tuple(
        (int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)
    )


def ranges(numbers: Iterable[int]) -> str:
    """`0-3,8` for 0, 1, 2, 3 and 8."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in runs)


def flops(rate: float | None) -> str:
    """Floating point operations per second: `38.2 TFLOP/s`."""
    if not _known(rate):
        return ABSENT
    number, _, prefix = _scaled(rate, 1000.0, _SI).partition(" ")
    return f"{number} {prefix}FLOP/s"


def count(number: float | None) -> str:
    """A whole number with thousands separators: `1,204`."""
    return f"{number:,.0f}" if _known(number) else ABSENT


def age(elapsed: float | None) -> str:
    """How long ago: `1 s`, `14 s`, `3 min`, `2 h`, `5 d`; rounded down."""
    if not _known(elapsed):
        return ABSENT
    elapsed = max(0.0, elapsed)
    for limit, size, unit in _AGES:
        if elapsed < limit:
            return f"{int(elapsed / size)} {unit}"
    return f"{int(elapsed / _DAY)} d"


def span(duration: float | None) -> str:
    """How long, in its two largest units: `53 s`, `1 min 53 s`, `2 h 5 min`, `3 d 4 h`."""
    if not _known(duration):
        return ABSENT
    rest = round(max(0.0, duration))
    parts = []
    for size, unit in _SPANS:
        number, rest = divmod(rest, size)
        if number:
            parts.append(f"{number} {unit}")
        elif parts:
            break  # 2 h 5 s is more precise than useful
    return " ".join(parts[:2]) or "0 s"


def loss(value: float | None) -> str:
    """A loss to four figures: `2.315`."""
    return f"{value:.4g}" if _known(value) else ABSENT


def clock(unix: float | None, *, utc: bool = False) -> str:
    """The time of day, local unless `utc`: `14:03:42`."""
    if not _known(unix):
        return ABSENT
    try:
        return time.strftime("%H:%M:%S", time.gmtime(unix) if utc else time.localtime(unix))
    except (ValueError, OverflowError, OSError):  # a recording may hold any number
        return ABSENT


def with_unit(value: float | None, unit: str) -> str:
    """A value in a unit of the catalog: `2.1 %`, `71.3 GiB`, `1,204 steps`, `12.5 executions/s`."""
    if not _known(value):
        return ABSENT
    if formatter := _FORMATTERS.get(unit):
        return formatter(value)
    noun, is_rate, _ = unit.partition("per_second")
    if value != int(value) and abs(value) < 0.095:
        number = f"{value:.3g}"
    else:
        number = si(value) if is_rate or value != int(value) else count(value)
    return f"{number} {noun.removesuffix('_')}".rstrip() + "/s" * bool(is_rate)


def mark(provenance: Provenance) -> str:
    """The mark after a value that is not measured: `r`, `d` or `~`; empty for measured values.

    Simulated values have no mark: the whole screen is marked.
    """
    return _MARKS.get(provenance, "")


def _known(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)


def _figures(value: float) -> str:
    """Three significant figures, without an exponent."""
    size = abs(value)
    if size < 9.995:
        return f"{value:.2f}"
    return f"{value:.1f}" if size < 99.95 else f"{value:.0f}"


def _scaled(value: float, base: float, prefixes: tuple[str, ...]) -> str:
    power = 0
    # A value that would round up to the next prefix gets that prefix: 1.00 M, not 1000 k.
    while abs(value) >= base - 0.5 and power < len(prefixes) - 1:
        value /= base
        power += 1
    if power == 0:
        number = f"{value:.0f}" if value == int(value) or abs(value) >= 99.95 else _figures(value)
    else:
        number = _figures(value)
    return f"{number} {prefixes[power]}".rstrip()


_FORMATTERS: dict[str, Callable[[float | None], str]] = {
    "ratio": percent,
    "bytes": bytes_iec,
    "bytes_per_second": bytes_rate,
    "flops_per_second": flops,
    "seconds": seconds,
    "loss": loss,
}
"""By the catalog's unit; counts are followed by their noun instead."""
