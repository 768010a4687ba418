"""Posts incidents to a webhook as they open and close.

The document is described in `docs/notify.md`. The address and the token are secrets: they come
from a file or the environment, and no message names them.
"""

import http.client
import queue
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from trntop import __version__
from trntop.core.errors import SettingsError
from trntop.core.model import Incident, View
from trntop.core.settings import Notify
from trntop.session.notify import Changes, Event

SCHEMA = 1
TIMEOUT = 5.0
"""Seconds that the other side may be silent."""
PAUSES = (2.0, 10.0)
"""Seconds before a post is tried a second and a third time."""
WAITING = 64
"""Limit of queued posts; more are dropped and reported."""
MAX_SECRET = 4096

Tell = Callable[[str], None]
Describe = Callable[[Incident], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Target:
    """Where posts go."""

    url: str
    token: str = ""

    def __repr__(self) -> str:
        """Without its secrets."""
        return "Target(…)"


def target_of(settings: Notify) -> Target:
    """Where the settings send posts, if they do.

    Raises:
        SettingsError: a file cannot be read, or the URL is none; never with the secret itself.
    """
    if settings.webhook and settings.webhook_file:
        raise SettingsError("notify.webhook and notify.webhook_file: only one of them")
    url, name = settings.webhook, "notify.webhook"
    if settings.webhook_file:
        url, name = _secret(settings.webhook_file, "webhook_file"), "notify.webhook_file"
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or not url.isascii() or not url.isprintable() or " " in url:
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


def document(event: Event, view: View, describe: Describe) -> dict[str, Any]:
    """What is posted.

    Args:
        event: what happened.
        view: when.
        describe: one incident as `trntop analyze --json` has it.
    """
    incident = event.incident
    simulated = "SIMULATED " if view.cluster.simulated else ""
    state = str(incident.severity) if event.what == "opened" else "over"
    return {
        "schema": SCHEMA,
        "by": f"trntop {__version__}",
        "event": event.what,
        # The name under which Slack, Mattermost and Google Chat take a message.
        "text": f"{simulated}{state}: {incident.summary}",
        "simulated": view.cluster.simulated,
        "incident": describe(incident),
    }


class Webhook:
    """Posts incidents from its own thread; subscribe it.

    Args:
        target: where posts go.
        settings: which incidents to post.
        describe: one incident as `trntop analyze --json` has it.
        tell: receives the errors, on that thread.
        pauses: seconds before each further attempt.
    """

    def __init__(
        self,
        target: Target,
        settings: Notify,
        describe: Describe,
        tell: Tell,
        pauses: Sequence[float] = PAUSES,
    ) -> None:
        self._target = target
        self._changes = Changes(settings)
        self._describe = describe
        self._tell = tell
        self._pauses = pauses
        self._waiting: queue.Queue[bytes] = queue.Queue(WAITING)
        self._thread: threading.Thread | None = None
        self._failed = ""

    def __call__(self, view: View) -> None:
        """Takes a view; returns at once."""
        for event in self._changes(view):
            body = msgspec.json.encode(document(event, view, self._describe))
            try:
                self._waiting.put_nowait(body)
            except queue.Full:
                self._say("too many wait, some are dropped")
            if self._thread is None:
                self._thread = threading.Thread(target=self._post_all, name="notify", daemon=True)
                self._thread.start()

    def wait(self) -> None:
        """Returns when nothing waits."""
        self._waiting.join()

    def _post_all(self) -> None:
        rest = threading.Event()
        while True:
            body = self._waiting.get()
            for pause in (*self._pauses, None):
                reason, again = post(self._target, body)
                if not again or pause is None:
                    break
                rest.wait(pause)
            self._say(reason)
            self._waiting.task_done()

    def _say(self, reason: str) -> None:
        """Tells why an incident was not posted, once for each reason in a row."""
        if reason and reason != self._failed:
            self._tell(f"incidents could not be posted to the webhook: {reason}")
        self._failed = reason


def post(target: Target, body: bytes, timeout: float = TIMEOUT) -> tuple[str, bool]:
    """Posts JSON; why that failed, empty if it did not, and whether trying again may help.

    Redirections are not followed: they would carry the token to somebody else.
    """
    request = urllib.request.Request(target.url, body, method="POST")
    request.add_header("Content-Type", "application/json")
    request.add_header("User-Agent", f"trntop/{__version__}")
    if target.token:
        request.add_unredirected_header("Authorization", f"Bearer {target.token}")
    try:
        with urllib.request.build_opener(_Straight).open(request, timeout=timeout):
            return "", False
    except urllib.error.HTTPError as error:
        error.close()
        return f"HTTP status {error.code}", error.code == 429 or error.code >= 500
    except (OSError, http.client.HTTPException, ValueError) as error:
        # Many of these name the address in their text.
        cause = error.reason if isinstance(error, urllib.error.URLError) else error
        known = cause.strerror if isinstance(cause, OSError) else None
        timed_out = isinstance(cause, TimeoutError)
        return "no answer in time" if timed_out else known or type(cause).__name__, True


class _Straight(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Refuses."""
