"""A server that answers as Prometheus does, or as it should not."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

Rows = Sequence[tuple[Mapping[str, str], float | str]]


@dataclass
class Answer:
    """What goes over the wire; `pieces` of a body are sent as they come."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    pieces: Iterator[bytes] | None = None


@dataclass
class Request:
    """One request."""

    path: str
    form: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes


Reply = Callable[[Request], Answer]


def success(data: Any, **more: Any) -> Answer:
    return Answer(body=json.dumps({"status": "success", "data": data, **more}).encode())


def vector(rows: Rows, **more: Any) -> Answer:
    """An instant vector."""
    result = [{"metric": dict(labels), "value": [1.0, str(value)]} for labels, value in rows]
    return success({"resultType": "vector", "result": result}, **more)


def matrix(rows: Sequence[tuple[Mapping[str, str], Sequence[tuple[float, float]]]]) -> Answer:
    result = [
        {"metric": dict(labels), "values": [[at, str(value)] for at, value in values]}
        for labels, values in rows
    ]
    return success({"resultType": "matrix", "result": result})


def failure(status: int, kind: str, text: str, **headers: str) -> Answer:
    body = json.dumps({"status": "error", "errorType": kind, "error": text}).encode()
    return Answer(status, body, headers)


class FakePrometheus(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, reply: Reply) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.reply = reply
        self.requests: list[Request] = []
        self.dropped = threading.Event()
        """A client has gone away while it was answered."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def queries(self) -> list[str]:
        return [request.form["query"] for request in self.requests if "query" in request.form]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FakePrometheus

    def do_GET(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        form = {
            name: values[0] for name, values in parse_qs(parts.query + "&" + body.decode()).items()
        }
        request = Request(parts.path, form, dict(self.headers), body)
        self.server.requests.append(request)
        answer = self.server.reply(request)
        try:
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name.replace("_", "-"), value)
            if answer.pieces is None:
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)
                return
            self.send_header("Connection", "close")
            self.end_headers()
            for piece in answer.pieces:
                self.wfile.write(piece)
        except OSError:
            self.server.dropped.set()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@contextmanager
def fake_backend(reply: Reply) -> Iterator[FakePrometheus]:
    """A server, until the end of the block."""
    server = FakePrometheus(reply)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


class Cluster:
    """What a Prometheus has of some nodes: a reply for `fake_backend`, whose parts tests change.

    Args:
        nodes: their names.
    """

    def __init__(self, nodes: Sequence[str], **labels: str) -> None:
        self.nodes = list(nodes)
        self.labels = labels
        self.facts = {"instance_type": "trn2.48xlarge", "lnc": "2", "simulated": "false"}
        self.age = 2.0
        """Seconds since the newest sample."""
        self.names = ["trn_instance_info", "trn_incidents", "up"]
        self.values: dict[str, float] = {"trn_node_neuroncore_utilization_mean_ratio": 0.9}
        self.incidents: list[tuple[Mapping[str, str], float]] = []
        self.down: list[str] = []
        self.other: dict[str, Answer] = {}
        """Part of a query → the answer to it, over all else."""
        self.warnings: list[str] = []

    def row(self, node: str, name: str = "", **more: str) -> dict[str, str]:
        named = {"__name__": name} if name else {}
        labels = {"node": node, "instance": f"{node}:10042", "job": "trntop"}
        return {**named, **labels, **self.labels, **more}

    def __call__(self, request: Request) -> Answer:
        if request.path.endswith("buildinfo"):
            return success({"version": "9.9.9"})
        if request.path.endswith("/values"):
            return success(self.names)
        query = request.form.get("query", "")
        for part, answer in self.other.items():
            if part in query:
                return answer
        if request.path.endswith("query_range") or query.endswith("]"):
            return matrix([])
        return vector(self._rows(query), warnings=self.warnings)

    def _rows(self, query: str) -> Rows:
        if query.startswith("group by (job)"):
            return [({"job": "trntop"}, 1)]
        if query.startswith("count("):
            return [({}, len(self.nodes))]
        if query.startswith("timestamp"):
            meant = [node for node in self.nodes if "node=~" not in query or node in query]
            return [(self.row(node, **self.facts), time.time() - self.age) for node in meant]
        if query.startswith("min by (kind"):
            return self.incidents
        if query.startswith("up{"):
            return [({"instance": f"{node}:10042", "job": "trntop"}, 0) for node in self.down]
        if query.startswith("{") and "node=~" in query:
            return self._of([node for node in self.nodes if node in query])
        return self._of(self.nodes) if "trn_node_devices" in query else []

    def _of(self, nodes: Sequence[str]) -> list[tuple[Mapping[str, str], float | str]]:
        return [
            (self.row(node, name), value) for node in nodes for name, value in self.values.items()
        ]
