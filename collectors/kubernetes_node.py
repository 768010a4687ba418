"""The labels of this machine's Kubernetes node, by the API server.

A pod finds the server by its environment, and its token and the server's certificate in a mounted
directory (Kubernetes, "Accessing the Kubernetes API from a Pod").
"""

import os
import ssl
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from trntop.catalog import KUBERNETES_NODE
from trntop.core.text import clean
from trntop.session.collector import Examination
from trntop.sources.kubernetes_node import HEALTH, PERIOD, PREFIX, decode

from .local_source import LocalSource
from .polled import AbsentError, Polled

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TIMEOUT = 10.0
MAX_BYTES = 4 << 20
REMEDY = "on HyperPod: kubectl apply -k deploy/kubernetes/hyperpod"


class _Metadata(msgspec.Struct):
    labels: dict[str, str] = {}


class _Node(msgspec.Struct):
    metadata: _Metadata


_nodes = msgspec.json.Decoder(_Node)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The token is for the API server alone; urllib would send it along."""

    def redirect_request(self, *args: Any) -> None:
        return None


@dataclass(frozen=True)
class NodeLabels:
    """Reads the payload of source `kubernetes-node`."""

    url: str
    """Of the API server."""
    node: str
    account: Path = ACCOUNT
    """Directory of the token and the certificate."""

    def __call__(self) -> bytes:
        """The labels that HyperPod sets.

        Raises:
            AbsentError: the service account may not get the node, or there is none.
            OSError: there is no usable response.
        """
        try:
            # Renewed by the kubelet: read each time.
            token = (self.account / "token").read_text().strip()
        except OSError as error:
            raise AbsentError(f"no service account token: {error.strerror}", REMEDY) from None
        handlers: list[urllib.request.BaseHandler] = [
            urllib.request.ProxyHandler({}),
            _NoRedirect(),
        ]
        if self.url.startswith("https:"):
            context = ssl.create_default_context(cafile=str(self.account / "ca.crt"))
            handlers.append(urllib.request.HTTPSHandler(context=context))
        request = urllib.request.Request(  # noqa: S310 (the API server of the pod)
            f"{self.url}/api/v1/nodes/{urllib.parse.quote(self.node, safe='')}",
            headers={"Authorization": f"Bearer {token}", "Accept": "application/json"},
        )
        try:
            with urllib.request.build_opener(*handlers).open(request, timeout=TIMEOUT) as answer:
                data = answer.read(MAX_BYTES + 1)
        except urllib.error.HTTPError as error:
            if error.code in (401, 403, 404):
                found = f"the API server refuses node {clean(self.node, 64)} ({error.code})"
                raise AbsentError(found, REMEDY) from None
            raise OSError(f"the API server answers {error.code}") from None
        except urllib.error.URLError as error:
            raise OSError(clean(f"no response of the API server: {error.reason}")) from None
        except ValueError as error:  # no HTTP
            raise OSError("no usable response of the API server") from error
        if len(data) > MAX_BYTES:
            raise OSError(f"the node is larger than {MAX_BYTES >> 20} MiB")
        try:
            labels = _nodes.decode(data).metadata.labels
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise OSError("the response of the API server is not a node") from error
        ours = {name: value for name, value in labels.items() if name.startswith(PREFIX)}
        return msgspec.json.encode({"period": PERIOD, "labels": ours})


def reader_of(environ: dict[str, str], account: Path = ACCOUNT) -> NodeLabels | None:
    """The reader in a pod that has access to the API; None elsewhere."""
    host, node = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("NODE_NAME", "")
    if not (host and node and (account / "token").exists()):
        return None
    port = environ.get("KUBERNETES_SERVICE_PORT", "443")
    return NodeLabels(f"https://{f'[{host}]' if ':' in host else host}:{port}", node, account)


def examine(reader: NodeLabels | None) -> Examination:
    """Whether the node's labels can be read, and HyperPod's are among them."""
    if reader is None:
        return Examination(KUBERNETES_NODE, False, "no access to the Kubernetes API", REMEDY)
    try:
        payload = reader()
    except AbsentError as error:
        return Examination(KUBERNETES_NODE, False, error.found, error.remedy)
    except OSError as error:
        return Examination(KUBERNETES_NODE, False, str(error), "check the network of the pod")
    health = decode(payload).facts["facts"].get("hyperpod_health")
    found = f"HyperPod states {health}" if health else f"the node has no label {HEALTH}"
    return Examination(KUBERNETES_NODE, True, found)


def _collect(node: str, reader: NodeLabels | None) -> Polled | None:
    if reader is None:
        return None
    return Polled(node, KUBERNETES_NODE, reader, PERIOD, deadline=TIMEOUT + 2.0)


LOCAL = LocalSource(
    lambda context: _collect(context.node, reader_of(dict(os.environ))),
    lambda settings: examine(reader_of(dict(os.environ))),
)
