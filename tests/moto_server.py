"""A simulated AWS over real HTTP on loopback: moto's server, and answers that it lacks."""

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

REGION = "us-west-2"
IMAGE = "ami-12c6146b"
"""One of those that moto knows."""

Answer = Callable[[list[str]], dict[str, Any]]
"""Takes the ids that are asked for, and gives what boto3 shall give."""


@contextlib.contextmanager
def simulated_aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Runs the server, sends every AWS client there, and gives its URL; its state is new."""
    pytest.importorskip("boto3")
    server_of = pytest.importorskip("moto.server")
    server = server_of.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    variables = {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": REGION,
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_REGION", "http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    try:
        client_of("ec2").meta.events  # noqa: B018  # boto3 is loaded here, not in a test's deadline
        reset(url)
        yield url
    finally:
        server.stop()


def reset(url: str) -> None:
    """Forgets all instances and metrics."""
    import httpx

    httpx.post(f"{url}/moto-api/reset", trust_env=False).raise_for_status()


def answer(monkeypatch: pytest.MonkeyPatch, operation: str, ids: str, give: Answer) -> None:
    """Has the simulated EC2 answer an operation that moto lacks.

    Args:
        monkeypatch: takes it back.
        operation: as boto3 spells it.
        ids: the parameter with the ids that are asked for.
        give: makes the answer.
    """
    from moto.core.responses import ActionResult
    from moto.ec2.responses.instances import InstanceResponse

    def respond(self: Any) -> Any:
        return ActionResult(give(self._get_param(ids, [])))

    monkeypatch.setattr(InstanceResponse, operation, respond, raising=False)


def client_of(service: str) -> Any:
    """A client of the simulated AWS, for setting it up."""
    return _client(service, os.environ["AWS_ENDPOINT_URL"])


@functools.cache
def _client(service: str, url: str) -> Any:
    import boto3

    session: Any = boto3.session.Session()
    return session.client(service, region_name=REGION, endpoint_url=url)


def launch(count: int, tags: dict[str, str], kind: str = "trn2.48xlarge") -> list[str]:
    """Starts instances and gives their ids."""
    ec2 = client_of("ec2")
    started = ec2.run_instances(
        ImageId=IMAGE,
        InstanceType=kind,
        MinCount=count,
        MaxCount=count,
        TagSpecifications=[
            {
                "ResourceType": "instance",
                "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
            }
        ],
    )
    return [instance["InstanceId"] for instance in started["Instances"]]
