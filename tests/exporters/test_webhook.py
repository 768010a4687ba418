"""Posts to a real server on loopback."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.builders import NOON, make_incident, make_node, view_of
from trntop.core.errors import SettingsError
from trntop.core.model import Incident, Severity
from trntop.core.settings import Notify
from trntop.exporters import document
from trntop.exporters.webhook import MAX_WAITING, Target, Webhook, post, target_of

INCIDENT = make_incident(
    kind="efa_degraded",
    severity=Severity.CRITICAL,
    summary="EFA card rdmap96s27 on trn-007 is degraded",
)


class Server:
    """What was asked, and what is answered."""

    def __init__(self) -> None:
        self.port = 0
        self.asked: list[tuple[str, dict[str, str], bytes]] = []
        self.answers: list[int] = []
        self.location = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hooks/s3cret"


@contextmanager
def listening(silent: threading.Event | None = None) -> Iterator[Server]:
    server = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            server.asked.append((self.path, dict(self.headers), body))
            if silent is not None:
                silent.wait(10)
                return
            self.send_response(server.answers.pop(0) if server.answers else 200)
            if server.location:
                self.send_header("Location", server.location)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_POST  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.port = http.server_port
    thread = threading.Thread(target=http.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        if silent is not None:
            silent.set()
        http.shutdown()
        thread.join()
        http.server_close()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with listening() as one:
        yield one


def webhook(url: str, said: Callable[[str], None] = print, **settings: Any) -> Webhook:
    return Webhook(Notify(webhook=url, **settings), said, retries=(0, 0))


def show(hook: Webhook, *incidents: Incident, simulated: bool = False) -> None:
    hook(view_of(make_node(0, simulated=simulated), incidents=incidents))
    hook.wait()


def test_an_incident_is_posted_once_as_documented(server: Server, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("t0ken")
    hook = webhook(server.url, token_file=str(token))
    show(hook, INCIDENT)
    show(hook, INCIDENT)
    ((path, headers, body),) = server.asked
    assert path == "/hooks/s3cret"
    assert headers["Content-Type"] == "application/json"
    assert headers["Authorization"] == "Bearer t0ken"
    assert headers["User-Agent"].startswith("trntop/")
    found: dict[str, Any] = json.loads(body)
    assert found.pop("by").startswith("trntop ")
    assert found.pop("incident") == document.incident(INCIDENT)
    assert found == {
        "schema": 1,
        "event": "opened",
        "text": "critical: EFA card rdmap96s27 on trn-007 is degraded",
        "simulated": False,
    }


def test_its_end_is_posted_if_asked_for(server: Server) -> None:
    hook = webhook(server.url, closed=True)
    show(hook, INCIDENT)
    show(
        hook,
        make_incident(
            kind="efa_degraded",
            severity=Severity.CRITICAL,
            summary=INCIDENT.summary,
            closed_at=NOON,
        ),
    )
    bodies = [json.loads(body) for _, _, body in server.asked]
    assert [one["event"] for one in bodies] == ["opened", "closed"]
    assert bodies[1]["text"] == f"over: {INCIDENT.summary}"


def test_what_is_simulated_says_so(server: Server) -> None:
    show(webhook(server.url), INCIDENT, simulated=True)
    body = json.loads(server.asked[0][2])
    assert body["simulated"]
    assert body["text"].startswith("SIMULATED ")


def test_a_server_in_trouble_is_asked_again_and_then_given_up(server: Server) -> None:
    said: list[str] = []
    hook = webhook(server.url, said.append)
    server.answers = [503, 429]
    show(hook, INCIDENT)
    assert len(server.asked) == 3
    assert not said
    server.answers = [500] * 6
    show(hook, INCIDENT, make_incident(kind="2", severity=Severity.CRITICAL))
    show(hook, INCIDENT, make_incident(kind="3", severity=Severity.CRITICAL))
    assert len(server.asked) == 9
    assert said == ["incidents could not be posted to the webhook: HTTP status 500"]


def test_a_refusal_is_final_and_a_redirection_is_one(server: Server) -> None:
    said: list[str] = []
    hook = webhook(server.url, said.append)
    server.answers = [403]
    show(hook, INCIDENT)
    server.answers, server.location = [302], server.url
    show(hook, INCIDENT, make_incident(kind="2", severity=Severity.CRITICAL))
    assert len(server.asked) == 2
    assert [text.rpartition(" ")[2] for text in said] == ["403", "302"]


def test_nobody_there_is_said_without_the_address(server: Server) -> None:
    said: list[str] = []
    show(webhook("http://127.0.0.1:9/hooks/s3cret", said.append), INCIDENT)
    assert said == ["incidents could not be posted to the webhook: Connection refused"]


def test_a_server_that_does_not_answer_is_left_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with listening(threading.Event()) as silent:
        assert post(Target(silent.url), b"{}", 0.1) == ("no answer in 0.1 s", True)


def test_a_hook_that_hangs_neither_blocks_nor_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    said: list[str] = []
    with listening(threading.Event()) as silent:
        hook = webhook(silent.url, said.append)
        many = [
            make_incident(kind=f"{n}", severity=Severity.CRITICAL) for n in range(MAX_WAITING + 8)
        ]
        hook(view_of(make_node(0), incidents=tuple(many)))
        assert said == [
            "incidents could not be posted to the webhook: too many are queued, some are dropped"
        ]


# Where to


def test_secrets_come_from_files_and_show_nowhere(tmp_path: Path) -> None:
    (tmp_path / "url").write_text("https://hooks.example/s3cret\nsecond line\n")
    (tmp_path / "token").write_text("t0ken\n")
    settings = Notify(webhook_file=str(tmp_path / "url"), token_file=str(tmp_path / "token"))
    target = target_of(settings)
    assert (target.url, target.token) == ("https://hooks.example/s3cret", "t0ken")
    assert "s3cret" not in repr(target)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://h/s3cret",
        "s3cret",
        "http://",
        "http://h:x/s3cret",
        "http://h/s3cret\n",
        "http://é/s3cret",
    ],
)
def test_what_is_no_url_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(SettingsError, match=r"notify\.webhook must be an http") as caught:
        target_of(Notify(webhook=url))
    assert "s3cret" not in str(caught.value)


def test_what_is_wrong_with_a_file_is_said(tmp_path: Path) -> None:
    missing, empty = tmp_path / "missing", tmp_path / "empty"
    empty.write_text("\n")
    for settings, reason in (
        (Notify(webhook_file=str(missing)), "No such file"),
        (Notify(webhook_file=str(empty)), "no secret in its first line"),
        (Notify(webhook="http://h/", token_file=str(missing)), "No such file"),
        (Notify(webhook="http://h/", webhook_file=str(empty)), "only one of them"),
    ):
        with pytest.raises(SettingsError, match=reason):
            target_of(settings)
