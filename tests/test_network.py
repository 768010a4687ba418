"""The network that other tests are run in is as bad as they want it, and leaves nothing behind."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.network import Host, Network, need, network, until

pytestmark = pytest.mark.xdist_group("machine")

# Seconds that a connection takes, there and back, by the clock of who opens it.
CONNECT = """\
import socket, sys, time
began = time.monotonic()
socket.create_connection((sys.argv[1], 7), 2).close()
print(time.monotonic() - began)
"""
LISTEN = """\
import socket
server = socket.create_server(("", 7))
while True:
    server.accept()[0].close()
"""


def devices() -> list[str]:
    """The network devices of this machine."""
    return [name for _, name in socket.if_nameindex()]


def round_trip(host: Host, peer: str) -> float | None:
    """Seconds from one host to another and back; None where nothing comes back."""
    run = host.run(sys.executable, "-S", "-c", CONNECT, peer)
    return float(run.stdout) if run.returncode == 0 else None


def test_a_path_is_good_slow_dead_and_good_again(tmp_path: Path) -> None:
    before = devices()
    with network(["one", "two", "three"], tmp_path) as net:
        assert net["one"].run("hostname").stdout == "one\n"
        net["two"].start(sys.executable, "-S", "-c", LISTEN, output=tmp_path / "two")
        assert until(lambda: _is_quick(net))

        net.spoil("two", delay=0.1)
        slow = round_trip(net["one"], "two")
        assert slow is not None and 0.2 <= slow < 1
        net.cut("two")
        assert round_trip(net["one"], "two") is None
        net.restore("two")
        assert until(lambda: _is_quick(net))

        running = net["two"].processes()
        assert len(running) == 1
        assert devices() == before
    assert not any(Path(f"/proc/{pid}").exists() for pid in running)
    left = subprocess.run(["ps", "-wweo", "args"], capture_output=True, text=True, check=True)
    assert "forwarder.py near2" not in left.stdout


def _is_quick(net: Network) -> bool:
    elapsed = round_trip(net["one"], "two")
    return elapsed is not None and elapsed < 0.1


def test_without_root_a_test_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(pytest.skip.Exception, match="need root"):
        need()
