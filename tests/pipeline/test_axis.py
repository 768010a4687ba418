import pytest

from trntop.pipeline.axis import Axis, PartAxis


def test_members_by_key() -> None:
    axis = Axis(["a", "b"])
    assert len(axis) == 2
    assert axis.key(1) == "b"
    assert axis.find("b") == 1
    assert axis.find("c") is None


def test_indices_on_an_older_axis() -> None:
    old = Axis(["a", "b", "c"])
    assert Axis(["c", "new", "a"]).indices_in(old).tolist() == [2, -1, 0]
    assert Axis([]).indices_in(old).tolist() == []
    assert old.indices_in(Axis()).tolist() == [-1, -1, -1]


def parts(*keys: tuple[int, ...], nodes: str = "abc") -> PartAxis:
    return PartAxis(Axis(nodes[: len(keys)]), keys)


def test_parts_node_by_node() -> None:
    axis = parts((0, 1), (), (7,))
    assert len(axis) == 3
    assert axis.owner.tolist() == [0, 0, 2]
    assert axis.starts.tolist() == [0, 2, 2, 3]
    assert [axis.key(index) for index in range(3)] == [("a", 0), ("a", 1), ("c", 7)]
    for index in range(3):
        assert axis.find(axis.key(index)) == index


@pytest.mark.parametrize("key", ["a", ("a", 5), ("b", 0), ("z", 0), None])
def test_what_is_no_part(key: object) -> None:
    assert parts((0, 1), (), (7,)).find(key) is None  # type: ignore[arg-type]


def test_parts_on_an_older_axis() -> None:
    old = parts((0, 1, 2), (5, 6), nodes="ab")
    # A device of `a` is gone, `x` is new, `b` is as it was but has another index.
    new = PartAxis(Axis("axb"), [(0, 2, 3), (5,), (5, 6)])
    assert new.indices_in(old).tolist() == [0, 2, -1, -1, 3, 4]
    assert old.indices_in(old).tolist() == [0, 1, 2, 3, 4]
    empty = PartAxis(Axis(), ())
    assert len(empty) == 0
    assert old.indices_in(empty).tolist() == [-1] * 5
    assert empty.indices_in(old).tolist() == []
