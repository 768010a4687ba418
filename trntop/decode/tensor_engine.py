r"""Tensor-engine counters: `{"devices": {device: {core: "xrow_grp,mm_active,…\n0,1,2,3\n…"}}}`.

The text is that of the Neuron driver's `pe_cntrs`: a header and one line per row group of the
tensor engine, in cycles since the hardware was reset. A core without a text could not be read.
"""

import msgspec
import numpy as np

from trntop.decode import tolerant
from trntop.decode.columns import COUNTER, Layout, Number, Values
from trntop.decode.physical import indices, number_cores
from trntop.model import Sample
from trntop.text import clean

MAX_NAMED = 8
"""Cores without counters that are named."""

_COLUMNS = {"mm_active": "matmul", "wl_active": "weight_load", "idle": "idle"}
_HEADER = "xrow_grp,mm_active,wl_active,idle"
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
    texts = {
        (device, core): report.devices[name][core_name]
        for device, name in indices(report.devices)
        for core, core_name in indices(report.devices[name])
    }
    places = list(texts)
    alike: dict[tuple[str, int], list[tuple[int, str]]] = {}
    for row, text in enumerate(texts.values()):
        header, body = _cut(text or "")
        alike.setdefault((header, body.count(",") + 1), []).append((row, body))
    cycles = np.full((len(places), len(_COLUMNS)), np.nan)
    for (header, size), rows in alike.items():
        cycles[[row for row, _ in rows]] = _read_all(header, size, [body for _, body in rows])
    unread = [places[row] for row in np.flatnonzero(np.isnan(cycles).all(axis=1))]
    notes = [*problems, *map(clean, report.errors)]
    notes += [f"neuron{d}/neuron_core{c}: no counters" for d, c in unread[:MAX_NAMED]]
    if len(unread) > MAX_NAMED:
        notes.append(f"and {len(unread) - MAX_NAMED} more cores without counters")
    sample = Sample(columns=_CYCLES.split(cycles), problems=tuple(notes))
    number_cores(sample, places)
    return sample


def _cut(text: str) -> tuple[str, str]:
    """The header, as expected when there is none, and the numbers in one line."""
    header, _, body = text.strip().partition("\n")
    if header[:1].isdigit():
        header, body = _HEADER, f"{header}\n{body}".rstrip()
    return header, body.replace("\n", ",")


def _read_all(header: str, size: int, bodies: list[str]) -> Values:
    """Cycles of cores with the same header and so many numbers: `[core, column]`.

    They are sums over the row groups.
    """
    names = [name.strip().lower() for name in header.split(",")]
    width = len(names)
    try:
        if size % width or not all(bodies):
            raise ValueError("a line is incomplete")
        # Numbers with commas between them are JSON, and nothing reads that faster.
        cells = _numbers.decode(f"[{','.join(bodies)}]")
    except (msgspec.MsgspecError, ValueError):
        if len(bodies) > 1:
            return np.concatenate([_read_all(header, size, [body]) for body in bodies])
        return np.full((1, len(_COLUMNS)), np.nan)
    picked: list[Number] = [None] * (len(cells) // width * len(_COLUMNS))
    for index, name in enumerate(_COLUMNS):
        if name in names:
            picked[index :: len(_COLUMNS)] = cells[names.index(name) :: width]
    cycles = _CYCLES.read_flat(picked)
    total: Values = cycles.reshape(len(bodies), -1, len(_COLUMNS)).sum(axis=1)
    return total
