import math

import pytest

from trntop.catalog import CATALOG, Provenance
from trntop.core import units


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (units.percent(0.253), "25 %"),
        (units.percent(0.0213), "2.1 %"),
        (units.percent(0.0996), "10 %"),
        (units.percent(0.0994), "9.9 %"),
        (units.percent(0), "0 %"),
        (units.percent(1e-5), "0.0 %"),
        (units.percent(1.5), "150 %"),
        (units.percent(-0.02), "-2.0 %"),
        (units.bytes_iec(0), "0 B"),
        (units.bytes_iec(512), "512 B"),
        (units.bytes_iec(1023.9), "1.00 KiB"),
        (units.bytes_iec(76.6e9), "71.3 GiB"),
        (units.bytes_iec(96 * 2**30), "96.0 GiB"),
        (units.bytes_iec(2**80), "1048576 EiB"),
        (units.gigabits(1.32e12), "10,560 Gb/s"),
        (units.gigabits(51.5e9), "412 Gb/s"),
        (units.gigabits(51.5e9, unit=False), "412"),
        (units.gigabits(0.4e9), "3.2 Gb/s"),
        (units.gigabits(3), "<0.1 Gb/s"),
        (units.gigabits(0), "0 Gb/s"),
        (units.seconds(0), "0 s"),
        (units.seconds(4.31), "4.31 s"),
        (units.seconds(59.96), "60.0 s"),
        (units.seconds(0.063), "63 ms"),
        (units.seconds(0.0032), "3.2 ms"),
        (units.seconds(0.9994), "999 ms"),
        (units.seconds(0.9996), "1.00 s"),
        (units.seconds(62.9e-6), "62.9 µs"),
        (units.seconds(5e-9), "5 ns"),
        (units.seconds(300), "5 min"),
        (units.si(0), "0"),
        (units.si(3.5), "3.50"),
        (units.si(971), "971"),
        (units.si(971e3), "971 k"),
        (units.si(999.6e3), "1.00 M"),
        (units.flops(38.2e12), "38.2 TFLOP/s"),
        (units.flops(12), "12 FLOP/s"),
        (units.count(1204), "1,204"),
        (units.age(0.4), "0 s"),
        (units.age(-3), "0 s"),
        (units.age(14.9), "14 s"),
        (units.age(60), "1 min"),
        (units.age(7300), "2 h"),
        (units.age(172_800), "2 d"),
        (units.span(0.4), "0 s"),
        (units.span(52.6), "53 s"),
        (units.span(59.7), "1 min"),
        (units.span(113), "1 min 53 s"),
        (units.span(7505), "2 h 5 min"),
        (units.span(7205), "2 h"),
        (units.span(3 * 86_400 + 4.5 * 3600), "3 d 4 h"),
        (units.seconds(150), "2 min 30 s"),
        (units.loss(2.31489), "2.315"),
        (units.clock(1_763_640_222, utc=True), "12:03:42"),
        (units.clock(1e300, utc=True), "–"),
    ],
)
def test_numbers(text: str, expected: str) -> None:
    assert text == expected


@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_absent_is_a_dash(value: float | None) -> None:
    for form in (
        units.percent,
        units.bytes_iec,
        units.gigabits,
        units.seconds,
        units.si,
        units.flops,
        units.count,
        units.age,
        units.span,
        units.loss,
        units.clock,
    ):
        assert form(value) == "–", form


def test_marks() -> None:
    assert [units.mark(provenance) for provenance in Provenance] == ["", "r", "d", "~", ""]


@pytest.mark.parametrize(
    ("count", "text"),
    [(None, "–"), (0.0, "0.0"), (110950976.0, "0.1"), (5e6, "0.0047"), (72.26e9, "67.3")],
)
def test_gib_in_a_column(count: float | None, text: str) -> None:
    assert units.gib(count) == text


@pytest.mark.parametrize(
    ("duration", "text"), [(None, "–"), (0.063, "0.06"), (4.312, "4.31"), (321.9, "321.90")]
)
def test_seconds_in_a_column(duration: float | None, text: str) -> None:
    assert units.plain_seconds(duration) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.021, "ratio", "2.1 %"),
        (1536.0, "bytes", "1.50 KiB"),
        (12e6, "bytes_per_second", "12.0 MB/s"),
        (3.82e13, "flops_per_second", "38.2 TFLOP/s"),
        (0.063, "seconds", "63 ms"),
        (2.3151, "loss", "2.315"),
        (1204.0, "steps", "1,204 steps"),
        (1.5, "norm", "1.50 norm"),
        (0.00123456, "norm", "0.00123 norm"),
        (0.0, "events", "0 events"),
        (0.04, "per_second", "0.04/s"),
        (971_000.0, "tokens_per_second", "971 k tokens/s"),
        (155.0, "per_second", "155/s"),
        (2360.0, "per_second", "2.36 k/s"),
        (None, "steps", "–"),
    ],
)
def test_values_in_a_unit_of_the_catalog(value: float | None, unit: str, text: str) -> None:
    assert units.with_unit(value, unit) == text


def test_every_unit_of_the_catalog_can_be_written() -> None:
    for quantity in CATALOG.values():
        assert units.with_unit(1.0, quantity.unit)
