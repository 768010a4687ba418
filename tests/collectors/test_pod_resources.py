"""Against a real gRPC server, and against what is none."""

import base64
import builtins
import contextlib
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.collectors.recording_sink import RecordingSink, running
from trntop.catalog import POD_RESOURCES
from trntop.collectors import grpc_call
from trntop.collectors.pod_resources import METHOD, PodResourcesReader, examine
from trntop.collectors.polled import AbsentError, Polled
from trntop.core.model import Allocation, State
from trntop.sources.allocations import decode_pods

Kubelet = Callable[[], contextlib.AbstractContextManager[Path]]
FAKE = Path(__file__).parent.parent / "fakes" / "kubelet.py"

# Encoded by Google's protobuf from the kubelet's api.proto: pod ml/pretrain-0 with devices 0, 1, 8
# (and an EFA device, CPUs and huge pages), research/notebook with two cores, inference/serve-7f9c
# with two devices by dynamic allocation (and a GPU), and a pod that has nothing.
ANSWER = base64.b64decode(
    "CrUBCgpwcmV0cmFpbi0wEgJtbBqTAQoGd29ya2VyEiEKFWF3cy5hbWF6b24uY29tL25ldXJvbhIBMBIBMRoCCgAS"
    "IAoVYXdzLmFtYXpvbi5jb20vbmV1cm9uEgE4GgQKAggBEiMKFXZwYy5hbWF6b25hd3MuY29tL2VmYRIKcmRtYXAx"
    "NnMyNxoEAAG/ASIZCg1odWdlcGFnZXMtMk1pEICAgIAqGgIKABoNCgdzaWRlY2FyGgKsAgpECghub3RlYm9vaxII"
    "cmVzZWFyY2gaLgoHanVweXRlchIjChlhd3MuYW1hem9uLmNvbS9uZXVyb25jb3JlEgIxMhICMTMKoAIKCnNlcnZl"
    "LTdmOWMSCWluZmVyZW5jZRqGAgoEdmxsbSrPARIYc2VydmUtN2Y5Yy1uZXVyb25zLXpkazc2GglpbmZlcmVuY2Ui"
    "UwolCiNuZXVyb24uYXdzLmNvbS9uZXVyb249bmV1cm9uZGV2aWNlNBIObmV1cm9uLmF3cy5jb20aC2lwLTEwLTAt"
    "MC0xIg1uZXVyb25kZXZpY2U0IlMKJQojbmV1cm9uLmF3cy5jb20vbmV1cm9uPW5ldXJvbmRldmljZTUSDm5ldXJv"
    "bi5hd3MuY29tGgtpcC0xMC0wLTAtMSINbmV1cm9uZGV2aWNlNSosEgVvdGhlchoJaW5mZXJlbmNlIhgSD2dwdS5l"
    "eGFtcGxlLmNvbSIFZ3B1LTAKJwoNY29yZWRucy01ZDc4YxILa3ViZS1zeXN0ZW0aCQoHY29yZWRucw=="
)
HELD = (
    Allocation(namespace="ml", pod="pretrain-0", container="worker", devices=(0, 1, 8)),
    Allocation(namespace="research", pod="notebook", container="jupyter", cores=(12, 13)),
    Allocation(
        namespace="inference",
        pod="serve-7f9c",
        container="vllm",
        claim="inference/serve-7f9c-neurons-zdk76",
        devices=(4, 5),
    ),
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: a socket's has at most 107 bytes."""
    path = Path(tempfile.mkdtemp(prefix="trntop-"))
    yield path
    shutil.rmtree(path)


@contextlib.contextmanager
def process(folder: Path, delay: float = 0.0) -> Iterator[None]:
    """A server on `folder/k.sock` that answers with `folder/answer`."""
    arguments = [
        *(sys.executable, str(FAKE), str(folder / "k.sock"), str(folder / "answer")),
        f"--delay={delay}",
    ]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == "ready\n"
            yield
        finally:
            server.kill()


@pytest.fixture(scope="module")
def one_process() -> Iterator[Path]:
    """The folder of a server for the whole module."""
    pytest.importorskip("grpc", reason="grpcio is not installed")
    with tempfile.TemporaryDirectory(prefix="trntop-") as name, process(Path(name)):
        yield Path(name)


@pytest.fixture
def kubelet(one_process: Path, folder: Path) -> Kubelet:
    """A kubelet that runs for a block on `folder/k.sock`, and answers with `folder/answer`."""

    @contextlib.contextmanager
    def run() -> Iterator[Path]:
        answer, path = one_process / "answer", folder / "k.sock"
        answer.symlink_to(folder / "answer")
        path.symlink_to(one_process / "k.sock")
        try:
            yield path
        finally:
            answer.unlink()
            path.unlink(missing_ok=True)

    return run


@contextlib.contextmanager
def listener(folder: Path, *replies: bytes) -> Iterator[Path]:
    """A server that sends the same to every client, and closes."""
    path = folder / "k.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(str(path))
        server.listen()
        server.settimeout(5.0)

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                for chunk in replies:
                    connection.sendall(chunk)

        thread = threading.Thread(target=serve)
        thread.start()
        yield path
        thread.join()


def test_it_lists_the_holders_of_devices(folder: Path, kubelet: Kubelet) -> None:
    (folder / "answer").write_bytes(ANSWER)
    with kubelet() as path:
        payload = PodResourcesReader(path)()
        sample = decode_pods(payload)
        assert sample.facts["allocations"] == HELD
        assert sample.problems == ()
        assert b"coredns" not in payload, "pods without Neuron devices are not reported"
        assert examine(path).found == "3 containers with Neuron devices"
        (folder / "answer").write_bytes(b"")
        assert decode_pods(PodResourcesReader(path)()).facts == {"allocations": ()}


def test_the_payload_is_plain_json(folder: Path, kubelet: Kubelet) -> None:
    (folder / "answer").write_bytes(ANSWER)
    with kubelet() as path:
        first, second, third = json.loads(PodResourcesReader(path)())["pods"]
    neuron = "aws.amazon.com/neuron"
    assert first == {
        "namespace": "ml",
        "name": "pretrain-0",
        "containers": [
            {
                "name": "worker",
                "devices": [
                    {"resource": neuron, "ids": ["0", "1"]},
                    {"resource": neuron, "ids": ["8"]},
                ],
            }
        ],
    }
    assert second["containers"][0]["devices"][0]["ids"] == ["12", "13"]
    assert third["containers"][0]["claims"][0] == {
        "namespace": "inference",
        "name": "serve-7f9c-neurons-zdk76",
        "driver": "neuron.aws.com",
        "pool": "ip-10-0-0-1",
        "device": "neurondevice4",
    }


def test_a_long_answer_comes_in_many_frames(folder: Path, kubelet: Kubelet) -> None:
    (folder / "answer").write_bytes(5000 * ANSWER)
    with kubelet() as path:
        assert grpc_call.call(path, METHOD, 10.0) == 5000 * ANSWER


def test_a_refusal_has_a_reason(folder: Path, kubelet: Kubelet) -> None:
    with kubelet() as path:
        with pytest.raises(OSError, match="gRPC status 14, not yet: 50% of \ufffd pods"):
            PodResourcesReader(path)()
        with pytest.raises(OSError, match="gRPC status 12"):
            grpc_call.call(path, "/v1.PodResourcesLister/Get", 5.0)
        assert not examine(path).ok


def test_a_slow_one_is_given_up(folder: Path) -> None:
    (folder / "answer").write_bytes(ANSWER)
    # The server knows the deadline too, and may be the first to notice.
    late = r"within 0\.3 s|Deadline Exceeded"
    pytest.importorskip("grpc", reason="grpcio is not installed")
    path = folder / "k.sock"
    with process(folder, delay=30.0), pytest.raises(OSError, match=late):
        PodResourcesReader(path, deadline=0.3)()


def test_an_answer_that_is_none(folder: Path, kubelet: Kubelet) -> None:
    (folder / "answer").write_bytes(b"\x0a\x7fcut")
    with kubelet() as path, pytest.raises(OSError, match="cannot be decoded: cut off"):
        PodResourcesReader(path)()


def test_an_answer_beyond_the_limit(
    folder: Path, kubelet: Kubelet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grpc_call, "MAX_BYTES", 1 << 20)
    (folder / "answer").write_bytes(bytes(2 << 20))
    with kubelet() as path, pytest.raises(OSError, match="more than 1 MiB"):
        PodResourcesReader(path)()


@pytest.mark.parametrize(
    ("replies", "why"),
    [
        (b"HTTP/1.0 400 Bad Request\r\n\r\n", "closed during the response"),
        (bytes.fromhex("000000 04 00 00000001"), "does not support HTTP/2"),
        (b"", "closed during the response"),
    ],
)
def test_a_server_without_grpc(folder: Path, replies: bytes, why: str) -> None:
    with listener(folder, replies) as path, pytest.raises(OSError, match=why):
        PodResourcesReader(path)()


def test_no_kubelet_here(folder: Path) -> None:
    reader = PodResourcesReader(folder / "k.sock")
    with pytest.raises(AbsentError, match="no socket"):
        reader()
    (folder / "k.sock").touch()
    with pytest.raises(AbsentError, match="no socket"):
        reader()
    assert "mount" in examine(folder / "k.sock").remedy


def test_without_the_package_the_remedy_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name.startswith("h2"):
            raise ModuleNotFoundError(name)
        return imported(name, *rest)

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(str(folder / "k.sock"))
        monkeypatch.setattr(builtins, "__import__", refuse)
        finding = examine(folder / "k.sock")
    assert not finding.ok
    assert finding.remedy == ".venv/bin/pip install '.[kubernetes]'"


async def test_the_last_response_is_kept_while_a_kubelet_restarts(
    folder: Path, kubelet: Kubelet
) -> None:
    (folder / "answer").write_bytes(ANSWER)
    sink = RecordingSink()
    reader = PodResourcesReader(folder / "k.sock")
    collector = Polled("n", POD_RESOURCES, reader, 0.05, deadline=5.0, retry_interval=0.05)
    with kubelet():
        async with running(collector, sink):
            await sink.until(lambda: len(sink.readings) > 1)
            (folder / "answer").unlink()
            await sink.until(lambda: sink.reasons(State.DOWN))
            count = len(sink.readings)
            (folder / "answer").write_bytes(ANSWER)
            await sink.until(lambda: len(sink.readings) > count)
    assert "not yet" in sink.reasons(State.DOWN)[0]
    assert {reading.source for reading in sink.readings} == {POD_RESOURCES}
