"""Snapshots without data: every output states why, and the exit code is not 0."""

import json

import pytest

from tests.collectors.prometheus.fake_prometheus import (
    Answer,
    failure,
    fake_backend,
    success,
)
from trntop.cli import main

FAILURES = {
    "bad request": (failure(400, "bad_data", "no such label"), "no such label"),
    "too large": (failure(422, "execution", "too many samples"), "too many samples"),
    "busy": (failure(429, "", "slow down"), "429: too many queries: slow down"),
    "unavailable": (Answer(503), "503: not available now"),
    "password": (Answer(401), "401: access denied"),
    "redirect": (Answer(302), "302: it redirects"),
    "error": (failure(200, "internal", "boom"), "the server reports an error: boom"),
    "web page": (Answer(body=b"<html>log in</html>"), "it responds with a web page"),
    "no JSON": (Answer(body=b"\x00"), "it responds, but not as Prometheus does"),
    "nothing": (success([]), "none of trntop"),
}


@pytest.mark.parametrize("name", FAILURES)
@pytest.mark.parametrize("form", ["text", "json"])
def test_fault_34_a_prometheus_that_fails_is_named_in_every_output(
    capsys: pytest.CaptureFixture[str], name: str, form: str
) -> None:
    answer, reason = FAILURES[name]
    with fake_backend(lambda _: answer) as server:
        options = ["--json"] if form == "json" else []
        assert main(["snapshot", *options, f"prometheus+{server.url}"]) == 1
    shown, output = capsys.readouterr()
    assert output.startswith("trntop: no data: ")
    assert reason in output
    if form == "json":
        assert reason in json.loads(shown)["problems"][0]
