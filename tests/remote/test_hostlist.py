import pytest
from hypothesis import given
from hypothesis import strategies as st

from trntop.core.errors import UsageError
from trntop.remote.hostlist import MAX_BYTES, MAX_HOSTS, expand_all


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("", []),
        (" , ,\n", []),
        ("trn-001", ["trn-001"]),
        ("ip-10-0-1-2.us-west-2.compute.internal", ["ip-10-0-1-2.us-west-2.compute.internal"]),
        ("10.0.1.2", ["10.0.1.2"]),
        ("a,b c\nd", ["a", "b", "c", "d"]),
        ("trn-[001-003]", ["trn-001", "trn-002", "trn-003"]),
        ("trn-[001-002,020]", ["trn-001", "trn-002", "trn-020"]),
        ("trn-[1-2],gpu[7]", ["trn-1", "trn-2", "gpu7"]),
        ("trn[8-11]", ["trn8", "trn9", "trn10", "trn11"]),
        ("trn[08-11]", ["trn08", "trn09", "trn10", "trn11"]),
        ("trn[99-101]", ["trn99", "trn100", "trn101"]),
        ("trn[098-101]", ["trn098", "trn099", "trn100", "trn101"]),
        ("trn[0-6/3]", ["trn0", "trn3", "trn6"]),
        ("trn[0-7/3]", ["trn0", "trn3", "trn6"]),
        ("r[1-2]n[01-02].x", ["r1n01.x", "r1n02.x", "r2n01.x", "r2n02.x"]),
        ("[1-2]", ["1", "2"]),
        ("[1-2]a", ["1a", "2a"]),
        ("trn[ 1 , 3-4 ]", ["trn1", "trn3", "trn4"]),
        ("trn[1-3],trn2,trn[3-4]", ["trn1", "trn2", "trn3", "trn4"]),
        ("queue1-dy-trn2-[1-2]", ["queue1-dy-trn2-1", "queue1-dy-trn2-2"]),
    ],
)
def test_expands(text: str, hosts: list[str]) -> None:
    assert expand_all([text]) == tuple(hosts)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("trn[1-", "unbalanced bracket in trn[1-"),
        ("trn-1]", "unbalanced bracket in trn-1]"),
        ("a,trn[1-[2]]", "unbalanced bracket"),
        ("trn[]", "empty range in trn[]"),
        ("trn[1,]", "empty range in trn[1,]"),
        ("trn[a-b]", "a-b in trn[a-b] is not a number or a range"),
        ("trn[1-2-3]", "1-2-3 in trn[1-2-3]"),
        ("trn[-1]", "is not a number"),
        ("trn[²]", "is not a number"),
        ("trn[9-1]", "ends before it starts"),
        ("trn[1-9/0]", "at least 1"),
        ("trn[1-016]", "pad the first number with zeros"),
        ("trn[0-9999999999]", "is not a number"),
        ("trn[0-999999999]", "more than 100,000 hosts"),
        ("r[0-999]n[0-999]", "more than 100,000 hosts"),
        ("http://trn", "is not a valid host name"),
        ("-trn", "is not a valid host name"),
        ("trn-", "is not a valid host name"),
        ("trn\x1b1", "is not a valid host name"),
        ("trn;rm", "is not a valid host name"),
        ("tränke", "is not a valid host name"),
        ("a" * 254, "is not a valid host name"),
        ("a" * (MAX_BYTES + 1), "larger than 4 MiB"),
    ],
)
def test_errors_name_the_cause(text: str, error: str) -> None:
    with pytest.raises(UsageError) as caught:
        expand_all([text])
    message = str(caught.value)
    assert error in message
    assert message.isprintable()
    assert len(message) < 300


def test_the_cap_is_for_all_lists_together() -> None:
    half = f"a[1-{MAX_HOSTS // 2}]"
    assert len(expand_all([half, half.replace("a", "b")])) == MAX_HOSTS
    with pytest.raises(UsageError, match="more than"):
        expand_all([half, half.replace("a", "b"), "c"])


@given(
    st.lists(
        st.tuples(st.integers(0, 300), st.integers(0, 12), st.integers(1, 4), st.integers(0, 5)),
        min_size=1,
        max_size=4,
    )
)
def test_ranges_are_ranges(ranges: list[tuple[int, int, int, int]]) -> None:
    parts: list[str] = []
    expected: dict[str, None] = {}
    for first, more, step, width in ranges:
        start = f"{first:0{width}d}"
        parts.append(f"{start}-{first + more:0{len(start)}d}/{step}")
        # The width of a padded beginning is that of all, until a number outgrows it.
        least = len(start) if start.startswith("0") else 0
        numbers = range(first, first + more + 1, step)
        expected |= dict.fromkeys(f"trn{number:0{least}d}" for number in numbers)
    assert expand_all([f"trn[{','.join(parts)}]"]) == tuple(expected)


@given(st.text(alphabet="trn-[]0123,/ \x1bä", max_size=40))
def test_any_text_is_expanded_or_refused(text: str) -> None:
    try:
        hosts = expand_all([text])
    except UsageError:
        return
    assert len(hosts) == len(set(hosts)) <= MAX_HOSTS
    assert all(host.isascii() and "[" not in host for host in hosts)
