"""Runs probes at one node: server sides that wait and client sides that measure, one at a time."""

import asyncio
import os
import random
import re
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from msgspec import structs

from trntop.check import load as loads
from trntop.check.model import ProbeError, ProbeResult, ProbeServer, ProbeSpec
from trntop.core.text import clean

from . import fi_pingpong
from .process import Process
from .run import Failure, Run, blank_result, check_spec, results
from .turns import Turns

PORTS = range(21000, 32000)
"""Of server sides: below the ports that Linux gives to outgoing connections."""
FOLDERS = ("/opt/amazon/efa/bin", "/opt/aws/neuron/bin", "/usr/sbin", "/usr/bin", "/bin")
"""Directories of the tools besides the PATH, which is short in a service."""
LISTEN_SECONDS = 5.0
"""Within which a server side must listen."""
LEAD_SECONDS = 5.0
"""A server side lives longer than its client by this, the time until that one is started."""
AGAIN_SECONDS = 0.05
"""Between two attempts to connect."""
RETRY_SECONDS = 3.0
"""Duration of the attempts for a run after the first, for which the server side is restarted."""
PORT_ATTEMPTS = 5
LAST_WORDS_SECONDS = 0.3
"""For a server side to end by itself once its client has ended."""
WARM_UP = 100
"""Messages of the first run, which counts only if no other run fits into the time."""

Wrap = Callable[[Sequence[str]], list[str]]

_ADDRESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,252}", re.ASCII)


@dataclass
class _Server:
    """A server side, until its caller ends it."""

    spec: ProbeSpec
    until: float
    process: Process | None = None
    task: "asyncio.Task[str] | None" = None
    """Its error."""
    stopped: asyncio.Event = field(default_factory=asyncio.Event)


class Prober:
    """Runs probes at one node, one at a time; the two sides of a loopback probe are one.

    Args:
        name: of the node.
        wrap: makes a command run on the node, such as over ssh.
        path: directories of programs there.
        turns: shared with all other probers on the node.
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
        self._path = os.pathsep.join(dict.fromkeys((*(here if path is None else path), *FOLDERS)))
        self._servers: dict[str, _Server] = {}
        self._clients: set[asyncio.Task[list[ProbeResult]]] = set()
        self._turns = turns or Turns()

    async def serve(self, spec: ProbeSpec) -> ProbeServer:
        """Starts the server side of a probe; returns once it listens.

        It ends by itself after its runs, or `LEAD_SECONDS` after `spec.seconds`.

        Raises:
            BusyError: another probe is under way here.
            ProbeError: the probe is not valid, or its server side does not start.
        """
        check_spec(spec)
        name = secrets.token_hex(8)
        seconds = spec.seconds + LEAD_SECONDS
        self._turns.acquire(name, seconds)
        server = _Server(spec, time.monotonic() + seconds)
        try:
            port = await self._listen_anywhere(server)
        except BaseException:
            self._turns.release(name)
            raise
        server.task = asyncio.create_task(self._serve_runs(server, port))
        server.task.add_done_callback(lambda _: self._turns.release(name))
        self._evict_ended()
        self._servers[name] = server
        return ProbeServer(id=name, port=port, load=self._load)

    async def probe(self, spec: ProbeSpec, peer: str, server: ProbeServer) -> list[ProbeResult]:
        """Runs the client side; if one run fails, the only result is an error.

        If the link is too slow for all runs, the results are those of the runs that fit into the
        time, or of the warm-up.

        Args:
            spec: the probe.
            peer: the node of the server side; also its address, if `server` has none.
            server: the server side.

        Raises:
            BusyError: another probe is under way here.
            ProbeError: the probe is not valid.
        """
        check_spec(spec)
        address = server.address or peer
        if not _ADDRESS.fullmatch(address):
            raise ProbeError(f"{clean(address, 64)}: neither an IPv4 address nor a host name")
        if server.port not in PORTS:
            raise ProbeError(f"port {server.port} is not between {PORTS[0]} and {PORTS[-1]}")
        name = secrets.token_hex(8)
        self._turns.acquire(name, spec.seconds, partner=server.id)
        task = asyncio.create_task(self._measure(spec, peer, address, server.port))
        self._clients.add(task)
        try:
            return await task
        finally:
            self._clients.discard(task)
            self._turns.release(name)

    async def end(self, server: ProbeServer) -> str:
        """Ends a server side with all its processes; returns its error, if any."""
        known = self._servers.pop(server.id, None)
        return "" if known is None else await _stop(known, LAST_WORDS_SECONDS)

    async def close(self) -> None:
        """Ends everything that is under way."""
        servers = list(self._servers.values())
        self._servers.clear()
        for task in self._clients:
            task.cancel()
        await asyncio.gather(*self._clients, *map(_stop, servers), return_exceptions=True)

    @property
    def _load(self) -> str:
        """Of this machine; unknown for one that is reached by commands."""
        return loads.describe(os.getloadavg()[0], os.cpu_count() or 1) if self._local else ""

    def _evict_ended(self) -> None:
        """Removes server sides that ended and whose caller is gone."""
        for name, server in list(self._servers.items()):
            if server.task is None or server.task.done():
                del self._servers[name]

    async def _listen_anywhere(self, server: _Server) -> int:
        """Starts the first run's server side on a free port."""
        for port in random.sample(PORTS, PORT_ATTEMPTS):
            error = await self._listen(server, port, _runs(server.spec)[0])
            if error is None:
                return port
            if error:
                raise ProbeError(f"the server side does not start: {error}")
        raise ProbeError(f"{PORT_ATTEMPTS} ports were in use, one after the other")

    async def _listen(self, server: _Server, port: int, messages: int) -> str | None:
        """Starts the server side of a run; None once it listens, else its error.

        The error is empty if the port is in use.
        """
        command = fi_pingpong.server(server.spec, port, messages)
        process = await self._start(command, server.until - time.monotonic())
        try:
            if await process.prints(fi_pingpong.LISTENS, LISTEN_SECONDS):
                server.process = process
                return None
        except BaseException:
            await process.end()
            raise
        await process.end()
        ended = await process.wait()
        if fi_pingpong.port_is_taken(ended):
            return ""
        return fi_pingpong.server_error(server.spec, ended) or "it does not listen"

    async def _serve_runs(self, server: _Server, port: int) -> str:
        """Serves one run after the other; returns the error of the server side."""
        for index, messages in enumerate(_runs(server.spec)):
            if index:
                try:
                    error = await self._listen(server, port, messages)
                except ProbeError as failure:
                    return str(failure)
                if error is not None:
                    return error or "its port is in use by now"
            assert server.process is not None
            if server.stopped.is_set():
                await server.process.end()
            ended = await server.process.wait()
            if server.stopped.is_set() and ended.code is None and index:
                return ""  # the client ended after fewer runs
            if ended.code != 0:
                return fi_pingpong.server_error(server.spec, ended)
        return ""

    async def _measure(
        self, spec: ProbeSpec, peer: str, address: str, port: int
    ) -> list[ProbeResult]:
        blank = blank_result(spec, peer, self._load)
        until = time.monotonic() + spec.seconds
        runs: list[Run] = []
        for index, messages in enumerate(_runs(spec)):
            # A run that does not fit into the time would be cut off without a result.
            if runs and 2 * runs[0].seconds * messages > until - time.monotonic():
                break
            retry = RETRY_SECONDS if index else 0.0
            run = await self._run(spec, address, port, messages, until, retry)
            if isinstance(run, Failure):
                return [structs.replace(blank, error=run.text, faulty_side=run.side)]
            runs.append(run)
        return results(blank, runs[1:] or runs)

    async def _run(
        self,
        spec: ProbeSpec,
        address: str,
        port: int,
        messages: int,
        until: float,
        retry: float,
    ) -> Run | Failure:
        """One run of the client side; `retry`: seconds in which the server side may still start."""
        command = fi_pingpong.client(spec, address, port, messages)
        last = min(time.monotonic() + retry, until)
        while True:
            ended = await (await self._start(command, until - time.monotonic())).wait()
            if not fi_pingpong.is_refused(ended) or time.monotonic() >= last:
                return fi_pingpong.read(spec, ended, messages, f"{address} port {port}")
            await asyncio.sleep(AGAIN_SECONDS)

    async def _start(self, command: Sequence[str], seconds: float) -> Process:
        argv = self._wrap(["env", "LC_ALL=C", f"PATH={self._path}", *command])
        try:
            return await Process.start(argv, max(seconds, 0.1))
        except OSError as error:
            raise ProbeError(f"{argv[0]} cannot be run: {error.strerror}") from error


def _runs(spec: ProbeSpec) -> tuple[int, ...]:
    """Messages of each run; the first run is the warm-up."""
    return (min(WARM_UP, spec.iterations), *[spec.iterations] * spec.repeats)


async def _stop(server: _Server, wait: float = 0.0) -> str:
    assert server.task is not None
    # A side that is about to end by itself reports why.
    await asyncio.wait([server.task], timeout=wait)
    server.stopped.set()
    if server.process is not None:
        await server.process.end()
    return await server.task
