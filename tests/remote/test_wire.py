"""Messages of agents: what is sent is what is received, and what is damaged is refused."""

import dataclasses
import math
import warnings
from collections.abc import Callable, Set
from functools import reduce
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import make_node
from trntop.catalog import CATALOG, Entity
from trntop.core.errors import DecodeError
from trntop.core.model import Column, Inventory, NodeView
from trntop.remote import wire
from trntop.remote.wire import OFFSET, FrameDecoder, FrameEncoder, FrameReader, framed


def later(view: NodeView, seconds: float, **columns: Column | None) -> NodeView:
    """The node some seconds later, with other columns; None takes one away."""
    kept = {
        name: values
        for name, values in {**view.frame.columns, **columns}.items()
        if values is not None
    }
    frame = dataclasses.replace(view.frame, time=view.frame.time + seconds, columns=kept)
    return dataclasses.replace(view, frame=frame)


def decoded(decoder: FrameDecoder, *messages: bytes) -> NodeView | None:
    view = None
    for message in messages:
        view = decoder.decode(message)
    return view


def sent(view: NodeView) -> tuple[FrameDecoder, NodeView]:
    """A decoder that has received a node, and the result."""
    decoder = FrameDecoder(view.name)
    before, frame = FrameEncoder(view.name, 1.0).messages(view)
    answer = decoded(decoder, *before, frame)
    assert answer is not None
    return decoder, answer


def _sent(view: NodeView) -> Set[str]:
    """The columns that a decoder received."""
    return view.frame.columns.keys() - {OFFSET}


def assert_equal(node: NodeView, other: NodeView) -> None:
    """Whether two views are equal, gauges to the precision of float32."""
    assert node.frame.columns.keys() == _sent(other)
    for name, values in node.frame.columns.items():
        wide = CATALOG[name].kind.value == "counter"
        np.testing.assert_allclose(
            other.frame.columns[name], values, rtol=0 if wide else 1e-6, err_msg=name
        )
    assert node.frame.sources == other.frame.sources
    assert node.frame.reasons == other.frame.reasons
    assert node.frame.phase == other.frame.phase
    assert node.frame.simulated == other.frame.simulated


class TestRoundTrip:
    def test_all_of_a_node(self) -> None:
        view = make_node(3, simulated=True)
        _, answer = sent(view)
        assert_equal(view, answer)
        for field in dataclasses.fields(Inventory):
            if field.name == "version":
                continue
            mine, theirs = (getattr(received.inventory, field.name) for received in (view, answer))
            if isinstance(mine, np.ndarray):
                assert mine.tolist() == theirs.tolist()
            else:
                assert mine == theirs, field.name

    def test_a_node_goes_by_the_name_it_has_here(self) -> None:
        view = make_node(3)
        before, frame = FrameEncoder(view.name, 1.0).messages(view)
        answer = decoded(FrameDecoder("elsewhere"), *before, frame)
        assert answer is not None
        assert answer.name == answer.frame.node == "elsewhere"
        assert answer.inventory.of(Entity.NODE) == ("elsewhere",)

    def test_unchanged_values_are_not_sent_again(self) -> None:
        view = make_node(0)
        encoder, decoder, held = FrameEncoder(view.name, 1.0), FrameDecoder(view.name), b""
        for second in range(12):
            now = later(view, second, node_vcpu_user_ratio=np.array([second / 100]))
            before, frame = encoder.messages(now)
            held = before[1] if len(before) > 1 else held
            answer = decoded(decoder, *before, frame)
            assert answer is not None
            assert_equal(now, answer)
            assert len(held) > 3 * len(frame)

    def test_a_keyframe_is_sent_again_once_frames_have_repeated_as_much(self) -> None:
        view = make_node(0)
        encoder = FrameEncoder(view.name, 1.0)
        sent = []
        for second in range(50):
            # All values change once, one of them each 5 s.
            columns = {name: column + (second >= 10) for name, column in view.frame.columns.items()}
            columns["node_vcpu_user_ratio"] = np.array([second // 5 / 100])
            before, frame = encoder.messages(later(view, second, **columns))
            sent.append((len(before), len(frame)))
        assert [second for second, (messages, _) in enumerate(sent) if messages] == [0, 14]
        assert sent[13][1] > 3 * sent[14][1]

    def test_what_is_held_stays_the_same_object(self) -> None:
        view = make_node(0)
        encoder, decoder = FrameEncoder(view.name, 1.0), FrameDecoder(view.name)
        seen = []
        for second in range(40):
            moved = np.array([max(20, second) / 100])
            before, frame = encoder.messages(later(view, second, node_vcpu_user_ratio=moved))
            answer = decoded(decoder, *before, frame)
            assert answer is not None
            seen.append(answer.frame.columns["node_devices"])
        assert len({id(column) for column in seen[15:]}) == 1

    def test_columns_that_come_and_go(self) -> None:
        view = make_node(0)
        encoder, decoder = FrameEncoder(view.name, 1.0), FrameDecoder(view.name)
        for second in range(20):
            gone = None if second % 3 else np.array([1.0])
            now = later(view, second, node_vcpu_user_ratio=gone)
            before, frame = encoder.messages(now)
            answer = decoded(decoder, *before, frame)
            assert answer is not None
            assert_equal(now, answer)

    def test_another_inventory_is_announced(self) -> None:
        encoder, decoder = FrameEncoder("trn-000", 1.0), FrameDecoder("trn-000")
        small, large = make_node(0, efa=1), make_node(0, efa=4)
        grown = dataclasses.replace(large.inventory, version=small.inventory.version + 1)
        large = dataclasses.replace(large, inventory=grown)
        versions = []
        for view in (small, large, large):
            before, frame = encoder.messages(view)
            answer = decoded(decoder, *before, frame)
            assert answer is not None
            assert_equal(view, answer)
            versions.append(answer.inventory.version)
        assert versions[0] < versions[1] == versions[2]

    def test_a_late_client_gets_the_preface_first(self) -> None:
        view = make_node(0)
        encoder = FrameEncoder(view.name, 1.0)
        for second in range(10):
            _, frame = encoder.messages(later(view, second))
        assert FrameDecoder("late").decode(frame) is None
        answer = decoded(FrameDecoder("late"), *encoder.preface, frame)
        assert answer is not None
        assert _sent(answer) == view.frame.columns.keys()

    def test_a_frame_may_be_lost(self) -> None:
        view = make_node(0)
        encoder, decoder = FrameEncoder(view.name, 1.0), FrameDecoder(view.name)
        for second in range(30):
            now = later(view, second, node_vcpu_user_ratio=np.array([second / 100]))
            before, frame = encoder.messages(now)
            decoded(decoder, *before)
            if second % 4 == 0:
                answer = decoder.decode(frame)
                assert answer is not None
                assert_equal(now, answer)

    @given(st.lists(st.floats(width=32), min_size=4, max_size=4))
    def test_any_number_comes_through_or_is_absent(self, numbers: list[float]) -> None:
        values = np.array(numbers)
        view = later(make_node(0), 0, neuroncore_utilization_ratio=values)
        _, answer = sent(view)
        expected = [n if abs(n) <= wire.MAX_NUMBER else math.nan for n in numbers]
        np.testing.assert_array_equal(
            answer.frame.columns["neuroncore_utilization_ratio"], expected
        )

    def test_fault_33_a_signalling_nan_is_absent_without_a_warning(self) -> None:
        """Warnings are errors in tests; on a terminal they would be drawn into the dashboard."""
        values = np.frombuffer(b"\x01\x00\x80\x7f" * 4, "<f4")
        view = later(make_node(0), 0, neuroncore_utilization_ratio=values)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            _, answer = sent(view)
        assert np.isnan(answer.frame.columns["neuroncore_utilization_ratio"]).all()


class TestFraming:
    @given(
        st.lists(st.binary(max_size=300), max_size=8),
        st.lists(st.integers(1, 64), min_size=1, max_size=6),
    )
    def test_any_cut_gives_the_same_messages(self, messages: list[bytes], cuts: list[int]) -> None:
        stream = b"".join(map(framed, messages))
        deframer, found, index = FrameReader(), [], 0
        while index < len(stream):
            size = cuts[index % len(cuts)]
            found += deframer.feed(stream[index : index + size])
            index += size
        assert found == messages

    def test_a_length_that_is_none(self) -> None:
        with pytest.raises(DecodeError, match="not a trntop agent"):
            FrameReader().feed(b"HTTP/1.1 200 OK\r\n")

    def test_fault_55_no_more_is_kept_than_one_message(self) -> None:
        deframer = FrameReader()
        for _ in range(3000):
            deframer.feed(framed(bytes(2000)))
        assert deframer.kept == 0
        deframer.feed(framed(bytes(5000))[:3000])
        assert deframer.kept == 3000


def damaged(change: Callable[[dict[str, Any]], None]) -> bytes:
    """An announcement that was changed."""
    (first, _), _ = FrameEncoder("trn-000", 1.0).messages(make_node(0))
    parts = msgspec.msgpack.decode(first)
    change(parts)
    return msgspec.msgpack.encode(parts)


class TestHostile:
    def test_another_version_is_named(self) -> None:
        message = damaged(lambda parts: parts.update(v=2))
        for read in (wire.decode, wire.head):
            with pytest.raises(
                DecodeError, match="the agent has version 2 of the protocol, this trntop 1"
            ):
                read(message)

    @pytest.mark.parametrize(
        ("field", "value", "why"),
        [
            ("sizes", [1], "do not match"),
            ("sizes", [-1] * 500, "do not match"),
            ("columns", [], "do not match"),
            ("inventory", [], "inventory"),
            ("inventory", {"node": "x", "keys": {"core": "abc"}}, "inventory"),
            ("inventory", {"node": "x", "core_device": [1, 2, 3]}, "do not match the parts"),
            ("inventory", {"node": "x", "core_device": [2**70]}, "no message"),
            ("inventory", {"node": "x", "core_device": {"a": 1}}, "inventory"),
            ("inventory", reduce(lambda inner, _: [inner], range(500), []), "nested more than 16"),
        ],
    )
    def test_announcements(self, field: str, value: object, why: str) -> None:
        try:
            message = damaged(lambda parts: parts.update({field: value}))
        except OverflowError:
            return  # msgpack has no such number
        with pytest.raises(DecodeError, match=why):
            FrameDecoder("n").decode(message)

    @pytest.mark.parametrize("number", [-1, 1 << 40, "x"])
    @pytest.mark.parametrize("part", ["core_device", "device", "core"])
    def test_fault_55_impossible_numbers_of_parts(self, part: str, number: object) -> None:
        def change(parts: dict[str, Any]) -> None:
            inventory = parts["inventory"]
            (inventory if part == "core_device" else inventory["keys"])[part][0] = number

        with pytest.raises(DecodeError, match=r"device|impossible|inventory"):
            FrameDecoder("n").decode(damaged(change))

    def test_columns_that_are_named_twice(self) -> None:
        def twice(parts: dict[str, object]) -> None:
            columns = parts["columns"]
            assert isinstance(columns, list)
            columns[1] = columns[0]

        with pytest.raises(DecodeError, match="do not match"):
            FrameDecoder("n").decode(damaged(twice))

    def test_unknown_columns_are_left_out(self) -> None:
        view = make_node(0)
        (first, held), frame = FrameEncoder(view.name, 1.0).messages(view)
        known = msgspec.msgpack.decode(first)
        known["columns"][3] = "of_a_later_version"
        answer = decoded(FrameDecoder("n"), msgspec.msgpack.encode(known), held, frame)
        assert answer is not None
        assert len(_sent(answer)) == len(view.frame.columns) - 1

    def test_values_that_do_not_fill_their_columns(self) -> None:
        view = make_node(0)
        encoder = FrameEncoder(view.name, 1.0)
        encoder.messages(view)
        moved = {name: values + 1 for name, values in view.frame.columns.items()}
        _, frame = encoder.messages(later(view, 1, **moved))
        first, held = encoder.preface
        parts = msgspec.msgpack.decode(frame)
        for kind in (1, 2):
            for data in (parts["values"][kind][:-8], parts["values"][kind] + bytes(3)):
                values = list(parts["values"])
                values[kind] = data
                message = msgspec.msgpack.encode({**parts, "values": values})
                with pytest.raises(DecodeError, match="does not match the columns"):
                    decoded(FrameDecoder("n"), first, held, message)

    def test_foreign_text_is_cleaned(self) -> None:
        view = make_node(0, facts={"instance_name": "\x1b]0;owned\x07"}, reason="\x1b[2J")
        _, answer = sent(view)
        texts = [answer.inventory.facts["instance_name"]]
        texts += [source.reason for source in answer.frame.sources]
        assert not any("\x1b" in text for text in texts)

    @settings(max_examples=150, deadline=None)
    @given(st.data())
    def test_fault_55_flipped_bytes_are_refused_or_harmless(self, data: st.DataObject) -> None:
        (first, held), frame = _MESSAGES
        messages = [bytearray(first), bytearray(held), bytearray(frame)]
        for _ in range(data.draw(st.integers(1, 6))):
            message = messages[data.draw(st.integers(0, 2))]
            message[data.draw(st.integers(0, len(message) - 1))] = data.draw(st.integers(0, 255))
        decoder = FrameDecoder("n")
        for message in messages:
            try:
                view = decoder.decode(bytes(message))
            except DecodeError:
                continue
            if view is not None:
                for name, values in view.frame.columns.items():
                    assert len(values) == len(view.inventory.of(CATALOG[name].entity))

    @settings(max_examples=100, deadline=None)
    @given(st.binary(max_size=200))
    def test_any_bytes(self, data: bytes) -> None:
        for read in (wire.decode, wire.head):
            with pytest.raises(DecodeError):
                read(data)


_MESSAGES = FrameEncoder("trn-000", 1.0).messages(make_node(0, devices=1, efa=1))
