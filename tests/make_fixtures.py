"""Writes the generated files of `fixtures/`: `python -m tests.make_fixtures`.

All of them are made up. The rest of `fixtures/README.md` is kept as it is.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import zstandard

from tests.collectors.simulator.playing import START, play
from trntop.catalog import LOG, NEURON_LS, TENSOR_ENGINE
from trntop.collectors.simulator import parse, simulate
from trntop.core.model import Reading
from trntop.recording import envelope

FOLDER = Path(__file__).parents[1] / "fixtures"


def recording(spec: str, note: str, *, begin: float = 0.0, end: float, without: str = "") -> bytes:
    """A compressed recording of a simulation, from second `begin` up to `end`."""

    def readings() -> Iterator[Reading]:
        for reading in simulate(parse(spec), START):
            if reading.time >= START + end:
                return
            if reading.time >= START + begin and reading.source != without:
                yield reading

    lines = [envelope.header_line(START + begin, note), *map(envelope.line, readings())]
    return zstandard.ZstdCompressor(level=19, write_checksum=True).compress(b"".join(lines))


def efa_degraded() -> bytes:
    """The tensor engines, half of its size, are left out."""
    spec = "sim:efa-degraded?nodes=2&type=trn1.32xlarge"
    note = "simulated: a bad EFA card recovers"
    return recording(spec, note, begin=205, end=320, without=TENSOR_ENGINE)


def every_source() -> bytes:
    """Every source of one node."""
    note = "simulated: every source of a node"
    return recording("sim:healthy?nodes=1&type=trn2.48xlarge", note, end=40)


def neuron_ls() -> list[Any]:
    """The array of `neuron-ls -j -a`."""
    (event,) = play("sim:healthy?nodes=1&type=trn2.48xlarge", NEURON_LS, end=1.0)
    devices: list[Any] = event.data
    return devices


def neuron_ls_object() -> dict[str, Any]:
    """A guess at `neuron-ls --output-format json`: what holds for each device once."""
    devices = neuron_ls()
    instance = {key: devices[0][key] for key in ("instance_type", "instance_id")}
    devices = [{key: each[key] for key in each if key not in instance} for each in devices]
    return {"simulated": True, **instance, "neuron_devices": devices}


def torchtitan() -> str:
    """With the colours it prints."""
    events = play("sim:healthy?nodes=1&type=trn2.48xlarge", LOG, end=60.0)
    lines = [line["text"] for event in events for line in event.data["lines"]]
    lines.insert(0, "[titan] 2025-11-20 11:59:58,112 - root - INFO - Training starts at step 1200.")
    return "".join(f"{line}\n" for line in lines)


TEXTS: Mapping[str, Callable[[], Any]] = {
    "neuron-ls.json": neuron_ls,
    "neuron-ls-output-format-json.json": neuron_ls_object,
    "train-torchtitan.log": torchtitan,
}
"""What a tool prints, as text or as the value of a JSON file."""
RECORDINGS: Mapping[str, Callable[[], bytes]] = {
    "efa-degraded-2-nodes.jsonl.zst": efa_degraded,
    "every-source-1-node.jsonl.zst": every_source,
}


def text(name: str) -> bytes:
    """The content of one of TEXTS."""
    made = TEXTS[name]()
    return (made if isinstance(made, str) else json.dumps(made, indent=1) + "\n").encode()


if __name__ == "__main__":
    for name in TEXTS:
        (FOLDER / name).write_bytes(text(name))
    for name, make in RECORDINGS.items():
        (FOLDER / name).write_bytes(make())
