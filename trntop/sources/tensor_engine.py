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
_HEADER = ",".join(("xrow_grp", *_COLUMNS))
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
        DecodeError: the payload is not a JSON object of this kind.
    """
    report, problems = tolerant.decode(data, _decoder)
    places: list[tuple[int, int]] = []
    texts: list[str] = []
    for device, name in indices(report.devices):
        cores = report.devices[name]
        for core, core_name in indices(cores):
            places.append((device, core))
            texts.append(cores[core_name] or "")
    cycles = np.full((len(texts), len(_COLUMNS)), np.nan)
    readable = [row for row, text in enumerate(texts) if text]
    found = _cycles([texts[row] for row in readable])
    if found is not None:
        cycles[readable] = found
    else:  # some differ: read each by itself
        for row in readable:
            if (own := _cycles([texts[row]])) is not None:
                cycles[row] = own[0]
    unread = [places[row] for row in np.flatnonzero(np.isnan(cycles).all(axis=1))]
    notes = [*problems, *map(clean, report.errors)]
    notes += [f"neuron{d}/neuron_core{c}: no counters" for d, c in unread[:MAX_NAMED]]
    if len(unread) > MAX_NAMED:
        notes.append(f"and {len(unread) - MAX_NAMED} more cores without counters")
    sample = Sample(columns=_CYCLES.split(cycles), problems=tuple(notes))
    number_cores(sample, places)
    return sample


def _cycles(texts: list[str]) -> Values | None:
    """Cycles, `[core, column]`; None for texts that differ in shape or cannot be read."""
    if not texts:
        return np.empty((0, len(_COLUMNS)))
    cut = [_cut(text) for text in texts]
    header = cut[0][0]
    if any(other != header or not body for other, body in cut):
        return None
    names = [name.strip().lower() for name in header.split(",")]
    try:
        # Numbers with commas between them are JSON, and nothing reads that faster.
        cells = _numbers.decode(f"[{','.join([body for _, body in cut])}]".replace("\n", ","))
    except msgspec.MsgspecError:
        return None
    if len(cells) % (len(names) * len(texts)):
        return None  # a line is incomplete
    table = np.array(cells, dtype=np.float64).reshape(len(texts), -1, len(names))
    # The row group at the start of each line shows that none is missing.
    if len(texts) > 1 and (table[..., 0] != np.arange(table.shape[1])).any():
        return None
    picked = np.full((*table.shape[:2], len(_COLUMNS)), np.nan)
    for index, name in enumerate(_COLUMNS):
        if name in names:
            picked[..., index] = table[..., names.index(name)]
    sums: Values = np.add.reduce(_CYCLES.within(picked), axis=1)
    return sums


def _cut(text: str) -> tuple[str, str]:
    """The header, or the expected one where it is missing, and the lines of numbers."""
    header, _, body = text.strip().partition("\n")
    return (_HEADER, text.strip()) if header[:1].isdigit() else (header, body)


SOURCE = Source(
    name=TENSOR_ENGINE,
    decode=decode,
    role=Role.DEVICE,
    gives="the tensor engines' busy share, which separates compute from waiting",
    origin="`pe_cntrs` of each physical core in the same tree, two reads",
    needs="the Neuron driver of SDK 2.25 or newer",
    without="no TE column, and no ceiling for an estimated communication share",
)
