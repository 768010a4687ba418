"""A network of its own on one machine: hosts in network namespaces, joined by a bridge.

Each host has a name, an address in 10.42.0.0/24, a loopback device and an `/etc/hosts` in which
the others are; its processes see nothing of the machine's own interfaces, nor does anything
here touch those. The path between a host and the bridge can be made slow, lossy or dead.

A namespace is held by a process of ours and goes with it, also when the tests are killed: each
process here gets a signal of the kernel at its parent's death.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import pytest

TOOLS = ("ip", "unshare", "nsenter", "setpriv", "chrt", "hostname", "mount")
FORWARDER = Path(__file__).with_name("forwarder.py")
ROOT = Path(__file__).parent.parent
Opened = TypeVar("Opened", "Host", "Bend")
SETUP = (
    'hostname "$1" && mount --bind "$2" /etc/hosts && ip link set lo up && echo ready && exec cat'
)
FIRST = ("chrt", "--rr", "10")
FOREMOST = ("chrt", "--rr", "20")
"""Runs what measures before all else, and what it measures before that: what a busy machine adds is
no property of a path.
"""
_APART = ("unshare", "--net", "--uts", "--mount", "--")
_MORTAL = ("setpriv", "--pdeathsig", "KILL", "--")
SECONDS = 10.0
"""How long anything here may take."""


class NetworkError(Exception):
    """A namespace or a device could not be made; the sentence is the tool's."""


def need() -> None:
    """Skips the test where no network can be made."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    if lacking := [tool for tool in TOOLS if shutil.which(tool) is None]:
        pytest.skip(f"no {', '.join(lacking)} here")
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        pytest.skip("no /dev/net/tun here")
    made = subprocess.run([*_APART, "true"], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"no namespaces here: {made.stderr.strip()}")
    if not may_be_first():
        pytest.skip("processes may not be run before others here")


def may_be_first() -> bool:
    """Whether `FIRST` works here."""
    if shutil.which("chrt") is None:
        return False
    return subprocess.run([*FOREMOST, "true"], capture_output=True, check=False).returncode == 0


class Host:
    """One host: a network, a name and an `/etc/hosts` of its own."""

    def __init__(self, name: str, address: str, hosts: Path) -> None:
        self.name = name
        self.address = address
        self._holder = subprocess.Popen(
            [*_APART, *_MORTAL, "sh", "-c", SETUP, "sh", name, str(hosts)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._holder.stdout is not None and self._holder.stderr is not None
        if self._holder.stdout.readline() != "ready\n":
            raise NetworkError(f"{name}: {self._holder.stderr.read().strip()}")
        self.pid = self._holder.pid
        self._network = _network_of(self.pid)
        self._started: list[subprocess.Popen[bytes]] = []

    def command(self, *command: str) -> list[str]:
        """The words that run a command on the host, with the process id of their own process."""
        return [
            "nsenter", "--net", "--uts", "--mount", f"--target={self.pid}", f"--wd={ROOT}",
            *_MORTAL, *command,
        ]  # fmt: skip

    def run(
        self, *command: str, timeout: float = SECONDS, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command on the host to its end."""
        return subprocess.run(
            self.command(*command), capture_output=True, text=True, timeout=timeout, check=False,
            env=None if env is None else {**os.environ, **env},
        )  # fmt: skip

    def start(
        self, *command: str, output: Path, env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Starts a command on the host with its output in a file; it ends with the host."""
        with output.open("ab") as file:
            process = subprocess.Popen(
                self.command(*command), stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                env=None if env is None else {**os.environ, **env},
            )  # fmt: skip
        self._started.append(process)
        return process

    def processes(self) -> dict[int, str]:
        """Process id → command line of what runs on the host, the holder left out."""
        found = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdecimal() or int(entry.name) == self.pid:
                continue
            with contextlib.suppress(OSError):
                if _network_of(int(entry.name)) == self._network:
                    words = (entry / "cmdline").read_bytes().split(b"\0")
                    found[int(entry.name)] = b" ".join(words).decode(errors="replace").strip()
        return found

    def end_all(self) -> None:
        """Ends all that runs on the host."""
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self._started:
            process.wait(SECONDS)

    def close(self) -> None:
        """Ends all that runs on the host, and the host."""
        self.end_all()
        _end(self._holder)


class Bend:
    """A path that can be bad: a forwarder between a host's cable and the bridge."""

    def __init__(self, switch: Host, number: int) -> None:
        self._process = subprocess.Popen(
            switch.command(
                *(*FOREMOST, sys.executable, "-S", str(FORWARDER)),
                *(f"near{number}", f"far{number}", str(number)),
            ),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._answer()

    def set(self, delay: float, loss: float) -> None:
        """What happens from now on to frames of both directions: seconds, and a share."""
        assert self._process.stdin is not None
        way = {"delay": delay, "loss": loss}
        self._process.stdin.write(json.dumps([way, way]) + "\n")
        self._process.stdin.flush()
        self._answer()

    def _answer(self) -> None:
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ok\n":
            raise NetworkError("the forwarder has ended")

    def close(self) -> None:
        """Ends the forwarder, and its devices with it."""
        _end(self._process)


class Network:
    """Hosts that reach each other; use `network`, which ends it.

    Args:
        names: of the hosts; the first has the address 10.42.0.1.
        folder: for files that belong to the network.
    """

    def __init__(self, names: list[str], folder: Path) -> None:
        self._open = contextlib.ExitStack()
        self._bends: dict[str, Bend] = {}
        addresses = {name: f"10.42.0.{number}" for number, name in enumerate(names, 1)}
        listed = folder / "hosts"
        lines = [
            "127.0.0.1 localhost",
            *(f"{address} {name}" for name, address in addresses.items()),
        ]
        listed.write_text("\n".join(lines) + "\n")
        try:
            self._switch = self._opened(Host("switch", "", listed))
            self._ip(self._switch, "link add bridge type bridge", "link set bridge up")
            self.hosts = {
                name: self._opened(Host(name, address, listed))
                for name, address in addresses.items()
            }
            for number, host in enumerate(self.hosts.values(), 1):
                self._plug(number, host)
        except BaseException:
            self.close()
            raise

    def __getitem__(self, name: str) -> Host:
        return self.hosts[name]

    def spoil(self, name: str, *, delay: float = 0.0, loss: float = 0.0) -> None:
        """Makes a host's path bad from now on: seconds each way, and a share of the frames."""
        number = list(self.hosts).index(name) + 1
        if name not in self._bends:
            bend = self._bends[name] = self._opened(Bend(self._switch, number))
            bend.set(delay, loss)
            self._ip(
                self._switch,
                f"link add aside{number} type bridge",
                f"link set aside{number} up",
                f"link set near{number} master aside{number}",
                f"link set far{number} master bridge",
                f"link set near{number} up",
                f"link set far{number} up",
                f"link set port{number} master aside{number}",
            )
        self._bends[name].set(delay, loss)

    def cut(self, name: str) -> None:
        """From now on no frame gets through to a host or from it, without a notice."""
        self.spoil(name, loss=1.0)

    def restore(self, name: str) -> None:
        """The path is as good as it was made, but for the forwarder in it."""
        self.spoil(name)

    def close(self) -> None:
        """Ends all hosts, what runs on them, and the network."""
        self._open.close()

    def _opened(self, opened: Opened) -> Opened:
        self._open.callback(opened.close)
        return opened

    def _plug(self, number: int, host: Host) -> None:
        self._ip(
            self._switch,
            f"link add port{number} type veth peer name eth0 netns {host.pid}",
            f"link set port{number} master bridge",
            f"link set port{number} up",
        )
        self._ip(host, f"addr add {host.address}/24 dev eth0", "link set eth0 up")

    def _ip(self, host: Host, *lines: str) -> None:
        done = subprocess.run(
            host.command("ip", "-batch", "-"), input="\n".join(lines) + "\n",
            capture_output=True, text=True, timeout=SECONDS, check=False,
        )  # fmt: skip
        if done.returncode:
            raise NetworkError(f"{host.name}: {done.stderr.strip()}")


@contextlib.contextmanager
def network(names: list[str], folder: Path) -> Iterator[Network]:
    """A network of these hosts until the end of the block; the test is skipped without root."""
    need()
    made = Network(names, folder)
    try:
        yield made
    finally:
        made.close()


def until(true: Callable[[], bool], seconds: float = SECONDS, step: float = 0.05) -> bool:
    """Whether it came true in time."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(step)
    return True


def _network_of(pid: int) -> int:
    return Path(f"/proc/{pid}/ns/net").stat().st_ino


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait(SECONDS)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
