import asyncio
import base64
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import bcrypt
import httpx
import pytest
import pytest_asyncio

from tests.serving import Authority, app_of, serving
from trntop.core.errors import SettingsError
from trntop.exporters.web import access as access_module
from trntop.exporters.web.access import Access, Verifier, parse_basic

ROOT = Path(__file__).parents[3]
HASH = "$2b$04$8qa8rLRel9Q..JRdZDe73eHG0TX/D9pDlYe7daiiYHJ27n1TNRHAK"
"""Of `secret`; parameters of tests must be the same in every process."""
USERS = f"basic_auth_users: {{prometheus: {HASH}}}\n"
RIGHT = ("prometheus", "secret")


class Config:
    """A web configuration file, and the messages about it."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "web.yml"
        self.log: list[str] = []

    def access(self, text: str) -> Access:
        self.file.write_text(text)
        return Access(self.file, self.report)

    def report(self, text: str) -> None:
        self.log.append(text.removeprefix(f"{self.file}: "))

    def replace(self, text: str) -> None:
        """As one should: what is read is the old file or the new one."""
        new_file = self.file.with_suffix(".new")
        new_file.write_text(text)
        new_file.replace(self.file)


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(tmp_path)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def tls(pair: tuple[Path, Path], *more: str) -> str:
    lines = [f"cert_file: {pair[0].name}", f"key_file: {pair[1].name}", *more]
    return "tls_server_config:\n" + "".join(f"  {line}\n" for line in lines)


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "tls_server_config:\n"])
def test_fault_40_a_file_without_protection_is_refused(config: Config, text: str) -> None:
    with pytest.raises(SettingsError, match="is empty: no TLS, no passwords"):
        config.access(text)


def test_fault_40_a_reload_reads_the_file_although_its_times_are_the_same(config: Config) -> None:
    access = config.access(USERS)
    access.reload()
    assert config.log == ["reloaded"]
    access.close()


class TestPasswords:
    async def test_allowed_credentials(self, config: Config) -> None:
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

    async def test_checks_do_not_delay_known_credentials(
        self, config: Config, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        done = threading.Event()
        async with serving(app_of(), config.access(USERS)) as (client, _):
            assert (await client.get("/metrics", auth=RIGHT)).status_code == 200
            monkeypatch.setattr(access_module, "_matches", lambda *_: not done.wait(60))
            wrong = [
                asyncio.ensure_future(client.get("/metrics", auth=("prometheus", str(number))))
                for number in range(20)
            ]
            try:
                await asyncio.sleep(0)
                for _ in range(10):
                    assert (await client.get("/metrics", auth=RIGHT)).status_code == 200
            finally:
                done.set()
            answers = await asyncio.gather(*wrong)
        assert {answer.status_code for answer in answers} == {401}


HASHES = {
    name: bcrypt.hashpw(password, bcrypt.gensalt(4))
    for name, password in ((b"alice", b"wonder"), (b"bob", b"builder"))
}


def basic(name: bytes, password: bytes) -> str:
    return f"Basic {base64.b64encode(name + b':' + password).decode()}"


class TestVerifier:
    @pytest_asyncio.fixture
    async def verifier(self) -> AsyncIterator[Verifier]:
        verifier = Verifier()
        yield verifier
        verifier.close()

    @pytest.fixture
    def checks(self, monkeypatch: pytest.MonkeyPatch) -> list[tuple[bytes, bytes]]:
        """The passwords and hashes that are checked."""
        checked = []
        matches = access_module._matches

        def checking(password: bytes, hashed: bytes) -> bool:
            checked.append((password, hashed))
            return matches(password, hashed)

        monkeypatch.setattr(access_module, "_matches", checking)
        return checked

    @pytest.mark.parametrize("known", [False, True])
    async def test_fault_40_a_hash_is_not_a_password(self, verifier: Verifier, known: bool) -> None:
        """Nor is any combination of what the cache of valid credentials is keyed by."""
        if known:
            assert await verifier.allows(HASHES, basic(b"alice", b"wonder"))
        hashed = HASHES[b"alice"]
        for name, password in (
            (b"alice", hashed),
            (b"alice", hashed + b":wonder"),
            (b"alice:" + hashed, b"wonder"),
            (b"alice" + hashed, b"wonder"),
            (b"", b"alice" + hashed + b"wonder"),
        ):
            assert not await verifier.allows(HASHES, basic(name, password))

    async def test_fault_40_an_unknown_name_costs_a_check_and_never_passes(
        self, verifier: Verifier, checks: list[tuple[bytes, bytes]]
    ) -> None:
        for _ in range(2):
            assert not await verifier.allows(HASHES, basic(b"carol", b"wonder"))
        assert checks == [(b"wonder", HASHES[b"alice"])] * 2

    async def test_valid_ones_are_checked_once_and_others_each_time(
        self, verifier: Verifier, checks: list[tuple[bytes, bytes]]
    ) -> None:
        for _ in range(3):
            assert await verifier.allows(HASHES, basic(b"alice", b"wonder"))
            assert not await verifier.allows(HASHES, basic(b"alice", b"x"))
        assert [password for password, _ in checks] == [b"wonder", b"x", b"x", b"x"]

    async def test_a_changed_hash_is_checked_again(self, verifier: Verifier) -> None:
        assert await verifier.allows(HASHES, basic(b"alice", b"wonder"))
        changed = {b"alice": bcrypt.hashpw(b"land", bcrypt.gensalt(4))}
        assert not await verifier.allows(changed, basic(b"alice", b"wonder"))
        assert await verifier.allows(changed, basic(b"alice", b"land"))

    async def test_limits_of_bcrypt(self, verifier: Verifier) -> None:
        long = b"x" * 100
        users = {b"a": bcrypt.hashpw(long[:72], bcrypt.gensalt(4))}
        assert await verifier.allows(users, basic(b"a", long)), "as every bcrypt does"
        broken = {b"a": b"$2y$04$" + b"." * 53}
        assert not await verifier.allows(broken, basic(b"a", b"x"))
        assert not await verifier.allows(HASHES, basic(b"alice", b"wonder\0"))


@pytest.mark.parametrize(
    ("header", "credentials"),
    [
        ("Basic YTpi", (b"a", b"b")),
        ("basic  YTpiOmM= ", (b"a", b"b:c")),
        ("Basic Og==", (b"", b"")),
        ("", None),
        ("Basic", None),
        ("Basic YQ==", None),
        ("Basic ???", None),
        ("Bearer YTpi", None),
        ("Basic Ä", None),
    ],
)
def test_headers(header: str, credentials: tuple[bytes, bytes] | None) -> None:
    assert parse_basic(header) == credentials


class TestReload:
    async def test_users(self, config: Config) -> None:
        other = bcrypt.hashpw(b"changed", bcrypt.gensalt(4)).decode()
        async with serving(app_of(), config.access(USERS)) as (client, _):
            assert (await client.get("/", auth=RIGHT)).status_code == 200
            config.replace(f"basic_auth_users: {{grafana: {other}}}\n")
            assert (await client.get("/", auth=RIGHT)).status_code == 401
            assert (await client.get("/", auth=("grafana", "changed"))).status_code == 200
        assert config.log == ["reloaded"]

    @pytest.mark.parametrize(
        ("broken", "text"),
        [
            ("basic_auth_users: [", "expected the node content"),
            ("basic_auth_user: {}", "unknown key `basic_auth_user`"),
            ("", "removing all passwords needs a restart"),
            (None, "No such file or directory"),
        ],
    )
    async def test_fault_40_a_broken_configuration_keeps_the_previous_and_is_reported_once(
        self, config: Config, broken: str | None, text: str
    ) -> None:
        async with serving(app_of(), config.access(USERS)) as (client, _):
            if broken is None:
                config.file.unlink()
            else:
                config.file.write_text(broken)
            for _ in range(5):
                assert (await client.get("/")).status_code == 401
                assert (await client.get("/", auth=RIGHT)).status_code == 200
            assert len(message := config.log) == 1
            assert text in message[0]
            assert message[0].endswith("; the previous configuration stays in force")
            config.replace(USERS)
            assert (await client.get("/", auth=RIGHT)).status_code == 200
            assert message[1:] == ["reloaded"]

    async def test_tls_cannot_be_turned_on(self, config: Config, authority: Authority) -> None:
        pair = authority.issue("server", "127.0.0.1")
        async with serving(app_of(), config.access(USERS)) as (client, _):
            config.replace(USERS + tls(pair))
            assert (await client.get("/", auth=RIGHT)).status_code == 200
        assert config.log == [
            "turning TLS on or off needs a restart; the previous configuration stays in force"
        ]

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
            assert "key values mismatch" in config.log[0]
            pair[1].write_bytes(renewed)
            assert await asyncio.to_thread(subject_of, port, trust) == "second"
            assert config.log[1:] == ["reloaded"]

    async def test_a_file_that_is_swapped_as_kubernetes_swaps_it(self, tmp_path: Path) -> None:
        other = bcrypt.hashpw(b"changed", bcrypt.gensalt(4)).decode()
        for name, text in (("old", USERS), ("new", f"basic_auth_users: {{grafana: {other}}}")):
            (tmp_path / name).mkdir()
            (tmp_path / name / "web.yml").write_text(text)
        (tmp_path / "data").symlink_to("old")
        (tmp_path / "web.yml").symlink_to("data/web.yml")
        async with serving(app_of(), Access(tmp_path / "web.yml", print)) as (client, _):
            assert (await client.get("/", auth=RIGHT)).status_code == 200
            (tmp_path / "link").symlink_to("new")
            (tmp_path / "link").replace(tmp_path / "data")
            assert (await client.get("/", auth=("grafana", "changed"))).status_code == 200


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
        async with serving(app_of(), access, authority.trust()) as (client, _):
            for path in ("/metrics", "/metrics/cores", "/-/healthy"):
                assert (await client.get(path)).status_code == 200
        assert not config.log

    async def test_old_versions_are_refused(self, config: Config, authority: Authority) -> None:
        access = config.access(tls(authority.issue("server", "127.0.0.1"), "min_version: TLS13"))
        old = authority.trust()
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        async with serving(app_of(), access, old) as (client, _):
            with pytest.raises(httpx.ConnectError):
                await client.get("/metrics")

    @pytest.mark.parametrize("identity", [None, "foreign", "prometheus.example.org"])
    async def test_client_certificates(
        self, config: Config, authority: Authority, tmp_path: Path, identity: str | None
    ) -> None:
        lines = [
            "client_auth_type: RequireAndVerifyClientCert",
            f"client_ca_file: {authority.file.name}",
        ]
        access = config.access(tls(authority.issue("server", "127.0.0.1"), *lines))
        client_pair = None
        if identity == "foreign":
            (tmp_path / "other").mkdir()
            client_pair = Authority(tmp_path / "other").issue("client", "prometheus.example.org")
        elif identity is not None:
            client_pair = authority.issue("client", identity)
        async with serving(app_of(), access, authority.trust(client_pair)) as (client, _):
            if identity == "prometheus.example.org":
                assert (await client.get("/metrics")).status_code == 200
            else:
                with pytest.raises(httpx.TransportError):
                    await client.get("/metrics")


class TestAtTheStart:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (
                "tls_server_config: {cert_file: a, key_file: b, client_ca_file: c}",
                "tls_server_config: client_ca_file and client_auth_type: RequireAndVerifyClientCert"
                " need each other",
            ),
            (
                "tls_server_config: {cert_file: a, key_file: b}",
                "tls_server_config: {folder}/a: No such file or directory",
            ),
            ("users: {}", "unknown key `users`"),
        ],
    )
    def test_what_cannot_be_used_is_refused(self, config: Config, text: str, message: str) -> None:
        with pytest.raises(SettingsError) as caught:
            config.access(text)
        assert str(caught.value) == f"{config.file}: {message}".format(folder=config.file.parent)

    def test_the_command_reports_it_and_exits_2(self, config: Config) -> None:
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
            assert "is readable by every user" in process.stderr.readline()
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
                assert curl(*user)[0] == 60, "curl has no certificate to trust"
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=5) == 0
            assert process.stderr.read() == ""
        finally:
            process.kill()


def curl_of(url: str) -> Callable[..., tuple[int, str, str]]:
    def curl(*arguments: str) -> tuple[int, str, str]:
        """Exit code, status and curl's message."""
        shown = ["-sS", "-o", os.devnull, "-w", "%{http_code}", "--max-time", "10"]
        run = subprocess.run(["curl", *shown, *arguments, url], capture_output=True, text=True)
        return run.returncode, run.stdout, run.stderr

    return curl
