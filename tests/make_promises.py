"""Writes what this version writes, for later versions to read: `python -m tests.make_promises`.

Once for each version: what is there is a promise, and is not written again. Before a version is
released, its folder may be deleted and written again.
"""

import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from tests.builders import NOON, make_incident, make_node
from tests.make_fixtures import recording
from trntop import __version__
from trntop.catalog import TENSOR_ENGINE
from trntop.cli import main
from trntop.core.settings import Settings
from trntop.remote.wire import FrameEncoder, framed

FOLDER = Path(__file__).parent / "promises"
COMMANDS = {"snapshot": ("snapshot", "--json"), "analysis": ("analyze", "--json")}
"""Names → the commands whose JSON members on the recording are kept, in `NAME-members.txt`."""
RULE = """
[[rules]]
name = "busy_host"
when = "node_cpu_busy_ratio > 0.9"
clear = 0.8
hold = 30
severity = "info"
summary = "{where}: CPU {value}, limit {limit}"
"""


def printed(*arguments: str) -> Any:
    """The JSON that a command prints."""
    out = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with contextlib.redirect_stdout(out):
        main([*arguments])
        out.flush()
    return json.loads(out.buffer.getvalue())  # type: ignore[attr-defined]


def members(value: Any, path: str = "") -> set[str]:
    """The paths of all members, with their types: `nodes[].age_seconds number`."""
    if isinstance(value, dict):
        found = {f"{path} object"}
        return found.union(*(members(each, f"{path}.{name}") for name, each in value.items()))
    if isinstance(value, list):
        return {f"{path} array"}.union(*(members(each, f"{path}[]") for each in value))
    if value is None:
        return {f"{path} null"}
    kind = {bool: "boolean", str: "string"}.get(type(value), "number")
    return {f"{path} {kind}"}


def settings_toml() -> str:
    """Every setting with its default."""
    sections = msgspec.to_builtins(Settings())
    lines = []
    for section, values in sections.items():
        if isinstance(values, dict):
            lines.append(f"[{section}]")
            # JSON's scalars and lists of them are TOML's.
            lines += [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    return "\n".join(lines) + "\n" + RULE


def stream() -> bytes:
    """Two frames of a node, as an agent sends them."""
    encoder = FrameEncoder("trn-000", 1.0)
    messages = []
    for index in range(2):
        preface, frame = encoder.messages(make_node(index))
        messages += [*preface, frame]
    return b"".join(map(framed, messages))


def write(folder: Path) -> None:
    """Writes all files of this version."""
    folder.mkdir(parents=True)
    spec = "sim:efa-degraded?nodes=2&type=trn1.32xlarge"
    path = folder / "recording.jsonl.zst"
    path.write_bytes(
        recording(spec, "simulated: a promise", begin=205, end=245, without=TENSOR_ENGINE)
    )
    for name, command in COMMANDS.items():
        found = sorted(members(printed(*command, str(path))))
        (folder / f"{name}-members.txt").write_text("\n".join(found) + "\n")
    (folder / "settings.toml").write_text(settings_toml())
    (folder / "stream.bin").write_bytes(stream())
    profile = {"name": "model.neff", "uuid": "u1", "hbm_read_bytes": 4e9, "hbm_write_bytes": 2e9,
               "seconds": 0.05, "comm_seconds": 0.01}  # fmt: skip
    (folder / "profiles.json").write_text(json.dumps({"profiles": [profile]}) + "\n")
    incidents = [make_incident(opened_at=NOON), make_incident("hang", closed_at=NOON + 60)]
    lines = [{"at": NOON + 60, "incident": incident} for incident in incidents]
    encoded = [msgspec.json.encode(line, enc_hook=str) + b"\n" for line in lines]
    (folder / "incidents.jsonl").write_bytes(b"".join(encoded))


if __name__ == "__main__":
    target = FOLDER / __version__
    if target.exists():
        sys.exit(f"{target} is there already: a promise is not written again")
    write(target)
