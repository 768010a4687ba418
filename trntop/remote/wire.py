"""The messages of an agent about a node, in msgpack.

    Schema         the inventory, and the columns of frames; first, on a change, and each minute
    Keyframe       values that rarely change: most of sysfs changes twice a minute
    FrameMessage   one tick: the columns that exist, and the values of those that changed
    NodeRemoved    the agent no longer has the node

Columns are plain numbers: float32 for gauges, float64 for counters and times, which float32 would
round. On a connection each message has its length in front, four bytes, big-endian. A frame needs
the schema whose `layout` and the keyframe whose `held` it names. Frames may be skipped, the others
may not.
"""

import dataclasses
import hashlib
import math
import struct
from collections.abc import Container, Iterable, Iterator, KeysView, Mapping
from functools import lru_cache
from itertools import groupby, islice
from typing import Annotated, Any, TypeVar, cast

import msgspec
import numpy as np
import numpy.typing as npt

from trntop.catalog import CATALOG, Entity, Kind, Provenance
from trntop.core.errors import DecodeError
from trntop.core.model import (
    Column,
    Frame,
    Inventory,
    Key,
    NodeView,
    Phase,
    SourceState,
    Stage,
    State,
    Time,
)
from trntop.core.text import clean
from trntop.sources import BY_NAME

VERSION = 1
"""Messages of another version are rejected with the reason."""
MAX_MESSAGE = 4 << 20
"""Bytes; a longer message is not from trntop."""
MAX_ANNOUNCEMENT = 512 << 10
"""Bytes of a schema; decoded it takes up to a hundred times as much."""
ANNOUNCE_SECONDS = 60.0
"""Interval at which the schema is repeated, so that any part of a recording can be read."""
MAX_PERIOD = 60.0
"""Limit of the seconds between frames that is announced."""
MAX_VALUES = 1 << 18
"""Numbers in one frame."""
MAX_INDEX = 1 << 16
"""Number of a device or core."""
MAX_NUMBER = 1e30
"""Larger numbers are absent; they would make running sums useless."""
MAX_SOURCES = 64
"""Sources of one node."""
MAX_COUNTS = 32
"""Counts of one source."""
MAX_EVENTS = 1024
"""Names of counts that are known to be clean."""
MAX_PLACES = 64
"""Sets of columns whose positions are cached."""
MAX_DEPTH = 16
"""Of an inventory; recursion follows it."""
MAX_SHARED = 256
"""Characters of a text that all nodes share in memory; longer ones are few."""
MAX_SHARED_BYTES = 8192
"""Bytes of a column that all nodes share in memory."""
REST_FRAMES = 3
"""A column that has not changed for so many frames goes into the next keyframe."""
SCHEMA_TAG = "announcement"
FRAME = "frame"
GONE = "gone"
OFFSET = "node_clock_offset_seconds"
CONTENT_TYPE = "application/vnd.trntop.stream"

_LENGTH = struct.Struct(">I")
_Versioned = TypeVar("_Versioned", "Message", "Head")
_Period = Annotated[float, msgspec.Meta(ge=0.0, le=1e9)]


class Schema(msgspec.Struct, tag=SCHEMA_TAG, frozen=True):
    """The parts of a node, and the columns of its frames."""

    v: int
    node: str
    """The agent's name for it; receivers use the address instead."""
    layout: int
    """Counts the different schemas."""
    period: float
    """Seconds between frames."""
    columns: tuple[str, ...]
    """Quantities of frames, in the order of their values."""
    sizes: tuple[int, ...]
    """Number of values of each."""
    wide: tuple[bool, ...]
    """Whether they are float64."""
    inventory: Any
    """An `Inventory`."""
    nodes: int = 1
    """Number of nodes of the agent."""
    aggregator: bool = msgspec.field(default=False, name="relay")
    """Whether they are other machines than the agent's own, so that these names are used."""
    judge: str = ""
    """The run of the aggregator that judges the node, see `trntop.remote.judges`; empty for an
    agent.
    """


class _Source(msgspec.Struct, array_like=True, frozen=True, gc=False):
    name: str
    state: State
    reason: str
    time: Time | None
    period: _Period | None
    counts: dict[str, int]


class _Phase(msgspec.Struct, array_like=True, frozen=True):
    stage: Stage
    since: Time | None
    why: str
    provenance: Provenance


class _Values(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The values of some columns in a row."""

    columns: bytes
    """A bit for each column of the schema, the first in the lowest bit."""
    narrow: bytes
    """float32, little-endian: the gauges."""
    wide: bytes
    """float64, little-endian: the counters and times."""


class Keyframe(msgspec.Struct, tag="held", frozen=True):
    """Values that hold until a frame or the next keyframe changes them."""

    v: int
    node: str
    layout: int
    held: int
    """Counts the keyframes."""
    values: _Values


class FrameMessage(msgspec.Struct, tag=FRAME, frozen=True, gc=False):
    """One tick of one node."""

    v: int
    node: str
    layout: int
    held: int
    """The keyframe with the values of the other columns."""
    time: Time
    """By the agent's clock, like all times in it."""
    present: bytes
    """The columns that exist, a bit for each as in `_Values`; the others are absent."""
    values: _Values
    sources: tuple[_Source, ...]
    simulated: bool = False
    reasons: dict[str, str] = {}
    phase: _Phase | None = None


class NodeRemoved(msgspec.Struct, tag=GONE, frozen=True):
    """The agent no longer has the node."""

    v: int
    node: str


Message = Schema | Keyframe | FrameMessage | NodeRemoved


class Head(msgspec.Struct, frozen=True, gc=False):
    """The type and the node of a message, without the rest."""

    type: str
    """`SCHEMA_TAG`, `held`, `FRAME` or `GONE`."""
    v: int
    node: str
    period: float = 0.0
    """Of a schema, as `nodes` and `aggregator`."""
    nodes: int = 0
    aggregator: bool = msgspec.field(default=False, name="relay")
    time: Time = 0.0
    """Of a frame, as `simulated`."""
    simulated: bool = False


_NONE = np.zeros(1)
_TIMES = frozenset(name for name in CATALOG if name.endswith("_timestamp_seconds"))
_NAMES = {name: name for name in BY_NAME}
"""Names that need no cleaning."""
_clean_events: set[str] = set()
"""Names of counts that need no cleaning."""
_heads = msgspec.msgpack.Decoder(Head)
_decoder = msgspec.msgpack.Decoder(Message)


def gone(node: str) -> bytes:
    return msgspec.msgpack.encode(NodeRemoved(VERSION, node))


def framed(message: bytes) -> bytes:
    """A message with its length in front."""
    return _LENGTH.pack(len(message)) + message


class FrameReader:
    """Cuts a stream into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    @property
    def kept(self) -> int:
        """Bytes of an incomplete message."""
        return len(self._buffer)

    def feed(self, chunk: bytes) -> list[bytes]:
        """The messages that these bytes complete.

        Raises:
            DecodeError: a message exceeds `MAX_MESSAGE`: this is not a stream of trntop.
        """
        buffer = self._buffer
        buffer += chunk
        messages = []
        start = 0
        while len(buffer) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(buffer, start)
            if length > MAX_MESSAGE:
                raise DecodeError(f"message of {length:,} bytes: not a trntop agent")
            end = start + _LENGTH.size + length
            if len(buffer) < end:
                break
            messages.append(bytes(buffer[start + _LENGTH.size : end]))
            start = end
        del buffer[:start]
        return messages


def only(view: NodeView, columns: frozenset[str]) -> NodeView:
    """A view without its other columns."""
    table = view.frame.columns
    kept = {name: table[name] for name in columns & table.keys()}
    return NodeView(view.inventory, dataclasses.replace(view.frame, columns=kept))


class FrameEncoder:
    """Encodes the views of one node.

    Args:
        node: its name.
        period: seconds between its frames.
        aggregator: whether the sender is another machine than the node.
        judge: the run of the sender, if it judges the node as an aggregator.
    """

    def __init__(
        self, node: str, period: float, *, aggregator: bool = False, judge: str = ""
    ) -> None:
        self._node = node
        self._period = period
        self._aggregator = aggregator
        self._judge = judge
        self._names: dict[str, None] = {}
        self._sizes: tuple[int, ...] = ()
        self._version: int | None = None
        self._nodes = 1
        self._layout = 0
        self._announced_at = -ANNOUNCE_SECONDS
        self._before: dict[str, bytes] = {}
        """Column → its values in the newest frame."""
        self._unchanged: dict[str, int] = {}
        """Column → number of frames since its last change."""
        self._held: dict[str, bytes] = {}
        self._holds = 0
        self._resting = self._repeated = 0
        """Bytes of the next keyframe, and those in frames that it would have spared so far."""
        self.preface = (b"", b"")
        """The schema and the keyframe that a new client needs before the next frame."""

    def messages(self, view: NodeView, nodes: int = 1) -> tuple[tuple[bytes, ...], bytes]:
        """The messages of a view: a new schema and keyframe if needed, and the frame.

        Args:
            view: the node.
            nodes: number of nodes of the agent.
        """
        inventory, frame = view.inventory, view.frame
        now = frame.time
        if not frame.columns.keys() <= self._names.keys():
            # Columns stay in the layout: one that comes and goes costs a bit.
            self._names.update(dict.fromkeys(name for name in frame.columns if name in CATALOG))
        columns = self._encoded(frame)
        sizes = tuple(len(inventory.of(CATALOG[name].entity)) for name in self._names)
        # A node that was removed and is back counts its versions from the start.
        changed = (inventory.version, sizes, nodes) != (self._version, self._sizes, self._nodes)
        due = changed or not 0 <= now - self._announced_at < ANNOUNCE_SECONDS
        if changed:
            self._layout += 1
            self._version, self._sizes, self._nodes = inventory.version, sizes, nodes
        # A new keyframe takes no more than what its absence has cost.
        if due or 0 < self._resting <= self._repeated:
            self._announced_at = now if due else self._announced_at
            self._hold(columns, REST_FRAMES * (not changed))
            first = self._schema(inventory) if due else self.preface[0]
            self.preface = (first, self._hold_message())
            before: tuple[bytes, ...] = self.preface if due else self.preface[1:]
        else:
            before = ()
        return before, self._frame(frame, columns)

    def _encoded(self, frame: Frame) -> dict[str, bytes]:
        """The values of a frame as they are sent; counts what does not change."""
        with np.errstate(over="ignore"):
            columns = {
                name: frame.columns[name].astype("<f8" if is_wide(name) else "<f4").tobytes()
                for name in self._names
                if name in frame.columns
            }
        before, unchanged, held = self._before, self._unchanged, self._held
        self._resting = 0
        for name, values in columns.items():
            count = unchanged[name] = (
                unchanged.get(name, 0) + 1 if before.get(name) == values else 0
            )
            if count >= REST_FRAMES:
                self._resting += len(values)
                if held.get(name) != values:
                    self._repeated += len(values)
        self._before = columns
        return columns

    def _hold(self, columns: dict[str, bytes], frames: int) -> None:
        """Starts a keyframe of the columns unchanged for so many frames."""
        self._held = {
            name: values for name, values in columns.items() if self._unchanged[name] >= frames
        }
        self._holds += 1
        self._repeated = 0

    def _schema(self, inventory: Inventory) -> bytes:
        schema = Schema(
            v=VERSION,
            node=inventory.node,
            layout=self._layout,
            period=self._period,
            columns=tuple(self._names),
            sizes=self._sizes,
            wide=tuple(map(is_wide, self._names)),
            inventory=inventory,
            nodes=self._nodes,
            aggregator=self._aggregator,
            judge=self._judge,
        )
        return msgspec.msgpack.encode(schema, enc_hook=_plain)

    def _hold_message(self) -> bytes:
        message = Keyframe(VERSION, self._node, self._layout, self._holds, self._values(self._held))
        return msgspec.msgpack.encode(message)

    def _frame(self, frame: Frame, columns: dict[str, bytes]) -> bytes:
        held = self._held
        message = FrameMessage(
            v=VERSION,
            node=frame.node,
            layout=self._layout,
            held=self._holds,
            time=frame.time,
            present=self._bits(columns),
            values=self._values(
                {name: data for name, data in columns.items() if held.get(name) != data}
            ),
            sources=tuple(
                _Source(
                    source.name,
                    source.state,
                    source.reason,
                    source.time,
                    source.period,
                    dict(source.counts),
                )
                for source in frame.sources
            ),
            simulated=frame.simulated,
            reasons=dict(frame.reasons),
            phase=_encode_phase(frame.phase),
        )
        return msgspec.msgpack.encode(message)

    def _values(self, columns: dict[str, bytes]) -> _Values:
        parts: tuple[list[bytes], list[bytes]] = [], []
        for name in self._names:
            if name in columns:
                parts[is_wide(name)].append(columns[name])
        return _Values(self._bits(columns), b"".join(parts[0]), b"".join(parts[1]))

    def _bits(self, columns: Container[str]) -> bytes:
        bits = 0
        for index, name in enumerate(self._names):
            if name in columns:
                bits |= 1 << index
        return bits.to_bytes((len(self._names) + 7) // 8, "little")


@dataclasses.dataclass(frozen=True, slots=True)
class _Places:
    """Positions of the values of some columns in a message, without unknown columns.

    As there are hundreds of columns, all columns of one size are cut in one operation.
    """

    where: Mapping[str, tuple[int, int]]
    """Column → its table, and its row there."""
    places: tuple[npt.NDArray[np.intp], ...]
    """For each size the indices in the message, `[column, part]`; narrow values come first."""
    ends: tuple[int, int]
    """Number of values, narrow and wide, including unknown columns."""
    names: Mapping[str, None]
    """The columns, and with any, that of the clock, which is computed here."""

    def tables(self, values: _Values) -> list[npt.NDArray[np.float64]]:
        """The values of all columns of one size, `[column, part]`, for each size.

        Raises:
            DecodeError: the number of values is wrong.
        """
        if (4 * self.ends[0], 8 * self.ends[1]) != (len(values.narrow), len(values.wide)):
            raise DecodeError("the number of values does not match the columns")
        narrow, wide = np.frombuffer(values.narrow, "<f4"), np.frombuffer(values.wide, "<f8")
        with np.errstate(invalid="ignore"):  # a signalling NaN
            numbers = np.concatenate((narrow, wide), dtype=np.float64)
        # Impossible values are absent.
        numbers[~(np.abs(numbers) <= MAX_NUMBER)] = np.nan
        return [numbers[place] for place in self.places]


def _places(found: Mapping[str, range], ends: tuple[int, int]) -> _Places:
    names = sorted(found, key=lambda name: len(found[name]))
    where: dict[str, tuple[int, int]] = {}
    tables = []
    for number, (_, group) in enumerate(groupby(names, lambda name: len(found[name]))):
        rows = list(group)
        where |= {name: (number, row) for row, name in enumerate(rows)}
        tables.append(np.array([found[name] for name in rows], np.intp))
    shown = [*names, OFFSET] if names else []
    return _Places(where, tuple(tables), ends, dict.fromkeys(shown))


class _Columns(Mapping[str, Column]):
    """The columns of a frame, each cut out of its table on access: most are never read.

    Columns of one size share memory, so keeping the node's columns does not keep those of cores.
    """

    __slots__ = ("_held", "_made", "_names", "_tables", "_where")

    def __init__(
        self,
        names: Mapping[str, None],
        moved: _Places,
        tables: list[npt.NDArray[np.float64]],
        held: Mapping[str, Column],
        ahead: float,
    ) -> None:
        self._names = names
        self._where = moved.where
        self._tables = tables
        self._held = held
        self._made: dict[str, Column] = {}
        if names:
            # An aggregator reports the node's offset from its own clock.
            offset = self.get(OFFSET) if OFFSET in moved.where or OFFSET in held else _NONE
            self._made[OFFSET] = offset + ahead
            for name in _TIMES & names.keys():
                self._made[name] = cast(Column, self.get(name)) - ahead

    def get(self, key: str, default: Any = None) -> Any:
        """As of a dict; the usual access."""
        column = self._made.get(key)
        if column is None:
            if key not in self._names:
                return default
            if (place := self._where.get(key)) is None:
                return self._held[key]
            column = self._made[key] = self._tables[place[0]][place[1]]
        return column

    def keys(self) -> KeysView[str]:
        return self._names.keys()

    def __getitem__(self, key: str) -> Column:
        # As `get`, which costs a call more: rules look up each column of each node.
        column = self._made.get(key)
        if column is None:
            if (place := self._where.get(key)) is None or key not in self._names:
                if key not in self._names:
                    raise KeyError(key)
                return self._held[key]
            column = self._made[key] = self._tables[place[0]][place[1]]
        return column

    def __contains__(self, key: object) -> bool:
        return key in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class _Layout:
    """The columns of a schema; shared by all nodes with the same columns."""

    def __init__(
        self, names: tuple[str, ...], sizes: tuple[int, ...], wide: tuple[bool, ...]
    ) -> None:
        self._columns = tuple(zip(names, sizes, wide, strict=True))
        self._places: dict[bytes, _Places] = {}

    def places(self, present: bytes) -> _Places:
        """The positions of the columns whose bits are set.

        Raises:
            DecodeError: the number of bits does not match the columns.
        """
        if (known := self._places.get(present)) is not None:
            return known
        if len(present) != (len(self._columns) + 7) // 8:
            raise DecodeError("the columns of a frame do not match the schema")
        there = [
            column
            for index, column in enumerate(self._columns)
            if present[index >> 3] >> (index & 7) & 1
        ]
        found = {}
        ends = [0, sum(size for _, size, wide in there if not wide)]
        narrow = ends[1]
        for name, size, wide in there:
            if name in CATALOG:
                found[name] = range(ends[wide], ends[wide] + size)
            ends[wide] += size
        places = _places(found, (narrow, ends[1] - narrow))
        if len(self._places) >= MAX_PLACES:
            self._places.clear()
        self._places[present] = places
        return places


@dataclasses.dataclass(frozen=True, slots=True)
class _Resting:
    """The newest keyframe."""

    number: int
    bits: int
    """A bit for each column."""
    columns: dict[str, Column]


class FrameDecoder:
    """Decodes the messages about one node.

    Args:
        node: its name here, which can differ from the agent's.
    """

    def __init__(self, node: str) -> None:
        self.node = node
        self.period: float | None = None
        """Seconds between frames, by the schema."""
        self.judge = ""
        """The aggregator's run that judges the node, by the schema."""
        self.aggregator = False
        """Whether the sender is another machine than the node, by the schema."""
        self._size, self._digest = 0, b""
        """Of the newest schema."""
        self._number = 0
        """Layout of the newest schema."""
        self._layout: _Layout | None = None
        self._inventory = Inventory(node=node)
        self._held: _Resting | None = None

    def decode(self, data: bytes, ahead: float = 0.0) -> NodeView | None:
        """The view of a frame; None for other messages, and without its schema and keyframe.

        Args:
            data: the message.
            ahead: seconds that the agent's clock is ahead, subtracted from times.

        Raises:
            DecodeError: the message is not valid, of another version, or does not match the schema.
        """
        if len(data) == self._size and _digest(data) == self._digest:
            return None  # the schema, repeated
        message = decode(data)
        if isinstance(message, Schema):
            self._set_schema(message, data)
            return None
        layout = self._layout
        if layout is None or isinstance(message, NodeRemoved) or message.layout != self._number:
            return None
        if isinstance(message, Keyframe):
            places = layout.places(message.values.columns)
            columns = self._known(places, places.tables(message.values))
            self._held = _Resting(message.held, _bits(message.values.columns), columns)
            return None
        if self._held is None or message.held != self._held.number:
            return None
        return NodeView(self._inventory, self._frame(message, layout, self._held, ahead))

    def _set_schema(self, message: Schema, data: bytes) -> None:
        self._layout = self._held = None
        self._size, self._digest = 0, b""
        self._inventory = _inventory(message, self.node, self._inventory.version + 1)
        self._layout = _layout_of(message.columns, message.sizes, message.wide)
        self._number = message.layout
        self.judge, self.aggregator = message.judge, message.aggregator
        self.period = message.period if 0 < message.period < math.inf else None
        self._size, self._digest = len(data), _digest(data)

    def _known(self, places: _Places, tables: list[npt.NDArray[np.float64]]) -> dict[str, Column]:
        """The columns; unchanged ones are the same objects as before."""
        before = {} if self._held is None else self._held.columns
        known = {}
        for name, (table, row) in places.where.items():
            data, old = tables[table][row].tobytes(), before.get(name)
            known[name] = old if old is not None and old.tobytes() == data else _column(data)
        return known

    def _frame(self, message: FrameMessage, layout: _Layout, held: _Resting, ahead: float) -> Frame:
        values, present = message.values, message.present
        moved = layout.places(values.columns)
        if len(present) != len(values.columns):
            raise DecodeError("the columns of a frame do not match the schema")
        there = (held.bits | _bits(values.columns)) & _bits(present)
        names = layout.places(there.to_bytes(len(present), "little")).names
        columns = _Columns(names, moved, moved.tables(values), held.columns, ahead)
        sources = [
            SourceState(
                _NAMES.get(source.name) or clean(source.name),
                source.state,
                source.reason and clean(source.reason),
                source.time and source.time - ahead,
                source.period,
                _cleaned_counts(source.counts),
            )
            for source in message.sources[:MAX_SOURCES]
        ]
        reasons = {name: clean(why) for name, why in message.reasons.items() if name in CATALOG}
        return Frame(
            self.node,
            message.time - ahead,
            columns,
            tuple(sources),
            message.simulated,
            reasons,
            _decode_phase(message.phase, ahead),
        )


def decode(data: bytes) -> Message:
    """One message.

    Raises:
        DecodeError: it is not a message, or of another version.
    """
    message: Message = _decoded(_decoder, data)
    return message


def head(data: bytes) -> Head:
    """The head of a message; the rest may be damaged.

    Raises:
        DecodeError: as of `decode`.
    """
    found: Head = _decoded(_heads, data)
    if found.type == SCHEMA_TAG and len(data) > MAX_ANNOUNCEMENT:
        raise DecodeError(f"schema of {len(data):,} bytes")
    return found


def _decoded(decoder: msgspec.msgpack.Decoder[_Versioned], data: bytes) -> _Versioned:
    try:
        message = decoder.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise DecodeError(f"not a message of a trntop agent: {clean(str(error))}") from error
    if message.v != VERSION:
        raise DecodeError(
            f"the agent has version {message.v} of the protocol, this trntop {VERSION}"
        )
    return message


def _inventory(message: Schema, node: str, version: int) -> Inventory:
    """The inventory of a schema, with the node's name here."""
    names, sizes = message.columns, message.sizes
    if not len(set(names)) == len(names) == len(sizes) == len(message.wide):
        raise DecodeError("the columns and sizes of a schema do not match")
    if any(size < 0 for size in sizes) or sum(sizes) > MAX_VALUES:
        raise DecodeError("impossible sizes in a schema")
    try:
        found = msgspec.convert(_cleaned(message.inventory), Inventory, dec_hook=_array)
    except (msgspec.ValidationError, ValueError, TypeError, OverflowError) as error:
        raise DecodeError(f"inventory: {clean(str(error))}") from error
    for name, size in zip(names, sizes, strict=True):
        if name in CATALOG and len(found.of(CATALOG[name].entity)) != size:
            raise DecodeError(
                f"{clean(name, 64)}: {size} values do not match the parts of the node"
            )
    for entity, owner in ((Entity.CORE, "core_device"), (Entity.PHYSICAL_CORE, "physical_device")):
        owners = getattr(found, owner).tolist()
        if len(owners) not in (0, len(found.of(entity))) or not _are_indices(owners):
            raise DecodeError(f"{owner} needs one device for each core")
    for entity in (Entity.DEVICE, Entity.CORE, Entity.PHYSICAL_CORE):
        if not _are_indices(found.of(entity)):
            raise DecodeError(f"impossible {entity} in a schema")
    facts = dict(found.facts)
    if (name := _shared(message.node)) != node:
        facts["agent_name"] = name
    return dataclasses.replace(found, node=node, version=version, facts=facts)


def _are_indices(keys: Iterable[Key]) -> bool:
    """Whether these can be numbers of devices and cores: arrays are made of that size."""
    return all(isinstance(key, int) and 0 <= key < MAX_INDEX for key in keys)


@lru_cache(maxsize=64)
def _layout_of(names: tuple[str, ...], sizes: tuple[int, ...], wide: tuple[bool, ...]) -> _Layout:
    return _Layout(names, sizes, wide)


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _column(data: bytes) -> Column:
    """A column, one object for equal ones."""
    return _same_column(data) if len(data) <= MAX_SHARED_BYTES else np.frombuffer(data, np.float64)


@lru_cache(maxsize=1 << 13)
def _same_column(data: bytes) -> Column:
    return np.frombuffer(data, np.float64)


def _cleaned_counts(counts: dict[str, int]) -> dict[str, int]:
    if len(counts) <= MAX_COUNTS and _clean_events.issuperset(counts):
        return counts
    for event in counts:
        if len(event) <= MAX_SHARED and len(_clean_events) < MAX_EVENTS and clean(event) == event:
            _clean_events.add(event)
    return {_shared(event): count for event, count in islice(counts.items(), MAX_COUNTS)}


def _shared(text: str) -> str:
    """Cleaned text, one object for equal texts."""
    return _same_text(text) if len(text) <= MAX_SHARED else clean(text)


@lru_cache(maxsize=1 << 16)
def _same_text(text: str) -> str:
    return clean(text)


@lru_cache(maxsize=1024)
def is_wide(name: str) -> bool:
    """Whether float32 would round a quantity's values."""
    return CATALOG[name].kind is Kind.COUNTER or name.endswith("_timestamp_seconds")


def _bits(columns: bytes) -> int:
    """A set of columns as one number."""
    return int.from_bytes(columns, "little")


def _encode_phase(phase: Phase | None) -> _Phase | None:
    if phase is None:
        return None
    return _Phase(phase.stage, phase.since, phase.why, phase.provenance)


def _decode_phase(phase: _Phase | None, ahead: float) -> Phase | None:
    if phase is None:
        return None
    since = phase.since and phase.since - ahead
    return Phase(phase.stage, since, clean(phase.why), phase.provenance)


def _plain(value: object) -> object:
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise NotImplementedError(type(value))


def _array(kind: type, value: Any) -> object:
    return np.asarray(value, np.int64)


def _cleaned(value: Any, depth: int = 0) -> Any:
    """Cleans untrusted text in a tree of plain values.

    Raises:
        DecodeError: it is nested too deeply.
    """
    if isinstance(value, str):
        return _shared(value)
    if depth > MAX_DEPTH:
        raise DecodeError(f"inventory nested more than {MAX_DEPTH} deep")
    if isinstance(value, dict):
        return {_cleaned(key, depth + 1): _cleaned(each, depth + 1) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(each, depth + 1) for each in value]
    return value
