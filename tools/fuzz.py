"""Fuzzes every surface that takes bytes from elsewhere, guided by coverage.

    pip install atheris
    python -m tools.fuzz --minutes 30
    python -m tools.fuzz --minutes 1 wire recording

Each surface runs in a process of its own (libFuzzer, by atheris). It fails on an exception that is
not the surface's error for bad input, on an input that takes 10 s, on 2 GiB of memory, and on an
infinite value. A failing input is kept and named; `--input FILE SURFACE` repeats it.

Half of the inputs are changed as bytes, half as documents (JSON, MessagePack): in their values.
"""

import argparse
import asyncio
import contextlib
import dataclasses
import json
import math
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import msgspec
import numpy as np

from trntop.analysis.rulebook import rules
from trntop.catalog import AGENT, Page
from trntop.cli import incidents as incidents_command
from trntop.collectors import protobuf, traces
from trntop.collectors.fleet import incident_report, pages
from trntop.collectors.fleet.backfill import readings as backfill_readings
from trntop.collectors.fleet.nodes_file import NodesFile
from trntop.collectors.prometheus import client
from trntop.collectors.ssh.answers import Answers
from trntop.collectors.ssh.dump import Dump
from trntop.core import settings as settings_module
from trntop.core import source_spec
from trntop.core.errors import TrntopError
from trntop.core.model import Reading, Sample, View
from trntop.core.settings import Fleet, Settings
from trntop.exporters import document, table
from trntop.exporters.metrics.exposition import Format
from trntop.exporters.metrics.pages import Exposition
from trntop.exporters.web import negotiation, web_config
from trntop.exporters.web.listening import parse_listen
from trntop.recording import envelope, reader
from trntop.recording.framing import Framer
from trntop.recording.reader import open_recording
from trntop.remote import backfill, hostlist, wire
from trntop.remote.judges import Judges
from trntop.session.incident_log import Journal
from trntop.session.monitor import Monitor
from trntop.sources import BY_NAME
from trntop.tui.filter.language import Filter, FilterError

ROOT = Path(__file__).parent.parent
FIXTURES = ROOT / "fixtures"
MAX_BYTES = 16 << 10
NOW = 1.763e9
LIMITS = ("-timeout=10", "-rss_limit_mb=2048", f"-max_len={MAX_BYTES}", "-print_final_stats=1")
CHILD = """
import sys, atheris
with atheris.instrument_imports(include=["trntop"]):
    from tools import fuzz
fuzz.fuzz(atheris, sys.argv[1])
"""
"""Counts the branches of trntop only."""
EDGES: tuple[Any, ...] = (
    0, -1, 1, 1 << 31, 1 << 53, 1 << 63, (1 << 64) - 1, 0.5, -0.0, 1e308, 5e-324, True, None, "",
    "\x1b[31m", "[red]", "NaN", "1e999", "x" * 300, [], {}, [[]], {"": {}},
)  # fmt: skip


class Surface(NamedTuple):
    """What takes input; `feed` may raise `TrntopError`."""

    feed: Callable[[bytes], object]
    seeds: Callable[[], Iterable[bytes]]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz", description=__doc__)
    parser.add_argument("surfaces", nargs="*", metavar="SURFACE", help=f"of {', '.join(SURFACES)}")
    parser.add_argument("--minutes", type=float, default=30.0, help="of all surfaces together")
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "trntop-fuzz",
                        help="directory of corpora and failing inputs")  # fmt: skip
    parser.add_argument("--input", type=Path, help="feed one file to one surface")
    args = parser.parse_args()
    names = args.surfaces or list(SURFACES)
    if unknown := set(names) - SURFACES.keys():
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    if args.input:
        feed(SURFACES[names[0]], args.input.read_bytes())
        return 0
    seconds = max(1, round(60 * args.minutes / len(names)))
    print("| surface | inputs | corpus | failure |\n|---|---|---|---|")
    total, failed = 0, False
    for name in names:
        count, kept, failure = run(name, seconds, args.keep / re.sub(r"\W", "-", name))
        total, failed = total + count, failed or bool(failure)
        print(f"| {name} | {count:,} | {kept:,} | {failure or 'none'} |", flush=True)
    print(f"| all | {total:,} | | |")
    return int(failed)


def run(name: str, seconds: int, folder: Path) -> tuple[int, int, str]:
    """Number of inputs, size of the corpus, and how it failed."""
    corpus = folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(SURFACES[name].seeds()):
        (corpus / f"seed-{number}").write_bytes(seed[:MAX_BYTES])
    command = [
        sys.executable, "-c", CHILD, name, str(corpus), *LIMITS,
        f"-max_total_time={seconds}", f"-artifact_prefix={folder}/",
    ]  # fmt: skip
    log = folder / "log"
    with log.open("w") as file:
        done = subprocess.run(command, cwd=ROOT, stdout=file, stderr=file, check=False)
    text = log.read_text(errors="replace")
    counts = re.findall(r"stat::number_of_executed_units: *(\d+)", text)
    failure = ""
    if done.returncode:
        found = re.findall(r"(?:Test unit written to|artifact_prefix.*to) (\S+)", text)
        failure = f"exit code {done.returncode}: {' '.join(found) or log}"
    return int(counts[-1]) if counts else 0, len(list(corpus.iterdir())), failure


def feed(surface: Surface, data: bytes) -> None:
    with contextlib.suppress(TrntopError):
        surface.feed(data)


def fuzz(atheris: Any, name: str) -> None:
    """Fuzzes one surface; ends the process."""

    surface, chance = SURFACES[name], random.Random()

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        chance.seed(seed)
        changed = _changed_document(data, chance) if chance.random() < 0.5 else None
        return changed or bytes(atheris.Mutate(data, most))

    atheris.Setup(sys.argv[1:], lambda data: feed(surface, data), custom_mutator=mutate)
    atheris.Fuzz()


# Inputs that are changed as documents.


def _changed_document(data: bytes, chance: random.Random) -> bytes | None:
    """With one value changed, of one line of JSON or one message; None where it is neither."""
    lines = data.split(b"\n")
    position = chance.randrange(len(lines))
    bad = (ValueError, RecursionError, TypeError, OverflowError, TrntopError)
    with contextlib.suppress(*bad):
        lines[position] = json.dumps(_changed(json.loads(lines[position]), chance)).encode()
        return b"\n".join(lines)[:MAX_BYTES]
    with contextlib.suppress(*bad):
        messages = wire.FrameReader().feed(data) or [data]
        position = chance.randrange(len(messages))
        decoded = msgspec.msgpack.decode(messages[position], strict=False)
        messages[position] = msgspec.msgpack.encode(_changed(decoded, chance))
        framed = data[:4] != messages[0][:4]
        return b"".join(map(wire.framed, messages) if framed else messages)[:MAX_BYTES]
    return None


def _changed(value: Any, chance: random.Random) -> Any:
    """A copy in which one part is another, missing or doubled."""
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(list(value))
        match chance.randrange(8):
            case 0:
                return {name: part for name, part in value.items() if name != key}
            case 1:
                return {**value, f"{key}{chance.randrange(9)}": value[key]}
        return {**value, key: _changed(value[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.9:
        position = chance.randrange(len(value))
        match chance.randrange(8):
            case 0:
                return value[:position] + value[position + 1 :]
            case 1:
                return value[: position + 1] * 2 + value[position:]
        return [*value[:position], _changed(value[position], chance), *value[position + 1 :]]
    if isinstance(value, bytes) and value:
        changed = bytearray(value)
        changed[chance.randrange(len(changed))] = chance.randrange(256)
        return bytes(changed)
    if isinstance(value, int | float) and chance.random() < 0.5:
        return chance.choice((value + 1, -value, value * 1000, value / 3))
    return chance.choice(EDGES)


# The surfaces.


def _decoder(name: str) -> Callable[[bytes], object]:
    decode = BY_NAME[name].decode

    def decoded(data: bytes) -> None:
        check_sample(decode(data))

    return decoded


def check_sample(sample: Sample) -> None:
    """No value is infinite, and columns are as long as the keys of their entity."""
    for name, column in sample.columns.items():
        assert not np.isinf(column).any(), name
    assert all(math.isfinite(value) for value in sample.deltas.values())


def _source_seeds(name: str) -> Callable[[], Iterable[bytes]]:
    def seeds() -> list[bytes]:
        found: dict[int, bytes] = {}
        for reading in open_recording(FIXTURES / "every-source-1-node.jsonl.zst"):
            if reading.source == name and len(found) < 8:
                found.setdefault(hash(reading.data), _small(reading.data))
        return [*found.values(), *OWN_SEEDS.get(name, ())]

    return seeds


def _small(data: bytes) -> bytes:
    """A payload with only the first parts of each kind, so that most changes matter."""

    def trimmed(value: Any) -> Any:
        if isinstance(value, list):
            return [trimmed(part) for part in value[:2]]
        if isinstance(value, dict):
            alike = len(value) > 2 and all(isinstance(part, dict) for part in value.values())
            alike = alike or all(key.isdecimal() for key in value)
            parts = list(value.items())[: 2 if alike else None]
            return {key: trimmed(part) for key, part in parts}
        return value

    return json.dumps(trimmed(json.loads(data))).encode()


OWN_SEEDS: dict[str, tuple[bytes, ...]] = {
    "pod-resources": (b'{"period":10,"pods":[{"namespace":"a","name":"b","containers":[{"name":"c",'
                      b'"devices":[{"resource":"aws.amazon.com/neuron","ids":["1"]}],"claims":[{'
                      b'"namespace":"a","name":"b","driver":"neuron.aws.com","pool":"p",'
                      b'"device":"neuron-1"}]}]}]}',),
    "kubernetes-node": (b'{"period":30,"labels":{"sagemaker.amazonaws.com/node-health-status":'
                        b'"Schedulable","sagemaker.amazonaws.com/fault-types":"x"}}',),
    "cloudwatch": (b'{"period":60,"seconds":60,"facts":{"instance_id":"i-1"},"metrics":{'
                   b'"node_neuroncore_utilization":{"Average":50,"Minimum":1,"Maximum":99},'
                   b'"node_efa_tx_bytes":{"Sum":1e9},"node_neuron_execution_errors_total":{"Sum":2},'
                   b'"node_neuron_execution_latency":{"Average":0.1}}}',),
    "fleet": (b'{"facts":{"instance_type":"trn2.48xlarge","zone":"us-east-1a"},"period":60}',),
    "probe": (b'{"results":[{"tool":"fi_pingpong","peer":"b","card":"c","size_bytes":64,'
              b'"statistic":"p50","seconds":1.5e-5,"load":"idle","lost":0}]}',),
    "ssh": (b'{"host":"trn-001","period":1}',),
}  # fmt: skip

PAGE = b"""# HELP neuron_hardware_info x
# TYPE neuron_hardware_info gauge
neuron_hardware_info{neuron_device_count="16",instance_type="trn2.48xlarge"} 1
neuroncore_utilization_ratio{neuroncore="3",runtime_tag="7"} 0.5
neuron_runtime_memory_used_bytes{memory_location="host",runtime_tag="7"} 1e9
execution_latency_seconds{percentile="p50",runtime_tag="7"} 0.01
node_amazonefa_tx_bytes{device="rdmap16s27",port="1"} 12345
node_scrape_collector_success{collector="amazonefa"} 1
"""


def _page(data: bytes) -> None:
    for name in pages.kinds(data):
        check_sample(BY_NAME[name].decode(data))


def _views() -> list[View]:
    from trntop.collectors import simulator
    from trntop.session.monitor import play

    simulation = simulator.parse("sim:device-lost?nodes=1&type=trn1.2xlarge&minutes=3&onset=60")
    return list(play(simulator.simulate(simulation, NOW), Monitor(Settings())))


def _messages() -> list[bytes]:
    """A schema, a keyframe and frames, each with its length."""
    encoder, found = wire.FrameEncoder("trn-000", 1.0), list[bytes]()
    for view in _views()[-3:]:
        (node,) = view.cluster.nodes.values()
        changed, frame = encoder.messages(node, 1)
        found += [wire.framed(message) for message in (*changed, frame)]
    return found


def _wire_seeds() -> list[bytes]:
    messages = _messages()
    return [b"".join(messages), *messages, wire.framed(wire.gone("trn-000"))]


def _wire(data: bytes) -> None:
    decoders: dict[str, wire.FrameDecoder] = {}
    for message in wire.FrameReader().feed(data):
        with contextlib.suppress(TrntopError):
            head = wire.head(message)
            view = decoders.setdefault(head.node, wire.FrameDecoder(head.node)).decode(message)
            columns = {} if view is None else view.frame.columns
            assert not any(np.isinf(columns[name]).any() for name in columns)


EXPOSITION = Exposition(rules=rules(Settings().analysis, ()))


def shown(view: View) -> None:
    """All outputs of a view."""
    document.encode(document.snapshot(view))
    table.snapshot_text(view, 100)
    rendered = EXPOSITION.render(view)
    for page in Page:
        rendered.body(page, Format.TEXT)


def _monitor(data: bytes) -> None:
    """Messages of an agent and of an aggregator, to everything that is printed of them."""
    monitor = Monitor(Settings())
    for number, message in enumerate(wire.FrameReader().feed(data)[:8]):
        monitor.feed(Reading("trn-000", AGENT, NOW + number, message))
        monitor.feed(Reading("http://a", "incidents", NOW + number, message))
    shown(monitor.tick(NOW + 9))


def _recorded(data: bytes) -> None:
    """Lines of a recording, to everything that is printed of them."""
    with _file(data) as path:
        monitor, end = Monitor(Settings()), NOW
        for reading in open_recording(path):
            monitor.feed(reading)
            end = reading.time
        shown(monitor.tick(end))


def _recording_seeds() -> list[bytes]:
    lines = (FIXTURES / "neuron-monitor-trn1.2xlarge.jsonl").read_bytes().splitlines(keepends=True)
    found = [b"".join(lines[:2])]
    chosen: dict[str, bytes] = {}
    for reading in open_recording(FIXTURES / "every-source-1-node.jsonl.zst"):
        small = dataclasses.replace(reading, data=_small(reading.data))
        chosen.setdefault(reading.source, envelope.line(small))
    plain = [re.sub(rb',"crc":"\w+"}\n', b"}\n", line) for line in chosen.values()]
    return [*found, *plain, b"".join(line for line in plain if len(line) < 1000)]


@contextlib.contextmanager
def _file(data: bytes, suffix: str = "") -> Any:
    descriptor, name = tempfile.mkstemp(suffix, dir="/dev/shm")
    try:
        os.write(descriptor, data)
        os.close(descriptor)
        yield Path(name)
    finally:
        Path(name).unlink()


def _intact(data: bytes) -> None:
    """No change gives a reading that was not recorded, while the last header has checksums."""
    promised = True

    def parse(line: bytes) -> envelope.Envelope | None:
        nonlocal promised
        found = envelope.parse(line)
        if found is not None and found.recording is not None:
            promised = found.recording.checksums
        return found

    with _file(data) as path, mock.patch.object(reader, "parse", parse):
        recording = open_recording(path)
        if recording.header is None or not recording.header.checksums:
            return
        for reading in recording:
            assert not promised or reading in _checked_readings(), reading


@cache
def _checked_readings() -> frozenset[Reading]:
    readings = list(open_recording(FIXTURES / "every-source-1-node.jsonl.zst"))[:40]
    return frozenset(reading for reading in readings if len(reading.data) < 400)


def _checked_seeds() -> list[bytes]:
    """The whole file, in each compression."""
    import gzip

    import zstandard

    lines = [envelope.line(reading) for reading in sorted(_checked_readings(), key=str)]
    plain = b"".join([envelope.header_line(1.0, ""), *lines])
    return [plain, gzip.compress(plain), zstandard.compress(plain)]


def _history(data: bytes) -> None:
    blocks = [backfill.decode(block) for block in wire.FrameReader().feed(data)]
    monitor = Monitor(Settings())
    for reading in backfill_readings("n", blocks, 0.0, NOW + 60):
        monitor.feed(reading)
    monitor.tick(NOW + 60)


def _history_seeds() -> list[bytes]:
    raw = [message[4:] for message in _messages()]
    return [wire.framed(backfill.pack("trn-000", raw, 1.0))]


def _judges(data: bytes) -> None:
    judges = Judges()
    judges.update(Reading("http://a", "incidents", NOW, data))
    for incident in judges.incidents({"http://a": 1.0}, NOW):
        msgspec.json.encode(incident, enc_hook=str)


def _judge_seeds() -> list[bytes]:
    from trntop.remote import judges

    incidents = [judges.encoded(incident) for view in _views() for incident in view.incidents]
    return list(judges.messages(
        "ab", NOW, NOW - 60, 0.0, aggregated=True, first=True, changed=incidents[-2:], gone={"x"},
        coverage=_views()[-1].coverage,
    ))  # fmt: skip


INCIDENTS = b"""{"judge":"agent","nodes":1,"time":1.763e9,"since":1.7629e9,"judged_from":1.7629e9,
"behind_seconds":null,"simulated":false,"problems":["p"],"incidents":[{"id":"a:b:1","kind":"hang",
"severity":"critical","job":"j","node":"n","component":null,"opened_at":1.7629e9,"closed_at":null,
"detected_at":1.7629e9,"returns":0,"summary":"s","next_step":"n","runbook":"r","evidence":[]}]}
""".replace(b"\n", b" ")


def _incident_report(data: bytes) -> None:
    try:
        report = incident_report.decoded(data)
    except ValueError:
        return
    incidents_command._table("a", report)
    incidents_command._document(report)


def _prometheus(data: bytes) -> None:
    found = client._decoded(data).data
    if found is not None and not isinstance(found, list):
        assert all(math.isfinite(value) for _, value in client.Result(found.result).rows())


def _journal(data: bytes) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = Path(folder) / "j"
        path.write_bytes(data)
        journal = Journal(path, lambda _: None)
        try:
            journal.read()
        finally:
            journal.close()


def _answers(data: bytes) -> None:
    dump = Dump()

    def load(_: object, payload: bytes) -> None:
        with contextlib.suppress(OSError):
            dump.load(payload)
            for path in list(dump.index)[:8]:
                for name in dump.index[path]:
                    dump.at(path + b"/" + name)

    answers = Answers("tag", load)
    middle = len(data) // 2
    for chunk in (data[:middle], data[middle:]):
        answers.feed(chunk)
    answers.text()


def _framer(data: bytes) -> None:
    framer = Framer(1 << 12)
    for position in range(0, len(data), 700):
        framer.feed(data[position : position + 700])
    framer.close()


def _protobuf(data: bytes) -> None:
    with contextlib.suppress(protobuf.WireError):
        for _, value in protobuf.fields(data):
            with contextlib.suppress(protobuf.WireError):
                list(protobuf.fields(value))


def _text(function: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: function(data.decode(errors="replace"))


def _path(function: Callable[[Path], object], suffix: str = "") -> Callable[[bytes], object]:
    def read(data: bytes) -> None:
        with _file(data, suffix) as path:
            function(path)

    return read


def _filter(text: str) -> None:
    with contextlib.suppress(FilterError):
        Filter(text)


def _nodes_file(path: Path) -> None:
    finder = NodesFile(path, Fleet())
    try:
        asyncio.run(finder.find())
    finally:
        finder.close()


def _negotiate(text: str) -> None:
    negotiation.negotiate(text)
    negotiation.accepts_gzip(text)
    negotiation.prefers_json(text)


def _traces(path: Path) -> None:
    for capture in traces.load([path]):
        traces.steps_of(capture)
        traces.total_of(capture)


def _texts(*seeds: str) -> Callable[[], Iterable[bytes]]:
    return lambda: [seed.encode() for seed in seeds]


def _files(*names: str) -> Callable[[], Iterable[bytes]]:
    return lambda: [(FIXTURES / name).read_bytes() for name in names]


SURFACES: dict[str, Surface] = {
    **{
        f"source {name}": Surface(_decoder(name), _source_seeds(name))
        for name in BY_NAME if not name.endswith("-exporter")
    },
    "page": Surface(_page, lambda: [PAGE]),
    "wire": Surface(_wire, _wire_seeds),
    "monitor": Surface(_monitor, lambda: [
        *_wire_seeds()[:1], *(wire.framed(seed) for seed in _judge_seeds())
    ]),
    "history": Surface(_history, _history_seeds),
    "judges": Surface(_judges, _judge_seeds),
    "incidents": Surface(_incident_report, lambda: [INCIDENTS]),
    "recording": Surface(_recorded, _recording_seeds),
    "recording with checksums": Surface(_intact, _checked_seeds),
    "journal": Surface(_journal, lambda: [b'{"at":1.0,"gone":"a"}\n', b'{"at":1.0,"incident":'
        + INCIDENTS[INCIDENTS.index(b'[{"id"') + 1 : -3] + b"}\n"]),
    "prometheus": Surface(_prometheus, _texts(
        '{"status":"success","data":{"resultType":"vector","result":[{"metric":{"node":"a"},'
        '"value":[1.0,"2.5"]}]},"warnings":["w"]}',
        '{"status":"error","errorType":"bad_data","error":"x"}')),
    "framing": Surface(_framer, _files("neuron-monitor-ugly.jsonl")),
    "ssh answers": Surface(_answers, _texts(
        "noise\ntag begin 1 x\n>/sys/a/\nb:1\nc/\ngrep:grep: d: Permission denied\ntag end 1 x\n")),
    "protobuf": Surface(_protobuf, lambda: [b"\x0a\x03abc\x10\x96\x01\x1a\x02\x08\x01"]),
    "settings": Surface(_path(lambda path: settings_module.load(path, {})), _texts(
        '[collect]\nperiod = 2\n[[rules]]\nname = "a"\nquantity = "x"\nabove = 1\n')),
    "web configuration": Surface(_path(web_config.read), _texts(
        "tls_server_config: {cert_file: a, key_file: b}\nbasic_auth_users: {a: $2y$04$x}\n")),
    "list of nodes": Surface(_path(_nodes_file), _texts(
        "trn-[001-016]:10042 # x\nhttps://a:1\nb=http://c\n")),
    "host list": Surface(_text(lambda text: hostlist.expand_all([text])), _texts(
        "trn-[001-016,20]x[1-3],b")),
    "source": Surface(_text(source_spec.parse), _texts(
        "sim:demo?nodes=4", "ssh://ada@trn-[1-3]:22", "prometheus+http://h?match=x", "@f",
        "ec2:tag/a=b")),
    "listen": Surface(_text(parse_listen), _texts("[::1]:10042", "127.0.0.1:1", ":2")),
    "accept header": Surface(_text(_negotiate), _texts(
        "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.3,*/*;q=0.1", "gzip;q=0")),
    "filter": Surface(_text(_filter), _texts("util > 50% and (job:a* or not node=trn-[1-3])")),
    "trace": Surface(_path(_traces, ".json"), _files(
        "torch-profiler-trace.json", "nrt-sys-trace.json")),
}  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
