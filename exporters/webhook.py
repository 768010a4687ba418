"""Posts incidents to a webhook as they open and close.

The document is described in `docs/notify.md`. The URL and the token are secrets: they come from a
file or the environment, and no message contains them.
"""

import http.client
import queue
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from trntop import __version__
from trntop.core.errors import SettingsError
from trntop.core.model import View
from trntop.core.settings import Notify
from trntop.session.notify import Changes, Event

from . import document

SCHEMA = 1
TIMEOUT = 5.0
"""Seconds that the server may be silent."""
RETRIES = (2.0, 10.0)
"""Seconds before the second and the third attempt."""
MAX_WAITING = 64
"""Limit of queued posts; more are dropped and reported."""
MAX_SECRET = 4096


@dataclass(frozen=True, slots=True)
class Target:
    """Where posts go."""

    url: str = field(repr=False)
    token: str = field(default="", repr=False)


def target_of(settings: Notify) -> Target:
    """The target in the settings.

    Raises:
        SettingsError: a file cannot be read, or the URL is not valid; without the secret itself.
    """
    if settings.webhook and settings.webhook_file:
        raise SettingsError("notify.webhook and notify.webhook_file: only one of them")
    url, name = settings.webhook, "notify.webhook"
    if settings.webhook_file:
        url, name = _secret(settings.webhook_file, "webhook_file"), "notify.webhook_file"
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid or not url.isascii() or not url.isprintable() or " " in url:
        raise SettingsError(f"{name} must be an http or https URL")
    return Target(url, _secret(settings.token_file, "token_file") if settings.token_file else "")


def _secret(path: str, setting: str) -> str:
    """The first line of a file."""
    try:
        with Path(path).open("rb") as file:
            secret = file.read(MAX_SECRET).partition(b"\n")[0].strip().decode("ascii")
    except OSError as error:
        raise SettingsError(f"notify.{setting}: {path}: {error.strerror}") from error
    except ValueError:
        secret = ""
    if not secret or not secret.isprintable():
        raise SettingsError(f"notify.{setting}: {path}: no secret in its first line")
    return secret


def body_of(event: Event, view: View) -> dict[str, Any]:
    """The document to post."""
    incident = event.incident
    simulated = "SIMULATED " if view.cluster.simulated else ""
    state = str(incident.severity) if event.what == "opened" else "over"
    return {
        "schema": SCHEMA,
        "by": f"trntop {__version__}",
        "event": event.what,
        # The name under which Slack, Mattermost and Google Chat expect a message.
        "text": f"{simulated}{state}: {incident.summary}",
        "simulated": view.cluster.simulated,
        "incident": document.incident(incident),
    }


class Webhook:
    """Posts incidents from its own thread; subscribe it.

    Args:
        settings: the target, and which incidents to post.
        report: receives the errors, on that thread.
        retries: seconds before each further attempt.

    Raises:
        SettingsError: as of `target_of`.
    """

    def __init__(
        self, settings: Notify, report: Callable[[str], None], retries: Sequence[float] = RETRIES
    ) -> None:
        self._target = target_of(settings)
        self._changes = Changes(settings)
        self._report = report
        self._retries = retries
        self._waiting: queue.Queue[bytes] = queue.Queue(MAX_WAITING)
        self._thread: threading.Thread | None = None
        self._failed = ""

    def __call__(self, view: View) -> None:
        """Queues the events of a view; returns at once."""
        for event in self._changes(view):
            try:
                self._waiting.put_nowait(msgspec.json.encode(body_of(event, view)))
            except queue.Full:
                self._report_once("too many are queued, some are dropped")
            if self._thread is None:
                self._thread = threading.Thread(target=self._post_all, name="notify", daemon=True)
                self._thread.start()

    def wait(self) -> None:
        """Returns when the queue is empty."""
        self._waiting.join()

    def _post_all(self) -> None:
        pause = threading.Event()
        while True:
            body = self._waiting.get()
            for seconds in (*self._retries, None):
                reason, retry = post(self._target, body)
                if not retry or seconds is None:
                    break
                pause.wait(seconds)
            self._report_once(reason)
            self._waiting.task_done()

    def _report_once(self, reason: str) -> None:
        """Reports a failure, once for each reason in a row; an empty one is a success."""
        if reason and reason != self._failed:
            self._report(f"incidents could not be posted to the webhook: {reason}")
        self._failed = reason


def post(target: Target, body: bytes, timeout: float = TIMEOUT) -> tuple[str, bool]:
    """Posts JSON; the reason of a failure, empty without one, and whether to retry.

    Redirects are not followed: they would send the token elsewhere.
    """
    headers = {"Content-Type": "application/json", "User-Agent": f"trntop/{__version__}"}
    if target.token:
        headers["Authorization"] = f"Bearer {target.token}"
    request = urllib.request.Request(target.url, body, headers)
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=timeout):
            return "", False
    except urllib.error.HTTPError as error:
        error.close()
        return f"HTTP status {error.code}", error.code == 429 or error.code >= 500
    except (OSError, http.client.HTTPException, ValueError) as error:
        # Many of these have the URL in their text.
        cause = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(cause, TimeoutError):
            return f"no answer in {timeout:g} s", True
        return getattr(cause, "strerror", None) or type(cause).__name__, True


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None
