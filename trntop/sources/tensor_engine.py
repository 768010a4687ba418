r"""Tensor-engine counters: `{"devices": {device: {core: "xrow_grp,mm_active,…\n0,1,2,3\n…"}}}`.

The text is that of the Neuron driver's `pe_cntrs`: a header and one line per row group of the
tensor engine, in cycles since the hardware was reset. A core without a text could not be read.
"""

import msgspec
import numpy as np

from trntop.catalog import TENSOR_ENGINE
from trntop.core.model import Sample
from trntop.core.text import clean
from trntop.sources import tolerant
from trntop.sources.columns import COUNTER, Layout, Number, Values
from trntop.sources.physical import indices, number_cores
from trntop.sources.source import Role, Source

MAX_NAMED = 8
"""Cores without counters that are named."""

_COLUMNS = {"mm_active": "matmul", "wl_active": "weight_load", "idle": "idle"}
_NAMES = ("xrow_grp", *_COLUMNS)
_HEADER = ",".join(_NAMES)
_LEAD = f"{_HEADER}\n"
_CYCLES = Layout(
    (
        tuple(f"physical_core_tensor_engine_{name}_cycles_total" for name in _COLUMNS.values()),
        COUNTER,
    )
)


class _Cores(msgspec.Struct):
    devices: dict[str, dict[str, str | None]] = {}
    errors: list[str] = []


_decoder = msgspec.json.Decoder(_Cores)
_numbers = msgspec.json.Decoder(list[Number])


def decode(data: bytes) -> Sample:
    """One reading of all cores.

    Raises:
        DecodeError: the payload is no JSON object of this kind.
    """
    report, problems = tolerant.decode(data, _decoder)
    places: list[tuple[int, int]] = []
    texts: list[str] = []
    for device, name in indices(report.devices):
        cores = report.devices[name]
        for core, core_name in indices(cores):
            places.append((device, core))
            texts.append(cores[core_name] or "")
    cycles = _read_alike(texts)
    if cycles is None:
        cycles = _read(texts)
    unread = [places[row] for row in np.flatnonzero(np.isnan(cycles).all(axis=1))]
    notes = [*problems, *map(clean, report.errors)]
    notes += [f"neuron{d}/neuron_core{c}: no counters" for d, c in unread[:MAX_NAMED]]
    if len(unread) > MAX_NAMED:
        notes.append(f"and {len(unread) - MAX_NAMED} more cores without counters")
    sample = Sample(columns=_CYCLES.split(cycles), problems=tuple(notes))
    number_cores(sample, places)
    return sample


def _read_alike(texts: list[str]) -> Values | None:
    """Cycles of cores, `[core, column]`, if all have the usual header and the same row groups.

    That is nearly always so, and spares a look at each text.
    """
    bodies = [text.strip().removeprefix(_LEAD) for text in texts]
    table = _table(len(_NAMES), bodies)
    if table is None:
        return None
    groups = bodies[0].count("\n") + 1
    if len(table) != len(bodies) * groups:
        return None
    # The row group in front of each row tells that none is missing.
    if (table[:, 0].reshape(-1, groups) != np.arange(groups)).any():
        return None
    return _sums(table[:, 1:], len(bodies))


def _read(texts: list[str]) -> Values:
    """Cycles of cores, `[core, column]`, whatever their texts look like."""
    alike: dict[tuple[str, int], list[tuple[int, str]]] = {}
    for row, text in enumerate(texts):
        header, body = _cut(text)
        alike.setdefault((header, body.count(",") + 1), []).append((row, body))
    cycles = np.full((len(texts), len(_COLUMNS)), np.nan)
    for (header, size), rows in alike.items():
        cycles[[row for row, _ in rows]] = _read_all(header, size, [body for _, body in rows])
    return cycles


def _cut(text: str) -> tuple[str, str]:
    """The header, as expected when there is none, and the numbers in one line."""
    header, _, body = text.strip().partition("\n")
    if header[:1].isdigit():
        header, body = _HEADER, f"{header}\n{body}".rstrip()
    return header, body.replace("\n", ",")


def _read_all(header: str, size: int, bodies: list[str]) -> Values:
    """Cycles of cores with the same header and so many numbers: `[core, column]`."""
    names = [name.strip().lower() for name in header.split(",")]
    table = None if size % len(names) else _table(len(names), bodies)  # a line is incomplete
    if table is not None:
        picked = np.full((len(table), len(_COLUMNS)), np.nan)
        for index, name in enumerate(_COLUMNS):
            if name in names:
                picked[:, index] = table[:, names.index(name)]
        return _sums(picked, len(bodies))
    if len(bodies) > 1:
        return np.concatenate([_read_all(header, size, [body]) for body in bodies])
    return np.full((1, len(_COLUMNS)), np.nan)


def _table(width: int, bodies: list[str]) -> Values | None:
    """The numbers of several cores in rows of so many, None if they cannot be read."""
    if not bodies or not all(bodies):
        return None
    try:
        # Numbers with commas between them are JSON, and nothing reads that faster.
        cells = _numbers.decode(f"[{','.join(bodies)}]".replace("\n", ","))
    except msgspec.MsgspecError:
        return None
    if len(cells) % width:
        return None
    return np.array(cells, dtype=np.float64).reshape(-1, width)


def _sums(rows: Values, cores: int) -> Values:
    """Cycles by row group, as many for each core, to sums: `[core, column]`."""
    total: Values = np.add.reduce(_CYCLES.within(rows).reshape(cores, -1, len(_COLUMNS)), axis=1)
    return total


SOURCE = Source(
    name=TENSOR_ENGINE,
    decode=decode,
    role=Role.DEVICE,
    gives="the tensor engines' busy share, which separates compute from waiting",
    origin="`pe_cntrs` of each physical core in the same tree, two reads",
    needs="the Neuron driver of SDK 2.25 or newer",
    without="no TE column, and no ceiling for an estimated communication share",
)
