import fcntl
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from trntop.core.errors import TrntopError, UsageError
from trntop.exporters.web.listening import bind, from_systemd, listen, parse_listen, url

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:10042", ("127.0.0.1", 10042)),
        (":9000", ("", 9000)),
        ("[::1]:10042", ("::1", 10042)),
        ("[fe80::1%eth0]:1", ("fe80::1%eth0", 1)),
        ("10042", ("127.0.0.1", 10042)),
        ("localhost:0", ("localhost", 0)),
        ("0.0.0.0:65535", ("0.0.0.0", 65535)),
    ],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert parse_listen(text) == address


@pytest.mark.parametrize(
    "text",
    [
        *("", ":", "host", "host:", "host:http", "1.2.3.4:65536", "::1:10042", "[::1]"),
        *("[x]:1", "http://host:1", "host:-1", "a b:1", "host:1\n", "[::1:1", "host:٣"),
    ],
)
def test_nonsense(text: str) -> None:
    with pytest.raises(UsageError, match="use 127\\.0\\.0\\.1:10042"):
        parse_listen(text)


def test_fault_41_taken_port() -> None:
    with bind("127.0.0.1", 0) as sock:
        port = sock.getsockname()[1]
        with pytest.raises(TrntopError, match=rf"^127\.0\.0\.1:{port} is in use"):
            bind("127.0.0.1", port)


def test_unknown_host(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(TrntopError, match=r"^cannot listen on nowhere:1: Name or service"):
        bind("nowhere", 1)


def test_the_chosen_port_is_reported() -> None:
    with bind("127.0.0.1", 0) as sock:
        assert sock.getsockname()[1] > 0
        assert url(sock) == f"http://127.0.0.1:{sock.getsockname()[1]}"
        assert url(sock, secure=True).startswith("https://127.0.0.1:")


def test_answers_in_two_packets_are_not_held_back() -> None:
    with bind("127.0.0.1", 0) as sock, socket.create_connection(sock.getsockname()):
        accepted, _ = sock.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_every_interface() -> None:
    with bind("", 0) as sock:
        port = sock.getsockname()[1]
        socket.create_connection(("127.0.0.1", port), 2).close()


def test_ipv6() -> None:
    try:
        sock = bind("::1", 0)
    except TrntopError:
        pytest.skip("no IPv6 loopback here")
    with sock:
        assert url(sock).startswith("http://[::1]:")


class TestSeveral:
    def test_each_address_has_a_socket(self) -> None:
        sockets = listen(["127.0.0.1:0", "127.0.0.2:0"])
        assert [sock.getsockname()[0] for sock in sockets] == ["127.0.0.1", "127.0.0.2"]
        for sock in sockets:
            sock.close()

    def test_none_is_left_open_when_one_cannot_be_had(self) -> None:
        with bind("127.0.0.1", 0) as taken, bind("127.0.0.1", 0) as spare:
            free = spare.getsockname()[1]
            spare.close()
            with pytest.raises(TrntopError, match="is in use"):
                listen([f"127.0.0.1:{free}", f"127.0.0.1:{taken.getsockname()[1]}"])
            bind("127.0.0.1", free).close()


PASSED = """
import os, sys
from trntop.exporters.web.listening import from_systemd, url
environ = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": sys.argv[1]}
try:
    print([url(sock) for sock in from_systemd(environ)], environ)
except Exception as error:
    print(type(error).__name__, error)
"""


def passed(*sockets: socket.socket, count: int) -> str:
    """What a process reports on these sockets, handed to it as systemd does."""
    # Away from the low numbers, which the shell's redirections overwrite.
    lifted = [fcntl.fcntl(sock.fileno(), fcntl.F_DUPFD, 100) for sock in sockets]
    numbers = " ".join(f"{3 + index}<&{number}" for index, number in enumerate(lifted))
    try:
        run = subprocess.run(
            ["bash", "-c", f'exec "$0" -c "$1" {count} {numbers}', sys.executable, PASSED],
            pass_fds=lifted,
            capture_output=True,
            text=True,
            timeout=30,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    finally:
        for number in lifted:
            os.close(number)
    return run.stdout or run.stderr


class TestSystemd:
    def test_the_sockets_it_passes(self, tmp_path: Path) -> None:
        with bind("127.0.0.1", 0) as first, socket.socket(socket.AF_UNIX) as second:
            second.bind(str(tmp_path / "s"))
            second.listen()
            shown = passed(first, second, count=2)
            path = str(tmp_path / "s").replace("/", "%2F")
            assert shown == f"{[url(first), f'http+unix://{path}']} {{}}\n"

    def test_what_does_not_listen_is_refused(self) -> None:
        with socket.socket() as idle:
            assert "is not a listening stream socket" in passed(idle, count=1)

    def test_what_is_no_socket_is_refused(self) -> None:
        assert passed(count=1).startswith("TrntopError descriptor 3 from systemd")

    @pytest.mark.parametrize(
        "environ",
        [
            {},
            {"LISTEN_PID": "1", "LISTEN_FDS": "1"},
            {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "0"},
            {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "x"},
        ],
    )
    def test_none_passed(self, environ: dict[str, str]) -> None:
        with pytest.raises(TrntopError, match="systemd passed no socket"):
            from_systemd(environ)
        assert not environ, "no child takes them for its own"

    @pytest.mark.skipif(
        shutil.which("systemd-socket-activate") is None, reason="needs systemd-socket-activate"
    )
    def test_under_the_real_one(self) -> None:
        with bind("127.0.0.1", 0) as spare:
            port = spare.getsockname()[1]
        process = subprocess.Popen(
            [
                *("systemd-socket-activate", f"--listen=127.0.0.1:{port}", "-E", "PYTHONPATH"),
                *(sys.executable, "-m", "trntop", "export", "sim:healthy?nodes=1&minutes=1"),
                "--web.systemd-socket",
            ],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        with process:
            try:
                assert process.stderr is not None
                assert "Listening on" in process.stderr.readline()
                with socket.create_connection(("127.0.0.1", port), 20) as client:
                    client.settimeout(20)
                    client.send(b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n")
                    assert client.recv(100).startswith(b"HTTP/1.1 200")
            finally:
                process.terminate()
                process.communicate(timeout=10)
