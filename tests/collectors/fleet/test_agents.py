"""Nodes whose agents stream: how they are named, what they are called, and what can go wrong."""

import asyncio
import contextlib
import dataclasses
import itertools
import resource
import socket
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import bcrypt
import msgspec
import pytest

from tests.agents import HEAD, agent, answering, chunked, moved, until, writing
from tests.builders import make_view
from tests.collectors.recording_sink import RecordingSink, running
from tests.serving import Authority
from trntop.catalog import AGENT
from trntop.collectors.fleet import agent as agent_module
from trntop.collectors.fleet import agents, connection
from trntop.collectors.fleet.agent import _query as asked
from trntop.collectors.fleet.target import Target
from trntop.collectors.fleet.watch import Listed, Watch
from trntop.core.errors import SettingsError, UsageError
from trntop.core.model import Cluster, Reading, State
from trntop.core.settings import Fleet, Settings
from trntop.core.source_spec import parse
from trntop.exporters.web.access import Access
from trntop.remote import wire
from trntop.remote.wire import framed
from trntop.session.monitor import Monitor

FLEET = Fleet()
QUICK = Fleet(connect=0.5)
"""For those that are waited for in vain."""


def watch(*addresses: str, fleet: Fleet = FLEET) -> Watch:
    """The collector for addresses; `NAME=ADDRESS` gives a node its name."""
    pairs = [text.rpartition("=") for text in addresses]
    targets = [Target(name or f"n{index}", url) for index, (name, _, url) in enumerate(pairs)]
    return Watch(Listed("test", targets), Settings(fleet=fleet))


def names(text: str) -> list[tuple[str, str]]:
    return [(target.name, target.address) for target in agents.targets(text, Fleet())]


class TestNames:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("http://trn-001:9000", [("trn-001", "http://trn-001:9000")]),
            ("trn-001:9000", [("trn-001", "http://trn-001:9000")]),
            ("HTTPS://trn-001", [("trn-001", "https://trn-001:10042")]),
            ("http://trn-001/behind/proxy/", [("trn-001", "http://trn-001:10042/behind/proxy")]),
            ("http://10.0.0.7:1", [("10.0.0.7", "http://10.0.0.7:1")]),
            ("http://[::1]:9", [("::1", "http://[::1]:9")]),
            ("http://[fd00::1],[fd00::2]", [
                ("fd00::1", "http://[fd00::1]:10042"), ("fd00::2", "http://[fd00::2]:10042"),
            ]),
            ("trn-[08-10]", [(f"trn-{n}", f"http://trn-{n}:10042") for n in ("08", "09", "10")]),
            ("http://trn-[1-2],other:7", [
                ("trn-1", "http://trn-1:10042"), ("trn-2", "http://trn-2:10042"),
                ("other", "http://other:7"),
            ]),
            ("http://a.east.example,a.west.example,b.east.example", [
                ("a.east.example", "http://a.east.example:10042"),
                ("a.west.example", "http://a.west.example:10042"),
                ("b", "http://b.east.example:10042"),
            ]),
            ("http://h:1,h:2", [("h:1", "http://h:1"), ("h:2", "http://h:2")]),
            ("http://h:1,h:1", [("h", "http://h:1")]),
        ],
    )  # fmt: skip
    def test_hosts(self, text: str, expected: list[tuple[str, str]]) -> None:
        assert names(text) == expected

    @pytest.mark.parametrize(
        "text",
        [
            "http://user:hunter2@trn-001", "user:hunter2@trn-001:1", "http://a,u:hunter2@b",
            "http://a/x@hunter2",
        ],
    )  # fmt: skip
    def test_no_password_is_taken_or_shown(self, text: str) -> None:
        with pytest.raises(UsageError, match="password_file") as refused:
            names(text)
        assert "hunter2@" not in str(refused.value)
        assert ":hunter2" not in str(refused.value)

    @pytest.mark.parametrize(
        "text",
        [
            "http://", "http:///v1", "http://a?x", "http://a#x", "http://a:0",
            "http://a:70000", "http://a:b", "http://a\x1b[2J", "http://[1-",
            "javascript:alert(1)", "http://[::1", "http://[0-999999999]", "127.0.0.300:1",
        ],
    )  # fmt: skip
    def test_what_is_none(self, text: str) -> None:
        with pytest.raises(UsageError) as refused:
            names(text)
        assert "\x1b" not in str(refused.value)

    def test_as_a_source(self) -> None:
        for text in ("http://trn-[1-4]:9", "trn-[1-4]", "trn-1:10042"):
            (made,) = agents.collectors(parse(text), Settings())
            assert made.node == text


class TestStream:
    async def test_data_of_an_agent_becomes_a_node(self) -> None:
        sink = RecordingSink()
        async with agent() as fake, running(watch(f"here={fake.address}"), sink):
            await sink.until(lambda: len(sink.readings) == 3)
            fake.tick()
            await sink.until(lambda: len(sink.readings) == 4)
        assert {(reading.node, reading.source) for reading in sink.readings} == {("here", AGENT)}
        assert sink.reasons(State.STARTING) == ["connecting"]
        monitor = Monitor(Settings())
        for reading in sink.readings:
            monitor.feed(reading)
        node = monitor.cluster(sink.readings[-1].time).nodes["here"]
        assert node.state is State.FRESH
        assert node.inventory.facts["agent_name"] == "trn-000"
        assert fake.view is not None
        assert (
            node.frame.columns.keys()
            >= next(iter(fake.view.cluster.nodes.values())).frame.columns.keys()
        )

    async def test_an_aggregator_gives_the_names_of_its_nodes(self) -> None:
        sink = RecordingSink()
        async with agent(make_view(3)) as fake, running(watch(f"relay={fake.address}"), sink):
            await sink.until(lambda: len(sink.readings) == 9)
            assert sink.removed == ["relay"]
            assert {reading.node for reading in sink.readings} == {"trn-000", "trn-001", "trn-002"}
            assert fake.view is not None
            left = dict(list(fake.view.cluster.nodes.items())[1:])
            fake.show(dataclasses.replace(moved(fake.view, 1), cluster=Cluster(0, left)))
            await sink.until(lambda: "trn-000" in sink.removed)

    async def test_a_name_belongs_to_the_first_that_takes_it(self) -> None:
        sink = RecordingSink()
        async with (
            agent(make_view(2)) as first,
            agent(make_view(3)) as second,
            running(watch(f"a={first.address}"), sink),
        ):
            await sink.until(lambda: len(sink.readings) == 6)
            async with running(watch(f"b={second.address}"), sink):
                await sink.until(lambda: len(sink.readings) == 9)
                await asyncio.sleep(0.05)
                assert {reading.node for reading in sink.readings[6:]} == {"trn-002"}
            assert sink.warnings == [
                f"{second.address}: trn-{n:03d} belongs to {first.address}" for n in range(2)
            ]

    async def test_fault_31_an_agent_cannot_take_the_name_of_another_target(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Not even if that one joins later and is unreachable, under any identity."""
        sink = RecordingSink()
        monkeypatch.setattr("trntop.collectors.fleet.watch.JOIN_SECONDS", 0.5)
        async with agent(make_view(2), aggregator=True) as liar:
            async with running(watch(f"a={liar.address}", "trn-001=http://127.0.0.2:9"), sink):
                await sink.until(lambda: sink.warnings)
                await sink.until(lambda: len(sink.readings) == 3)
            assert {reading.node for reading in sink.readings} == {"trn-000"}
            assert sink.warnings == [f"{liar.address}: trn-001 belongs to http://127.0.0.2:9"]
            assert {status.state for status in sink.statuses if status.node == "trn-001"} <= {
                State.STARTING, State.DOWN,
            }  # fmt: skip

    async def test_a_target_whose_name_is_taken_is_reported(self) -> None:
        sink = RecordingSink()
        sink.register("here", "http://other")
        async with agent() as fake, running(watch(f"here={fake.address}"), sink):
            await sink.until(lambda: sink.statuses)
            status = sink.statuses[0]
            assert (status.node, status.state) == (fake.address, State.DOWN)
            assert status.reason == "here belongs to http://other"
            await until(lambda: fake.streams.clients)
            await asyncio.sleep(0.05)
            assert sink.readings == []
            sink.remove("here", "http://other")
            fake.tick(61)  # it announces itself again each minute
            await sink.until(lambda: {reading.node for reading in sink.readings} == {"here"})
            assert sink.removed == ["here", fake.address]

    async def test_one_that_cannot_be_reached_gets_its_name_once_it_is_free(self) -> None:
        sink = RecordingSink()
        sink.register("here", "http://other")
        async with running(watch("here=http://127.0.0.1:9"), sink):
            await sink.until(lambda: len(sink.statuses) > 1)
            assert {status.node for status in sink.statuses} == {"http://127.0.0.1:9"}
            sink.remove("here", "http://other")
            await sink.until(lambda: sink.statuses[-1].node == "here")
            assert sink.removed == ["here", "http://127.0.0.1:9"]

    async def test_an_aggregator_whose_nodes_have_another_owner_is_shown(self) -> None:
        sink = RecordingSink()
        async with (
            agent(make_view(2), aggregator=True) as first,
            agent(make_view(3), aggregator=True) as second,
            running(watch(f"a={first.address}"), sink),
        ):
            await sink.until(lambda: len(sink.readings) == 6)
            second.show(make_view(2))
            async with running(watch(f"b={second.address}"), sink):
                await sink.until(lambda: sink.reasons(State.DOWN))
                assert sink.statuses[-1].node == "b"
                assert sink.reasons(State.DOWN) == [f"trn-001 belongs to {first.address}"]
                assert sink.removed == ["a"]
                # It keeps its name as long as it is shown under it.
                assert sink.register("b", "http://other", AGENT) == second.address
                second.show(moved(make_view(3), 1))
                await sink.until(lambda: len(sink.readings) == 9)
                assert sink.removed == ["a", "b"]

    async def test_an_aggregator_has_the_name_of_its_only_node(self) -> None:
        sink = RecordingSink()
        async with agent(aggregator=True) as fake, running(watch(f"relay={fake.address}"), sink):
            await sink.until(lambda: len(sink.readings) == 3)
            assert {reading.node for reading in sink.readings} == {"trn-000"}
            assert sink.removed == ["relay"]
            fake.show(moved(make_view(0), 1))
            await sink.until(lambda: "trn-000" in sink.removed)

    async def test_nodes_an_aggregator_drops_after_a_restart_are_removed(self) -> None:
        sink = RecordingSink()
        async with (
            agent(make_view(3), aggregator=True) as fake,
            running(watch(f"relay={fake.address}"), sink),
        ):
            await sink.until(lambda: len(sink.readings) == 9)
            fake.show(None)
            await sink.until(lambda: sink.reasons(State.DOWN))
            fake.show(make_view(2))  # a restarted one has no others
            await sink.until(lambda: len(sink.readings) == 15)
            assert sink.removed == ["relay", "trn-002"]

    async def test_an_agent_that_collects_nothing_yet_is_reported(self) -> None:
        sink = RecordingSink()
        async with agent(make_view(0)) as fake, running(watch(f"here={fake.address}"), sink):
            await sink.until(lambda: len(sink.reasons(State.STARTING)) == 2)
            assert sink.statuses[-1].reason == "answers, but collects nothing yet"
            fake.show(moved(make_view(1), 1))
            await sink.until(lambda: len(sink.readings) == 3)
            assert len(sink.statuses) == 2

    async def test_a_restarted_agent_is_received_again(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sink = RecordingSink()
        async with agent() as fake, running(watch(fake.address), sink):
            await sink.until(lambda: len(sink.readings) == 3)
            fake.show(None)
            await sink.until(lambda: sink.reasons(State.DOWN))
            assert sink.reasons(State.DOWN)[0] == "the agent ended the stream"
            await sink.until(lambda: len(sink.reasons(State.DOWN)) > 1)
            assert sink.reasons(State.DOWN)[1] == "HTTP 503: not collecting"
            fake.show(make_view(1))
            await sink.until(lambda: len(sink.readings) == 6)

    async def test_fault_23_its_clock_skew_is_reported(self) -> None:
        monitor = Monitor(Settings())
        view = make_view(1)
        owner = wire.FrameEncoder("n", 1.0)
        for second in range(5):
            now = moved(view, second).cluster.nodes["trn-000"]
            before, frame = owner.messages(now)
            for message in (*before, frame):
                # Five minutes behind, and each message takes a little while.
                arrival = view.time + second + 300 + 0.1 + 0.01 * second
                monitor.feed(Reading("n", AGENT, arrival, message))
        shown = monitor.cluster(arrival + 0.5).nodes["n"]
        assert shown.frame.value("node_clock_offset_seconds") == pytest.approx(-300.1)
        assert shown.state is State.FRESH
        times = [source.time for source in shown.frame.sources if source.time is not None]
        assert max(times) == pytest.approx(arrival, abs=0.1)


@contextlib.asynccontextmanager
async def down(address: str, fleet: Fleet = FLEET) -> AsyncIterator[str]:
    """Why a node at this address is down."""
    sink = RecordingSink()
    async with running(watch(address, fleet=fleet), sink):
        await sink.until(lambda: sink.reasons(State.DOWN))
        yield sink.reasons(State.DOWN)[0]


PAGES = "collectors.fleet.pages.poll"
STREAM = wire.CONTENT_TYPE
IDLE, ENDED = "answers, but collects nothing yet", "the agent ended the stream"


class TestReasons:
    @pytest.mark.parametrize(
        ("answer", "close", "why"),
        [
            (b"", False, "no answer within 0.5 s"),
            (b"H", False, "no answer within 0.5 s"),
            (b"", True, "connection closed by the other side"),
            (b"SSH-2.0-OpenSSH_9.2\r\n", False, "not an HTTP response"),
            (b"220 mail\r\n\r\n", False, "not an HTTP response"),
            (chunked("text/html", b"<!DOCTYPE"), False, "a web page (HTML)"),
            (chunked("application/json", b"{}"), False, "it answers with application/json"),
            (chunked(f"{STREAM}\r\nContent-Encoding: gzip", b""), False, "compressed (gzip)"),
            (b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\n\r\n", False,
             "it redirects (302), which is not followed"),
            (b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n", False, "fleet.user"),
            (b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n", False, "access denied (403)"),
            (b"HTTP/1.1 500 Oh\r\nContent-Type: text/plain\r\n\r\n\x1b[2Jbroken\nx" + b"y" * 9999,
             False, "HTTP 500: \ufffd[2Jbroken"),
            (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 30_000, False, "not an HTTP response"),
            (HEAD + STREAM.encode() + b"\r\n\r\n", False, "no message within 0.5 s"),
            (chunked(STREAM, framed(bytes(50_000))[:9000]), False, "no message within 0.5 s"),
            (chunked(STREAM, b"\xff\xff\xff\xffx"), False, "message of 4,294,967,295 bytes"),
            (chunked(STREAM, framed(b"garbage")), False, "not a message of a trntop agent"),
            (chunked(STREAM, framed(b"\x83\xa4type\xa5frame\xa1v\x07\xa4node\xa1n")), False,
             "the agent has version 7 of the protocol, this trntop 1"),
            (chunked(STREAM, b""), False, "the agent ended the stream"),
            (chunked(STREAM, bytes(4)) + b"zz\r\n", False, "not an HTTP response"),
        ],
    )  # fmt: skip
    async def test_fault_29_something_else_answers(
        self, answer: bytes, close: bool, why: str
    ) -> None:
        fleet = QUICK if "within" in why else FLEET
        async with answering(answer, close=close) as address, down(address, fleet) as reason:
            assert why in reason

    async def test_fault_25_no_response(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as sock:
            port = sock.getsockname()[1]
        async with down(f"http://127.0.0.1:{port}") as reason:
            assert reason == "connection refused: nothing listens there"

    async def test_fault_25_an_unknown_name(self) -> None:
        async with down("http://no-such-host.invalid:1") as reason:
            assert "does not resolve" in reason

    async def test_a_silent_connection_is_closed_and_reopened(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(agent_module, "SILENCE_SECONDS", 0.3)
        monkeypatch.setattr(agent_module, "SILENCE_PERIODS", 0.1)
        (first, held), frame = wire.FrameEncoder("n", 1.0).messages(
            next(iter(make_view(1).cluster.nodes.values()))
        )
        body = b"".join(map(framed, (first, held, frame)))
        sink = RecordingSink()
        async with answering(chunked(STREAM, body)) as address, running(watch(address), sink):
            await sink.until(lambda: len(sink.readings) >= 6)
        assert sink.reasons(State.DOWN)[0].startswith("hung: no message for")

    async def test_fault_26_trickling_bytes_are_no_message(self) -> None:
        head = chunked(STREAM, framed(bytes(3000))[:5])
        async with writing(head, [b"x"] * 200, 0.05) as address, down(address, QUICK) as reason:
            assert reason == "no message within 0.5 s"

    @pytest.mark.parametrize(
        ("identity", "known", "why"),
        [
            ("127.0.0.1", True, ""),
            ("other.example", True, "TLS: the certificate is for another"),
            ("127.0.0.1", False, "TLS: signed by an authority that is not trusted here"),
        ],
    )
    async def test_fault_25_certificates(
        self, tmp_path: Path, identity: str, known: bool, why: str
    ) -> None:
        authority = Authority(tmp_path)
        certificate, key = authority.issue("server", identity)
        web = tmp_path / "web.yml"
        web.write_text(f"tls_server_config: {{cert_file: {certificate}, key_file: {key}}}\n")
        fleet = Fleet(ca_file=str(authority.file) if known else "")
        sink = RecordingSink()
        async with agent(access=Access(web, lambda _: None)) as fake:
            address = f"https://127.0.0.1:{fake.port}"
            async with running(watch(address, fleet=fleet), sink):
                await sink.until(lambda: sink.readings or sink.reasons(State.DOWN))
        assert bool(sink.readings) is not bool(why)
        assert why in "".join(sink.reasons(State.DOWN))

    async def test_tls_is_not_spoken_there(self) -> None:
        async with agent() as fake, down(f"https://127.0.0.1:{fake.port}") as why:
            assert why.startswith("TLS:") or "closed" in why

    async def test_passwords_come_from_a_file(self, tmp_path: Path) -> None:
        hashed = bcrypt.hashpw(b"hunter2", bcrypt.gensalt(4)).decode()
        web, secret = tmp_path / "web.yml", tmp_path / "password"
        web.write_text(f"basic_auth_users: {{ann: {hashed}}}\n")
        secret.write_text("wrong\n")
        fleet = Fleet(user="ann", password_file=str(secret))
        sink = RecordingSink()
        async with (
            agent(access=Access(web, lambda _: None)) as fake,
            running(watch(fake.address, fleet=fleet), sink),
        ):
            await sink.until(lambda: sink.reasons(State.DOWN))
            assert "401" in sink.reasons(State.DOWN)[0]
            secret.write_text("hunter2\n")  # read again with each try
            await sink.until(lambda: sink.readings)
            secret.unlink()
            fake.show(None)
            await sink.until(
                lambda: any(str(secret) in reason for reason in sink.reasons(State.DOWN))
            )
        assert "hunter2" not in repr(sink.statuses)

    def test_secrets_that_do_not_fit(self, tmp_path: Path) -> None:
        empty, binary = tmp_path / "empty", tmp_path / "binary"
        empty.write_text("\n")
        binary.write_bytes(b"\xff\xfe\n")
        for fleet, why in (
            (Fleet(user="ann"), "go together"),
            (Fleet(password_file="x"), "go together"),
            (Fleet(token_file=str(tmp_path / "none")), "No such file"),
            (Fleet(token_file=str(empty)), "first line is empty"),
            (Fleet(token_file=str(binary)), "not allowed in a header"),
            (Fleet(token_file="x", user="ann", password_file="y"), "only one of them"),
            (Fleet(ca_file=str(tmp_path / "none")), "fleet.ca_file"),
            (Fleet(ca_file=str(empty)), "fleet.ca_file"),
            (Fleet(cert_file=str(empty)), "go together"),
            (Fleet(cert_file=str(empty), key_file=str(empty)), "fleet.cert_file"),
        ):
            with pytest.raises(SettingsError, match=why):
                agents.collectors(parse("http://a"), Settings(fleet=fleet))

    async def test_a_token(self, tmp_path: Path) -> None:
        token = tmp_path / "token"
        token.write_text("abc123\nnot this\n")
        assert connection.Credentials(Fleet(token_file=str(token))).header() == "Bearer abc123"


class TestFlood:
    async def test_an_agent_that_sends_too_much_waits(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(agent_module, "MAX_RATE", 50_000)
        (first, held), frame = wire.FrameEncoder("n", 1.0).messages(
            next(iter(make_view(1).cluster.nodes.values()))
        )
        sink = RecordingSink()
        head = chunked(STREAM, b"".join(map(framed, (first, held))))
        async with (
            writing(head, itertools.repeat(framed(frame))) as address,
            running(watch(address), sink),
        ):
            await asyncio.sleep(1.5)
        received = sum(len(reading.data) for reading in sink.readings)
        assert 50_000 < received < 50_000 * 3 + (1 << 18)


async def test_fault_32_a_thousand_nodes_and_few_descriptors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the system allows no more open files, the others have the reason for their absence."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    sink = RecordingSink()
    async with agent() as fake:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
            monkeypatch.setattr(
                "trntop.core.descriptors.reserve", lambda _: "not enough open files"
            )
            targets = [f"n{n}={fake.address}" for n in range(60)]
            async with running(watch(*targets), sink):
                await sink.until(lambda: sink.reasons(State.DOWN) and sink.readings)
                assert sink.warnings == ["not enough open files"]
                assert any("open files" in why for why in sink.reasons(State.DOWN))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _frames_of(sink: RecordingSink, count: int) -> bool:
    """Whether each of ten nodes has had so many frames."""
    heads = [(reading.node, wire.head(reading.data).type) for reading in sink.readings]
    return sum(kind == wire.FRAME for _, kind in heads) == 10 * count


async def test_fault_55_the_parts_of_all_nodes_of_an_agent_have_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nodes beyond it are not shown; those that are go on."""
    node = next(iter(make_view(1).cluster.nodes.values()))
    (schema, _), _ = wire.FrameEncoder("trn-000", 1.0).messages(node, 5)
    monkeypatch.setattr(agent_module, "MAX_SCHEMAS", 3 * len(schema) + 10)
    sink = RecordingSink()
    async with agent(make_view(5), aggregator=True) as fake, running(watch(fake.address), sink):
        await sink.until(lambda: sink.warnings)
        fake.tick()
        shown = lambda: {reading.node for reading in sink.readings}  # noqa: E731
        await sink.until(
            lambda: sum(wire.head(r.data).type == wire.FRAME for r in sink.readings) > 3
        )
    assert shown() > {"trn-000", "trn-001"}
    assert "trn-004" not in shown()
    assert sink.warnings == [f"{fake.address}: its nodes have too many parts; some are not shown"]


async def test_fault_27_failing_nodes_do_not_delay_the_others() -> None:
    """Twenty nodes of which ten fail: the other ten report each tick."""
    sink = RecordingSink()
    half = chunked(STREAM, framed(bytes(50_000))[:9000])
    async with contextlib.AsyncExitStack() as stack:
        failing = [
            await stack.enter_async_context(answering(answer))
            for answer in (b"", half, b"noise\r\n\r\n", chunked("text/html", b"x")) * 2
        ]
        failing += ["http://127.0.0.1:9", "http://127.0.0.1:7"]
        fake = await stack.enter_async_context(agent())
        healthy = [f"w{index}={fake.address}" for index in range(10)]
        addresses = [*(f"i{index}={address}" for index, address in enumerate(failing)), *healthy]
        fleet = Fleet(connect=2)
        await stack.enter_async_context(running(watch(*addresses, fleet=fleet), sink))
        await sink.until(lambda: len(sink.readings) == 30)
        for tick in range(10):
            fake.tick()
            await sink.until(partial(_frames_of, sink, tick + 2))
            await asyncio.sleep(0.06)
        down = lambda: {status.node for status in sink.statuses if status.state is State.DOWN}  # noqa: E731
        await sink.until(lambda: len(down()) >= len(failing))
    assert down() == {f"i{index}" for index in range(10)}
    assert {reading.node for reading in sink.readings} == {f"w{index}" for index in range(10)}


@pytest.mark.parametrize(
    ("columns", "period", "peers", "query"),
    [
        ("auto", 1.0, 500, "?role=aggregator&most=8"),
        ("auto", 1.0, 501, "?role=aggregator&columns=rules&most=8"),
        ("all", 1.0, 501, "?role=aggregator&most=8"),
        ("rules", 10.0, 1, "?role=aggregator&columns=rules&period=10&most=1000"),
        ("auto", 0.5, 4, "?role=aggregator&most=250"),
    ],
)
def test_what_an_aggregator_asks_for(columns: str, period: float, peers: int, query: str) -> None:
    settings = msgspec.convert(
        {"fleet": {"columns": columns}, "collect": {"period": period}}, Settings
    )
    sink = RecordingSink()
    sink.aggregator = True
    assert asked(settings, peers, sink) == query


@pytest.mark.parametrize(("records", "query"), [(False, "?most=250"), (True, "")])
def test_a_recording_has_all_nodes(records: bool, query: str) -> None:
    sink = RecordingSink()
    sink.records = records
    assert asked(Settings(), 4, sink) == query
