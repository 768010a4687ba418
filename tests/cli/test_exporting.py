"""`trntop export` as a process, over real sockets."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import bcrypt
import httpx
import pytest

from tests.prometheus_server import Scrape, needs_prometheus, prometheus
from tests.serving import Authority
from trntop.cli import exporting as exporting_module
from trntop.cli import main
from trntop.core.settings import Settings
from trntop.exporters.web.listening import bind
from trntop.session.monitor import Monitor
from trntop.session.runner import Session

pytestmark = pytest.mark.xdist_group("servers")

ROOT = Path(__file__).parents[2]
SIM = "sim:healthy?nodes=1&minutes=1"
SECONDS = 20.0


@contextlib.contextmanager
def exporting(*arguments: str, addresses: int = 1) -> Iterator[list[str]]:
    """The command, and where it serves: URLs without a path."""
    process = subprocess.Popen(
        [sys.executable, "-m", "trntop", "export", *arguments],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    with process:
        try:
            assert process.stderr is not None
            output = [process.stderr.readline() for _ in range(addresses)]
            for line in output:
                assert line.startswith("trntop: serving http"), line
            yield [line.split()[2].removesuffix("/metrics") for line in output]
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=10) == 0
            assert process.stderr.read() == ""
        finally:
            process.kill()


def ready(client: httpx.Client) -> None:
    deadline = time.monotonic() + SECONDS
    while client.get("/-/ready").status_code != 200:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def client_of(url: str) -> httpx.Client:
    return httpx.Client(base_url=url, trust_env=False)


class TestListening:
    def test_it_listens_on_loopback_by_default(self) -> None:
        with exporting(SIM, "--port", "0") as (url,):
            assert url.startswith("http://127.0.0.1:")

    def test_several_addresses(self) -> None:
        listen = ("--listen", "127.0.0.1:0", "--web.listen-address", "127.0.0.2:0")
        with exporting(SIM, *listen, addresses=2) as urls:
            assert [url.rpartition(":")[0] for url in urls] == [
                *("http://127.0.0.1", "http://127.0.0.2")
            ]
            for url in urls:
                with client_of(url) as client:
                    assert client.get("/-/healthy").status_code == 200

    def test_fault_41_a_taken_port(self, capsys: pytest.CaptureFixture[str]) -> None:
        with bind("127.0.0.1", 0) as busy:
            port = busy.getsockname()[1]
            assert main(["export", SIM, "--port", str(port)]) == 2
        output = f"trntop: 127.0.0.1:{port} is in use; choose another with --listen\n"
        assert capsys.readouterr().err == output

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--port", "70000"], "70000 is not a valid port"),
            (["--listen", "all"], "trntop: all is not a valid address"),
            (["--listen", ":1", "--listen", ":2", "--port", "3"], "--port needs a single address"),
            (["--web.systemd-socket"], "systemd passed no socket"),
            (["--web.systemd-socket", "--port", "1"], "cannot be combined with --listen or --port"),
            (["--web.config.file", "none.yml"], "none.yml: No such file"),
            (["--set", "export.max_series=0"], "export.max_series must be a whole number"),
            (["--compat", "dcgm"], "dcgm: not an exporter"),
        ],
    )
    def test_bad_use(
        self, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["export", SIM, *arguments]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("trntop: ")
        assert err.count("\n") == 1
        assert message in err


class TestPages:
    def test_limit_and_other_names(self) -> None:
        options = (
            "--port",
            "0",
            "--compat",
            "neuron-monitor,amazonefa",
            "--set",
            "export.max_series=2000",
        )
        with exporting(SIM, *options) as (url,), client_of(url) as client:
            ready(client)
            page = client.get("/metrics").text
            assert "\nnode_amazonefa_info{" in page
            assert "\nneuroncore_utilization_ratio{" in page
            assert 'trntop_series_dropped{page="metrics"} 0\n' in page
        with (
            exporting(SIM, "--port", "0", "--set", "export.max_series=20") as (url,),
            client_of(url) as client,
        ):
            ready(client)
            page = client.get("/metrics").text
            assert "neuroncore_utilization_ratio" not in page
            (dropped,) = [line for line in page.splitlines() if line.startswith("trntop_series_d")]
            assert int(dropped.rpartition(" ")[2]) > 50
            assert sum(line[:1] not in ("#", "") for line in page.splitlines()) <= 21

    def test_fault_42_while_the_source_is_silent_and_once_it_has_ended(self) -> None:
        """A silent source: the pages are there, ready it is not."""
        with exporting("-", "--port", "0") as (url,), client_of(url) as client:
            assert client.get("/-/healthy").status_code == client.get("/health").status_code == 200
            page = client.get("/metrics")
            assert page.status_code == 200
            assert "\ntrntop_build_info{" in page.text
            assert "\nprocess_resident_memory_bytes " in page.text
            answer = client.get("/-/ready")
            assert answer.status_code == 503
        ended = "sim:healthy?nodes=1&minutes=0.2"
        with exporting(ended, "--port", "0", "--speed", "1000") as (url,), client_of(url) as client:
            deadline = time.monotonic() + SECONDS
            while client.get("/-/ready").text != "the recording has ended\n":
                assert time.monotonic() < deadline
                time.sleep(0.05)
            assert client.get("/-/ready").status_code == 503
            assert client.get("/metrics").status_code == 200


@pytest.mark.parametrize(
    ("period", "silent", "hung"), [(1.0, 14, False), (1.0, 16, True), (60.0, 170, False)]
)
def test_a_session_that_hangs_has_no_present(
    monkeypatch: pytest.MonkeyPatch, period: float, silent: float, hung: bool
) -> None:
    session = Session(Monitor(Settings(), period))
    monkeypatch.setattr(session.clock, "now", lambda: session.view.time + silent)
    assert exporting_module.latest(session) is (None if hung else session.view)


def test_a_recording_that_is_held_or_over_keeps_its_last_view(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = Session(Monitor(Settings()), stream=tuple)
    monkeypatch.setattr(session.clock, "now", lambda: session.view.time + 3600)
    assert exporting_module.latest(session) is session.view


def test_a_session_that_failed_has_no_present() -> None:
    session = Session(Monitor(Settings()))
    session.failure = "OSError: gone"
    assert exporting_module.latest(session) is None


@needs_prometheus
def test_prometheus_by_certificate_and_password(tmp_path: Path) -> None:
    """A real one scrapes all pages as its configuration demands, and no other client does."""
    authority = Authority(tmp_path)
    server = authority.issue("server", "127.0.0.1")
    own = authority.issue("prometheus", "prometheus.example.org")
    hashed = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
    (tmp_path / "web.yml").write_text(
        f"""\
tls_server_config:
  cert_file: {server[0].name}
  key_file: {server[1].name}
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: {authority.file.name}
basic_auth_users:
  prometheus: {hashed}
"""
    )
    options = {
        "scheme": "https",
        "scrape_interval": "200ms",
        "scrape_timeout": "200ms",
        "basic_auth": {"username": "prometheus", "password": "secret"},
        "tls_config": {
            "ca_file": str(authority.file),
            "cert_file": str(own[0]),
            "key_file": str(own[1]),
        },
    }
    listen = ("--port", "0", "--web.config.file", str(tmp_path / "web.yml"))
    with exporting(SIM, *listen, "--loop") as (url,):
        target = [url.removeprefix("https://")]
        jobs = [
            Scrape(path.rpartition("/")[2], target, path, options=options)
            for path in ("/metrics", "/metrics/detail", "/metrics/cores")
        ]
        jobs.append(Scrape("stranger", target, options={**options, "basic_auth": None}))
        with prometheus(tmp_path, jobs) as backend:
            backend.until("up == 1", lambda found: len(found) == 3)
            backend.until("count(trn_neuroncore_utilization_ratio) > 0")
            backend.until(
                'up{job="stranger"} == 0',
                lambda _: any(
                    "401 Unauthorized" in each["lastError"] for each in backend.targets()
                ),
            )
