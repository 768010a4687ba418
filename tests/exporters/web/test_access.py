import asyncio
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import bcrypt
import httpx
import pytest

from tests.serving import Authority, app_of, serving
from trntop.core.errors import SettingsError
from trntop.exporters.web import auth
from trntop.exporters.web.access import Access, Bucket

ROOT = Path(__file__).parents[3]
HASH = "$2b$04$8qa8rLRel9Q..JRdZDe73eHG0TX/D9pDlYe7daiiYHJ27n1TNRHAK"
"""Of `secret`; parameters of tests must be the same in every process."""
USERS = f"basic_auth_users: {{prometheus: {HASH}}}\n"
RIGHT = ("prometheus", "secret")


class Config:
    """A web configuration file, and what was said of it."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "web.yml"
        self.said: list[str] = []

    def access(self, text: str) -> Access:
        self.file.write_text(text)
        return Access(self.file, self.say)

    def say(self, text: str) -> None:
        assert text.startswith(str(self.file))
        self.said.append(text.removeprefix(f"{self.file}: "))

    def replace(self, text: str) -> None:
        """As one should: what is read is the old file or the new one."""
        beside = self.file.with_suffix(".new")
        beside.write_text(text)
        beside.replace(self.file)


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(tmp_path)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def tls(pair: tuple[Path, Path], *more: str) -> str:
    lines = [f"cert_file: {pair[0].name}", f"key_file: {pair[1].name}", *more]
    return "tls_server_config:\n" + "".join(f"  {line}\n" for line in lines)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ["says nothing: neither TLS nor passwords are in force"]),
        ("tls_server_config:\n", ["says nothing: neither TLS nor passwords are in force"]),
        (USERS, []),
    ],
)
def test_a_file_that_protects_nothing_says_so(config: Config, text: str, said: list[str]) -> None:
    config.access(text).close()
    assert config.said == said


class TestPasswords:
    async def test_who_gets_in(self, config: Config) -> None:
        async with serving(app_of(), config.access(USERS)) as (client, _):
            for path in ("/", "/metrics", "/-/healthy", "/nope"):
                response = await client.get(path)
                assert response.status_code == 401
                assert response.headers["www-authenticate"].startswith("Basic realm=")
                assert response.headers["x-content-type-options"] == "nosniff"
                assert "trn_" not in response.text
            assert (await client.get("/metrics", auth=RIGHT)).status_code == 200
            for wrong in (("prometheus", "x"), ("x", "secret"), ("prometheus", HASH), ("", "")):
                assert (await client.get("/metrics", auth=wrong)).status_code == 401
            assert (await client.get("/metrics", auth=RIGHT)).status_code == 200
            bearer = {"Authorization": "Bearer secret"}
            assert (await client.get("/metrics", headers=bearer)).status_code == 401

    async def test_wrong_ones_in_numbers_do_not_hold_up_the_right_one(
        self, config: Config, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Checking takes some tenth of a second, in a thread; scrapes do not wait for it."""
        done = threading.Event()
        access = config.access(USERS)
        async with serving(app_of(), access) as (client, _):
            assert (await client.get("/metrics", auth=RIGHT)).status_code == 200
            monkeypatch.setattr(auth, "_matches", lambda *_: not done.wait(60))
            wrong = [
                asyncio.ensure_future(client.get("/metrics", auth=("prometheus", str(number))))
                for number in range(auth.MAX_WAITING + 10)
            ]
            try:
                await asyncio.wait(wrong, return_when=asyncio.FIRST_COMPLETED)
                for _ in range(10):
                    assert (await client.get("/metrics", auth=RIGHT)).status_code == 200
            finally:
                done.set()
            answers = await asyncio.gather(*wrong)
        assert {one.status_code for one in answers} == {401, 503}
        assert {"retry-after" in one.headers for one in answers if one.status_code == 503} == {True}


class TestReadAgain:
    async def test_users(self, config: Config) -> None:
        other = bcrypt.hashpw(b"changed", bcrypt.gensalt(4)).decode()
        async with serving(app_of(), config.access(USERS)) as (client, _):
            assert (await client.get("/", auth=RIGHT)).status_code == 200
            config.replace(f"basic_auth_users: {{grafana: {other}}}\n")
            assert (await client.get("/", auth=RIGHT)).status_code == 401
            assert (await client.get("/", auth=("grafana", "changed"))).status_code == 200
        assert config.said == ["read again"]

    @pytest.mark.parametrize(
        ("broken", "said"),
        [
            ("basic_auth_users: [", "expected the node content"),
            ("basic_auth_user: {}", "unknown key `basic_auth_user`"),
            ("", "passwords go with a restart only"),
            (None, "No such file or directory"),
        ],
    )
    async def test_what_is_broken_keeps_the_old_and_is_said_once(
        self, config: Config, broken: str | None, said: str
    ) -> None:
        async with serving(app_of(), config.access(USERS)) as (client, _):
            if broken is None:
                config.file.unlink()
            else:
                config.file.write_text(broken)
            for _ in range(5):
                assert (await client.get("/")).status_code == 401
                assert (await client.get("/", auth=RIGHT)).status_code == 200
            assert len(config_said := config.said) == 1
            assert said in config_said[0]
            assert config_said[0].endswith("; what was in force stays")
            config.replace(USERS + "http_server_config: {headers: {X-Frame-Options: deny}}\n")
            response = await client.get("/", auth=RIGHT)
            assert response.headers["x-frame-options"] == "deny"
            assert config_said[1:] == ["read again"]

    async def test_tls_neither_comes_nor_goes(self, config: Config, authority: Authority) -> None:
        pair = authority.issue("server", "127.0.0.1")
        config.access(tls(pair)).close()
        plain = config.access(USERS)
        config.replace(tls(pair))
        assert plain.context() is None
        assert config.said == ["TLS comes and goes with a restart only; what was in force stays"]
        plain.close()

    async def test_a_renewed_certificate(self, config: Config, authority: Authority) -> None:
        pair = authority.issue("server", "127.0.0.1", common_name="first")
        key = pair[1].read_bytes()
        access = config.access(tls(pair))
        trust = authority.trust()
        async with serving(app_of(), access, trust) as (_, port):
            assert await asyncio.to_thread(subject_of, port, trust) == "first"
            authority.issue("server", "127.0.0.1", common_name="second")
            renewed = pair[1].read_bytes()
            pair[1].write_bytes(key)
            assert await asyncio.to_thread(subject_of, port, trust) == "first"
            assert "key values mismatch" in config.said[0]
            pair[1].write_bytes(renewed)
            assert await asyncio.to_thread(subject_of, port, trust) == "second"
            assert config.said[1:] == ["read again"]

    def test_a_file_that_is_swapped_as_kubernetes_swaps_it(self, tmp_path: Path) -> None:
        for name, text in (("one", ""), ("two", "rate_limit: {interval: 1h, burst: 1}")):
            (tmp_path / name).mkdir()
            (tmp_path / name / "web.yml").write_text(text)
        (tmp_path / "data").symlink_to("one")
        (tmp_path / "web.yml").symlink_to("data/web.yml")
        access = Access(tmp_path / "web.yml", [].append)
        assert access._current().bucket is None
        (tmp_path / "new").symlink_to("two")
        (tmp_path / "new").replace(tmp_path / "data")
        assert access._current().bucket is not None
        access.close()


def subject_of(port: int, trust: ssl.SSLContext) -> str:
    """The common name of the server's certificate."""
    with (
        socket.create_connection(("127.0.0.1", port), 5) as sock,
        trust.wrap_socket(sock, server_hostname="127.0.0.1") as secure,
    ):
        subject = (secure.getpeercert() or {})["subject"]
    return next(value for ((name, value),) in subject if name == "commonName")  # type: ignore[misc]


class TestTls:
    async def test_it_serves(self, config: Config, authority: Authority) -> None:
        access = config.access(tls(authority.issue("server", "127.0.0.1")))
        assert access.secure
        async with serving(app_of(), access, authority.trust()) as (client, _):
            for path in ("/metrics", "/metrics/cores", "/-/healthy"):
                assert (await client.get(path)).status_code == 200
        assert not config.said

    async def test_old_versions_are_refused(self, config: Config, authority: Authority) -> None:
        access = config.access(tls(authority.issue("server", "127.0.0.1"), "min_version: TLS13"))
        old = authority.trust()
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        async with serving(app_of(), access, old) as (client, _):
            with pytest.raises(httpx.ConnectError):
                await client.get("/metrics")

    @pytest.mark.parametrize(
        ("kind", "sans", "identity", "passes"),
        [
            ("NoClientCert", "", None, True),
            ("RequestClientCert", "", None, True),
            ("VerifyClientCertIfGiven", "", None, True),
            ("VerifyClientCertIfGiven", "", "prometheus.example.org", True),
            ("VerifyClientCertIfGiven", "", "foreign", False),
            ("RequireAnyClientCert", "", None, False),
            ("RequireAnyClientCert", "", "prometheus.example.org", True),
            ("RequireAndVerifyClientCert", "", None, False),
            ("RequireAndVerifyClientCert", "", "foreign", False),
            ("RequireAndVerifyClientCert", "", "anybody.example.org", True),
            ("RequireAndVerifyClientCert", "prometheus.example.org", None, False),
            (
                *("RequireAndVerifyClientCert", "prometheus.example.org"),
                *("prometheus.example.org", True),
            ),
            (
                *("RequireAndVerifyClientCert", "prometheus.example.org"),
                *("anybody.example.org", False),
            ),
            ("RequireAndVerifyClientCert", "10.1.2.3", "10.1.2.3", True),
            ("RequireAndVerifyClientCert", "2001:db8::1", "2001:db8::1", True),
            ("RequireAndVerifyClientCert", "a@example.org", "a@example.org", True),
            ("RequireAndVerifyClientCert", "example.org", "*.example.org", False),
            ("RequireAndVerifyClientCert", "prometheus.example.org", "", False),
        ],
    )
    async def test_client_certificates(
        self,
        config: Config,
        authority: Authority,
        tmp_path: Path,
        kind: str,
        sans: str,
        identity: str | None,
        passes: bool,
    ) -> None:
        lines = [f"client_auth_type: {kind}"]
        if kind not in ("NoClientCert", "RequestClientCert"):
            lines.append(f"client_ca_file: {authority.file.name}")
        if sans:
            lines.append(f"client_allowed_sans: ['{sans}']")
        access = config.access(tls(authority.issue("server", "127.0.0.1"), *lines))
        client_pair = None
        if identity == "foreign":
            (tmp_path / "other").mkdir()
            client_pair = Authority(tmp_path / "other").issue("client", "prometheus.example.org")
        elif identity == "":  # the name stands where names stood before there were SANs
            client_pair = authority.issue("client", common_name="prometheus.example.org")
        elif identity is not None:
            client_pair = authority.issue("client", identity)
        trust = authority.trust(client_pair)
        async with serving(app_of(), access, trust) as (client, _):
            if passes:
                assert (await client.get("/metrics")).status_code == 200
            else:
                with pytest.raises(httpx.TransportError):
                    await client.get("/metrics")


class TestHeadersAndRate:
    async def test_headers_are_on_every_answer(self, config: Config) -> None:
        text = USERS + (
            "http_server_config:\n  http2: true\n  headers:\n"
            "    Strict-Transport-Security: max-age=60\n    X-Frame-Options: deny\n"
        )
        async with serving(app_of(), config.access(text)) as (client, _):
            for path, credentials in (("/", RIGHT), ("/nope", RIGHT), ("/", None)):
                response = await client.get(path, auth=credentials)
                assert response.headers["strict-transport-security"] == "max-age=60"
                assert response.headers["x-frame-options"] == "deny"
        assert config.said == ["http2: HTTP/1.1 is what is spoken"]

    async def test_rate(self, config: Config) -> None:
        access = config.access("rate_limit: {interval: 1h, burst: 3}")
        async with serving(app_of(), access) as (client, _):
            answers = [await client.get("/-/healthy") for _ in range(5)]
            assert [one.status_code for one in answers] == [200, 200, 200, 429, 429]
            assert answers[-1].headers["retry-after"] == "3600"
            config.replace("rate_limit: {interval: 1h, burst: 3}\n")
            assert (await client.get("/-/healthy")).status_code == 429, "the same limit goes on"
            config.replace("rate_limit: {interval: 1h, burst: 4}\n")
            assert (await client.get("/-/healthy")).status_code == 200

    def test_a_bucket_fills_again(self) -> None:
        now = [0.0]
        bucket = Bucket(2.0, 2, lambda: now[0])
        assert [bucket.take() for _ in range(3)] == [True, True, False]
        now[0] = 1.9
        assert not bucket.take()
        now[0] = 2.0
        assert [bucket.take() for _ in range(2)] == [True, False]
        now[0] = 1000.0
        assert [bucket.take() for _ in range(3)] == [True, True, False]


class TestAtTheStart:
    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("tls_server_config: {min_version: TLS13}", "tls_server_config: cert_file is missing"),
            (
                "tls_server_config: {cert_file: a, key_file: b}",
                "tls_server_config: {folder}/a: No such file or directory",
            ),
            ("users: {}", "unknown key `users`"),
        ],
    )
    def test_what_cannot_be_used_is_refused(self, config: Config, text: str, said: str) -> None:
        with pytest.raises(SettingsError) as caught:
            config.access(text)
        assert str(caught.value) == f"{config.file}: {said}".format(folder=config.file.parent)

    def test_the_command_says_so_and_exits_2(self, config: Config) -> None:
        config.file.write_text("nonsense: 1")
        run = subprocess.run(command(config.file), capture_output=True, text=True, env=ENVIRON)
        assert run.returncode == 2
        assert run.stderr == f"trntop: {config.file}: unknown key `nonsense`\n"


ENVIRON = {**os.environ, "PYTHONPATH": str(ROOT)}


def command(file: Path, *more: str) -> list[str]:
    return [
        *(sys.executable, "-m", "trntop", "export", "sim:healthy?nodes=1&minutes=1"),
        *("--web.listen-address", "127.0.0.1:0", "--web.config.file", str(file), *more),
    ]


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_with_curl(config: Config, authority: Authority) -> None:
    """The command as it is used, asked by a client that is not Python's."""
    server = authority.issue("server", "127.0.0.1", "::1")
    key_of_all = server[1]
    key_of_all.chmod(0o644)
    client = authority.issue("client", "prometheus.example.org")
    config.file.write_text(
        USERS
        + tls(
            server,
            "client_auth_type: RequireAndVerifyClientCert",
            f"client_ca_file: {authority.file.name}",
        )
    )
    process = subprocess.Popen(
        command(config.file, "--listen", "[::1]:0"), stderr=subprocess.PIPE, text=True, env=ENVIRON
    )
    with process:
        try:
            assert process.stderr is not None
            assert "every user of this machine can read this key" in process.stderr.readline()
            urls = [process.stderr.readline().split()[2] for _ in range(2)]
            assert urls[0].startswith("https://127.0.0.1:")
            assert urls[1].startswith("https://[::1]:")
            trusted = ["--cacert", str(authority.file)]
            mine = [*trusted, "--cert", str(client[0]), "--key", str(client[1])]
            user = ["--user", ":".join(RIGHT)]
            for url in urls:
                curl = curl_of(url)
                assert curl(*mine, *user)[:2] == (0, "200")
                assert curl(*mine, *user, "--compressed", "--http2")[:2] == (0, "200")
                assert curl(*mine, "--user", "prometheus:x")[:2] == (0, "401")
                assert curl(*mine)[:2] == (0, "401")
                assert curl(*trusted, *user)[0] in (35, 52, 56), "no certificate"
                assert curl(*mine, *user, "--tls-max", "1.1")[0] == 35
                assert curl(*user)[0] == 60, "nobody told curl whom to believe"
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=5) == 0
            assert process.stderr.read() == ""
        finally:
            process.kill()


def curl_of(url: str) -> Callable[..., tuple[int, str, str]]:
    def curl(*arguments: str) -> tuple[int, str, str]:
        """Exit code, status and what curl says."""
        shown = ["-sS", "-o", os.devnull, "-w", "%{http_code}", "--max-time", "10"]
        run = subprocess.run(["curl", *shown, *arguments, url], capture_output=True, text=True)
        return run.returncode, run.stdout, run.stderr

    return curl
