import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from trntop.core.errors import DecodeError
from trntop.sources.exporter_page import MAX_BYTES, indexed, read

NAMES = ("a_ratio", "b_total", "c")
LABELS = st.dictionaries(
    st.sampled_from(["x", "y_z", "le", "Q9"]), st.text(max_size=12).filter(str.isprintable)
)
VALUES = st.one_of(
    st.floats(), st.integers(-10, 10).map(float), st.sampled_from([math.nan, math.inf, 1e308])
)


def escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def line(name: str, labels: dict[str, str], value: float, stamp: str = "") -> str:
    pairs = ",".join(f'{key}="{escaped(text)}"' for key, text in labels.items())
    return f"{name}{f'{{{pairs}}}' if pairs else ''} {value!r}{stamp}"


@given(
    st.lists(
        st.tuples(st.sampled_from(NAMES), LABELS, VALUES, st.sampled_from(["", " 1395066363000"])),
        max_size=12,
    )
)
def test_reads_what_the_reference_parser_reads(
    lines: list[tuple[str, dict[str, str], float, str]],
) -> None:
    text = "\n".join(["# HELP c some {text}", *(line(*text) for text in lines)]) + "\n"
    theirs = [
        (sample.name, sample.labels, sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    ]
    page = read(text.encode(), NAMES)
    ours = [
        (name, entry.labels, entry.value)
        for name, series in page.families.items()
        for entry in series
    ]
    assert sorted(map(repr, ours)) == sorted(map(repr, theirs))


@pytest.mark.parametrize(
    "text",
    [
        'c{x="1" 2',
        "c{x=1} 2",
        'c{x="1"y="2"} 2',
        'c{x="1"} two',
        'c{x="1"} 1_000',
        "c",
        'c{x="1',
        'c{x="a"} ',
    ],
)
def test_a_line_that_is_none_is_a_problem_and_spares_the_rest(text: str) -> None:
    page = read(f'{text}\nc{{x="ok"}} 1\n'.encode(), NAMES)
    assert [sample.labels["x"] for sample in page.of("c")] == ["ok"]
    assert len(page.problems) == 1


def test_a_label_cannot_smuggle_in_another() -> None:
    page = read(b'c{x="1\\",neuroncore=\\"5"} 1\nc{x="} 7"} 3\n', NAMES)
    assert [sample.labels for sample in page.of("c")] == [{"x": '1",neuroncore="5'}, {"x": "} 7"}]
    assert [sample.value for sample in page.of("c")] == [1, 3]


def test_problems_are_few_and_clean() -> None:
    page = read(b"c x\x1b]0;PWNED\x07\n" * 1000, NAMES)
    assert len(page.problems) == 16
    assert "\x1b" not in page.problems[0]


def test_indices_are_numbers_below_the_limit() -> None:
    values = ("3", "03", "-1", "4", "x", "", "٣", "99999999999999")
    lines = "".join(f'c{{n="{value}"}} 1\n' for value in values)
    assert [index for index, _ in indexed(read(lines.encode(), NAMES).of("c"), "n", 4)] == [3]


def test_a_page_is_at_most_so_long() -> None:
    with pytest.raises(DecodeError, match="16 MiB"):
        read(b"c 1\n" * (MAX_BYTES // 4 + 1), NAMES)


@given(st.binary(max_size=200))
def test_reads_anything(data: bytes) -> None:
    read(data, NAMES)
