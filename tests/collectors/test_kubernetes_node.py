"""HyperPod's labels of a node: a server that answers as the Kubernetes API does."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from trntop.collectors.kubernetes_node import NodeLabels, examine, reader_of
from trntop.collectors.polled import AbsentError
from trntop.sources.kubernetes_node import decode

LABELS = {
    "kubernetes.io/hostname": "ip-10-0-0-7",
    "sagemaker.amazonaws.com/node-health-status": "UnschedulablePendingReboot",
    "sagemaker.amazonaws.com/deep-health-check-status": "Failed",
    "sagemaker.amazonaws.com/fault-types": "NeuronError",
    "sagemaker.amazonaws.com/fault-reasons": "NeuronDeviceCountMismatch",
}


class Api(BaseHTTPRequestHandler):
    node: ClassVar[Any] = {"metadata": {"labels": LABELS}}

    def do_GET(self) -> None:
        allowed = self.headers["Authorization"] == "Bearer secret"
        known = self.path == "/api/v1/nodes/ip-10-0-0-7"
        moved = self.path == "/api/v1/nodes/moved"
        self.send_response(302 if moved else 200 if allowed and known else 404 if allowed else 403)
        if moved:
            self.send_header("Location", "/api/v1/nodes/ip-10-0-0-7")
        self.end_headers()
        self.wfile.write(json.dumps(self.node).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Api) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def account(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("secret\n")
    return tmp_path


def test_the_labels_of_hyperpod(url: str, account: Path) -> None:
    sample = decode(NodeLabels(url, "ip-10-0-0-7", account)())
    assert sample.facts["facts"] == {
        "hyperpod_health": "UnschedulablePendingReboot",
        "hyperpod_deep_check": "Failed",
        "hyperpod_fault": "NeuronError: NeuronDeviceCountMismatch",
    }
    found = examine(NodeLabels(url, "ip-10-0-0-7", account))
    assert (found.ok, found.found) == (True, "HyperPod states UnschedulablePendingReboot")


def test_a_fault_that_is_cleared_is_empty() -> None:
    labels = {"sagemaker.amazonaws.com/node-health-status": "Schedulable"}
    facts = decode(json.dumps({"labels": labels}).encode()).facts["facts"]
    assert facts == {
        "hyperpod_health": "Schedulable", "hyperpod_deep_check": "", "hyperpod_fault": "",
    }  # fmt: skip


def test_a_node_without_the_labels_has_no_facts() -> None:
    assert decode(b'{"labels":{}}').facts == {"facts": {}}


@pytest.mark.parametrize(("node", "code"), [("other", 404), ("a/../b", 404)])
def test_a_node_that_is_refused_is_absent(url: str, account: Path, node: str, code: int) -> None:
    with pytest.raises(AbsentError, match=rf"refuses node .* \({code}\); on HyperPod: kubectl"):
        NodeLabels(url, node, account)()


def test_the_token_is_not_sent_to_another_address(url: str, account: Path) -> None:
    with pytest.raises(OSError, match="answers 302"):
        NodeLabels(url, "moved", account)()


def test_an_account_without_rights(url: str, account: Path) -> None:
    (account / "token").write_text("other")
    assert not examine(NodeLabels(url, "ip-10-0-0-7", account)).ok
    (account / "token").unlink()
    with pytest.raises(AbsentError, match="no service account token"):
        NodeLabels(url, "ip-10-0-0-7", account)()


@pytest.mark.parametrize("answer", [[], {"metadata": {"labels": [1]}}, "x"])
def test_what_is_no_node_is_an_error(
    monkeypatch: pytest.MonkeyPatch, url: str, account: Path, answer: object
) -> None:
    monkeypatch.setattr(Api, "node", answer)
    with pytest.raises(OSError, match="is not a node"):
        NodeLabels(url, "ip-10-0-0-7", account)()


def test_only_a_pod_with_access_reads_labels(account: Path) -> None:
    pod = {"KUBERNETES_SERVICE_HOST": "fd00::1", "NODE_NAME": "n", "KUBERNETES_SERVICE_PORT": "1"}
    reader = reader_of(pod, account)
    assert reader is not None
    assert reader.url == "https://[fd00::1]:1"
    assert reader_of(pod, account / "none") is None
    assert reader_of({}, account) is None
    assert not examine(None).ok
