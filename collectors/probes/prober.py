"""Runs probes at one node: server sides that wait and client sides that measure, one at a time."""

import asyncio
import contextlib
import os
import random
import re
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import psutil
from msgspec import structs

from trntop.check import load as loads
from trntop.check.model import ProbeError, ProbeResult, ProbeSpec, Served, Tool
from trntop.core.text import clean

from .fi_pingpong import FiPingpong
from .perftest import Perftest
from .process import Process
from .tool import Failure, PairTool, Run, check_spec
from .turns import Turns

PORTS = range(21000, 32000)
"""Of server sides: below those that Linux gives to outgoing connections."""
FOLDERS = ("/opt/amazon/efa/bin", "/opt/aws/neuron/bin", "/usr/sbin", "/usr/bin", "/bin")
"""Where the tools are besides the PATH, which is short where a service runs."""
LISTEN_SECONDS = 5.0
"""In which a server side has to listen."""
LEAD_SECONDS = 5.0
"""How much longer a server side lives than its client: until that one is started."""
AGAIN_SECONDS = 0.05
"""Between two attempts to connect."""
PATIENCE_SECONDS = 3.0
"""How long that is attempted for a further run, for which the server side starts anew."""
FIRST_SECONDS = 0.3
"""And for the first: perftest says that it waits a moment before it does."""
PORT_ATTEMPTS = 5
LAST_WORDS_SECONDS = 0.3
"""Which a server side gets to end by itself once its client has ended."""

Wrap = Callable[[Sequence[str]], list[str]]

_TOOLS: dict[Tool, PairTool] = {
    "fi_pingpong": FiPingpong(),
    "ib_send_lat": Perftest("ib_send_lat"),
    "ib_write_bw": Perftest("ib_write_bw"),
}
_ADDRESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,252}", re.ASCII)


@dataclass
class _Server:
    """A server side, from when it is asked for until it is asked about."""

    spec: ProbeSpec
    until: float
    process: Process | None = None
    task: "asyncio.Task[str] | None" = None
    """Gives what it complained of."""
    stopped: asyncio.Event = field(default_factory=asyncio.Event)


class Prober:
    """Runs probes at one node, one at a time; both sides of one with itself are one.

    Args:
        name: of the node.
        wrap: makes of a command one that runs it on the node, such as over ssh.
        path: folders in which programs are looked for there.
        turns: shared with whatever else probes on the node.
    """

    def __init__(
        self,
        name: str,
        wrap: Wrap | None = None,
        path: Sequence[str] | None = None,
        turns: Turns | None = None,
    ) -> None:
        self.name = name
        self._local = wrap is None
        self._wrap: Wrap = list if wrap is None else wrap
        here = os.environ.get("PATH", os.defpath).split(os.pathsep)
        self.path = os.pathsep.join(dict.fromkeys((*(here if path is None else path), *FOLDERS)))
        self._servers: dict[str, _Server] = {}
        self._clients: set[asyncio.Task[list[ProbeResult]]] = set()
        self._turns = turns or Turns()

    async def serve(self, spec: ProbeSpec, asker: str = "") -> Served:
        """Starts the server side of a probe; returns once it listens.

        It ends by itself after its runs, or `LEAD_SECONDS` after `spec.seconds`.

        Args:
            spec: the probe.
            asker: who asks, in words.

        Raises:
            BusyError: another probe is under way here.
            ProbeError: it is none that may be run, or its server side does not start.
        """
        check_spec(spec)
        tool = _TOOLS[spec.tool]
        name = secrets.token_hex(8)
        seconds = spec.seconds + LEAD_SECONDS
        self._turns.take(name, f"serves another probe{_asked(asker)}", seconds)
        server = _Server(spec, time.monotonic() + seconds)
        try:
            port = await self._listen_somewhere(server, tool)
        except BaseException:
            self._turns.give(name)
            raise
        server.task = asyncio.create_task(self._serve_runs(server, tool, port))
        server.task.add_done_callback(lambda _: self._turns.give(name))
        self._forget()
        self._servers[name] = server
        return Served(id=name, port=port, load=self._load)

    async def probe(
        self, spec: ProbeSpec, peer: str, server: Served, asker: str = ""
    ) -> list[ProbeResult]:
        """Runs the client side; if one run fails, the only result is an error.

        Over a link so slow that the runs do not fit into the time, the results are of those that
        do, or of the warm-up alone, and marked as partial.

        Args:
            spec: the probe.
            peer: the node of the server side; its address too, unless `server` tells it.
            server: the server side.
            asker: who asks, in words.

        Raises:
            BusyError: another probe is under way here.
            ProbeError: it is none that may be run.
        """
        check_spec(spec)
        address = server.address or peer
        if not _ADDRESS.fullmatch(address):
            raise ProbeError(f"{clean(address, 64)}: neither an IPv4 address nor a host name")
        if server.port not in PORTS:
            raise ProbeError(f"port {server.port} is not between {PORTS[0]} and {PORTS[-1]}")
        name = secrets.token_hex(8)
        what = f"runs another probe{_asked(asker)}"
        self._turns.take(name, what, spec.seconds, beside=server.id)
        task = asyncio.create_task(self._measure(spec, peer, address, server.port))
        self._clients.add(task)
        try:
            return await task
        finally:
            self._clients.discard(task)
            self._turns.give(name)

    async def end(self, server: Served) -> str:
        """Ends a server side with all it started.

        Returns:
            What it complained of, if anything; also if it had ended before.
        """
        known = self._servers.pop(server.id, None)
        return "" if known is None else await _stop(known, LAST_WORDS_SECONDS)

    async def close(self) -> None:
        """Ends whatever is under way."""
        servers = list(self._servers.values())
        self._servers.clear()
        for task in self._clients:
            task.cancel()
        await asyncio.gather(*self._clients, *map(_stop, servers), return_exceptions=True)

    @property
    def _load(self) -> str:
        """Of this machine; of one that is reached by commands nobody knows it."""
        return loads.told(os.getloadavg()[0], os.cpu_count() or 1) if self._local else ""

    def _forget(self) -> None:
        """Forgets server sides that ended and that nobody asked about."""
        for name, server in list(self._servers.items()):
            if server.task is None or server.task.done():
                del self._servers[name]

    async def _listen_somewhere(self, server: _Server, tool: PairTool) -> int:
        """Starts the first run's server side on a free port."""
        for port in random.sample(PORTS, PORT_ATTEMPTS):
            complaint = await self._listen(server, tool, port, tool.runs(server.spec)[0])
            if complaint is None:
                return port
            if complaint:
                raise ProbeError(f"the server side does not start: {complaint}")
        raise ProbeError(f"{PORT_ATTEMPTS} ports were taken, one after the other")

    async def _listen(
        self, server: _Server, tool: PairTool, port: int, messages: int
    ) -> str | None:
        """Starts the server side of a run; None once it listens, else why it does not.

        A port that is taken is no complaint.
        """
        command = tool.server(server.spec, port, messages)
        process = await self._start(command, server.until - time.monotonic())
        try:
            if await process.says(tool.listens, LISTEN_SECONDS):
                server.process = process
                return None
        except BaseException:
            await process.end()
            raise
        await process.end()
        ended = await process.wait()
        if tool.taken(ended):
            return ""
        return tool.complaint(server.spec, ended) or "it does not say that it listens"

    async def _serve_runs(self, server: _Server, tool: PairTool, port: int) -> str:
        """Serves one run after the other; what the server side complained of."""
        runs = tool.runs(server.spec)
        for index in range(len(runs)):
            if index:
                try:
                    complaint = await self._listen(server, tool, port, runs[index])
                except ProbeError as error:
                    return str(error)
                if complaint is not None:
                    return complaint or "its port was taken meanwhile"
            assert server.process is not None
            if server.stopped.is_set():
                await server.process.end()
            ended = await server.process.wait()
            if server.stopped.is_set() and ended.code is None and index:
                return ""  # the client had enough
            if ended.code != 0:
                return tool.complaint(server.spec, ended)
        return ""

    async def _measure(
        self, spec: ProbeSpec, peer: str, address: str, port: int
    ) -> list[ProbeResult]:
        tool = _TOOLS[spec.tool]
        load = self._load
        until = time.monotonic() + spec.seconds
        warm_up, *counts = tool.runs(spec)
        first = await self._run(tool, spec, address, port, warm_up, until, again=False)
        if isinstance(first, Failure):
            return [_failed(spec, peer, first, load)]
        runs: list[Run] = []
        for messages in counts:
            # Over a slow or lossy link a run would be cut off in its midst, and tell nothing.
            if first.pace * messages > until - time.monotonic():
                break
            run = await self._run(tool, spec, address, port, messages, until, again=True)
            if isinstance(run, Failure):
                return [_failed(spec, peer, run, load)]
            runs.append(run)
        partial = len(runs) < len(counts)
        return [
            structs.replace(result, load=load, partial=partial)
            for result in tool.results(spec, peer, runs or [first])
        ]

    async def _run(
        self,
        tool: PairTool,
        spec: ProbeSpec,
        address: str,
        port: int,
        messages: int,
        until: float,
        *,
        again: bool,
    ) -> Run | Failure:
        """One run of the client side; `again`: its server side may still be starting."""
        command = tool.client(spec, address, port, messages)
        patience = time.monotonic() + (PATIENCE_SECONDS if again else FIRST_SECONDS)
        while True:
            process = await self._start(command, until - time.monotonic())
            gone = False
            try:
                if not await process.over() and self._local:
                    gone = await asyncio.to_thread(_closed, process.pid, port)
            finally:
                await process.end()
            ended = await process.wait()
            now = time.monotonic()
            if not (tool.refused(ended) and now < min(patience, until)):
                return tool.read(spec, ended, messages, f"{address} port {port}", gone=gone)
            await asyncio.sleep(AGAIN_SECONDS)

    async def _start(self, command: Sequence[str], seconds: float) -> Process:
        argv = self._wrap(["env", "LC_ALL=C", f"PATH={self.path}", *command])
        try:
            return await Process.start(argv, max(seconds, 0.1))
        except OSError as error:
            raise ProbeError(f"{argv[0]} cannot be run: {error.strerror}") from error


async def _stop(server: _Server, patience: float = 0.0) -> str:
    assert server.task is not None
    # A side that is about to end by itself says why.
    await asyncio.wait([server.task], timeout=patience)
    server.stopped.set()
    if server.process is not None:
        await server.process.end()
    return await server.task


def _asked(asker: str) -> str:
    return f" asked for by {asker}" if asker else ""


def _failed(spec: ProbeSpec, peer: str, failure: Failure, load: str) -> ProbeResult:
    efa = spec.provider == "efa"
    return ProbeResult(
        tool=spec.tool,
        peer=peer,
        provider=spec.provider,
        card=spec.card if efa else "",
        peer_card=spec.peer_card if efa else "",
        size_bytes=spec.size_bytes,
        load=load,
        error=failure.text,
        guilty=failure.guilty,
    )


def _closed(leader: int, port: int) -> bool:
    """Whether a connection of a process or its children to `port` was closed by the other side.

    A client that polls for messages does not look at its control connection.
    """
    with contextlib.suppress(psutil.Error, OSError):
        process = psutil.Process(leader)
        for one in (process, *process.children(recursive=True)):
            for connection in one.net_connections("tcp"):
                if connection.raddr and connection.raddr.port == port:
                    return connection.status == psutil.CONN_CLOSE_WAIT
    return False
