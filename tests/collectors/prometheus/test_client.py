"""What can go wrong with a question, each kind by its name."""

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.collectors.prometheus.fake_prometheus import (
    Answer,
    FakePrometheus,
    Request,
    failure,
    fake_backend,
    success,
    vector,
)
from trntop.collectors.prometheus import client as client_module
from trntop.collectors.prometheus import queries
from trntop.collectors.prometheus.address import parse
from trntop.collectors.prometheus.client import BackendError, Client, Result
from trntop.core.settings import Fleet


async def _ask(server: FakePrometheus, fleet: Fleet, seconds: float) -> Result:
    client = Client(parse(f"prometheus+{server.url}"), fleet)
    try:
        return await client.instant("up", 1000.0, seconds)
    finally:
        await client.close()


def ask(server: FakePrometheus, fleet: Fleet | None = None, seconds: float = 5.0) -> Result:
    return asyncio.run(_ask(server, fleet or Fleet(), seconds))


def refused(answer: Answer) -> BackendError:
    with fake_backend(lambda _: answer) as server, pytest.raises(BackendError) as caught:
        ask(server)
    return caught.value


def test_it_asks_by_post_at_one_instant_with_a_time_limit() -> None:
    with fake_backend(lambda _: vector([({"a": "b"}, 1)])) as server:
        assert [*ask(server).rows()] == [({"a": "b"}, 1.0)]
    (request,) = server.requests
    assert request.path == "/api/v1/query"
    assert request.form == {"query": "up", "time": "1000.000", "timeout": "5s", "nocache": "1"}
    assert request.headers["Accept-Encoding"] == "identity"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (failure(400, "bad_data", "parse error"), "parse error"),
        (failure(422, "execution", "query processing would load too many samples"),
         "too many samples"),
        (failure(422, "422", "cannot select more than -search.maxUniqueTimeseries"),
         "maxUniqueTimeseries"),
        (failure(503, "timeout", "query timed out"), "query timed out"),
        (Answer(503, b"<html>overloaded"), "503"),
        (Answer(401, b""), "fleet.token_file"),
        (Answer(302, b"", {"Location": "https://login.example/?next=secret"}),
         "redirects"),
        (Answer(404, b"404 page not found"), "prefix"),
        (Answer(200, b"<!DOCTYPE html><form>"), "login"),
        (Answer(200, b'{"status":"error","errorType":"internal","error":"boom"}'),
         "boom"),
        (Answer(200, b'{"status":"success"}'), "as Prometheus"),
        (Answer(200, b'{"status":"success","data":{"resultType":"vec'), "not"),
        (Answer(200, b"\xff\xfe"), "not"),
        (Answer(200, b"[" * 100_000), "not"),
        (success({"resultType": "scalar", "result": [1, "2"]}), "not"),
        (Answer(200, b"\x1f\x8b", {"Content-Encoding": "gzip"}), "compressed"),
    ],
)  # fmt: skip
def test_each_failure_has_its_reason(answer: Answer, words: str) -> None:
    error = refused(answer)
    assert words in str(error)
    assert "secret" not in str(error)


def test_fault_29_a_redirect_of_a_backend_is_not_followed() -> None:
    with fake_backend(lambda _: vector([])) as other:
        for status in (301, 302, 303, 307, 308):
            error = refused(Answer(status, b"", {"Location": f"{other.url}/api/v1/query"}))
            assert "redirects" in str(error)
    assert other.requests == []


def test_an_error_message_is_cut() -> None:
    shown = str(refused(failure(400, "bad_data", "x" * 10_000)))
    assert 100 < shown.count("x") <= client_module.MAX_TEXT


def test_it_waits_as_long_as_specified() -> None:
    error = refused(Answer(429, b"slow down", {"Retry-After": "17"}))
    assert error.wait == 17.0
    assert refused(Answer(429, b"", {"Retry-After": "999999"})).wait == client_module.MAX_WAIT
    assert refused(Answer(429, b"", {"Retry-After": "soon"})).wait is None


def test_no_server() -> None:
    with fake_backend(lambda _: vector([])) as server:
        pass
    with pytest.raises(BackendError) as caught:
        ask(server)
    assert "refused" in str(caught.value)


def test_a_server_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "SLACK", 0.1)

    def slowly(_: Request) -> Answer:
        time.sleep(0.8)
        return vector([])

    began = time.monotonic()
    with fake_backend(slowly) as server, pytest.raises(BackendError) as caught:
        ask(server, seconds=0.2)
    assert "no response within 0.2 s" in str(caught.value)
    assert time.monotonic() - began < 3


def test_an_endless_matrix_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "MAX_BYTES", 1 << 20)

    def endless() -> Iterator[bytes]:
        yield b'{"status":"success","data":{"resultType":"matrix","result":['
        row = json.dumps({"metric": {"a": "b"}, "values": [[1, "2"]] * 100}).encode()
        for _ in range(5_000_000 // 100):
            yield row + b","

    with fake_backend(lambda _: Answer(pieces=endless())) as server:
        with pytest.raises(BackendError) as caught:
            ask(server)
        assert "1 MiB" in str(caught.value)
        assert server.dropped.wait(5)


def test_fault_28_empty_series_are_counted_before_they_take_memory() -> None:
    """16 MB of `{}` would take 640 MB as series."""
    rows = b"{}," * (client_module.MAX_ITEMS + 1) + b"{}"
    body = b'{"status":"success","data":{"resultType":"vector","result":[' + rows + b"]}}"
    with (
        fake_backend(lambda _: Answer(pieces=iter([body]))) as server,
        pytest.raises(BackendError, match="too many series: narrow it with match="),
    ):
        ask(server)


def test_fault_28_the_responses_of_a_refresh_share_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of eight may be long, but all are in memory at once."""
    monkeypatch.setattr(client_module, "MAX_BYTES", 1 << 20)
    answer = vector([({"node": f"n{index}", "pad": "x" * 300}, "1") for index in range(1000)])

    async def refresh(server: FakePrometheus) -> tuple[list[str], dict[str, Result]]:
        client = Client(parse(f"prometheus+{server.url}"), Fleet())
        try:
            found = await client.refresh({f"q{index}": "up" for index in range(8)}, 1000.0)
            return client.notes, found
        finally:
            await client.close()

    with fake_backend(lambda _: answer) as server:
        notes, found = asyncio.run(refresh(server))
    assert len(answer.body) < 400_000
    assert len(found) <= 2
    assert len(notes) == 8 - len(found)
    assert all("responses of more than 1 MiB: narrow it with match=" in note for note in notes)


def test_invalid_numbers_are_absent_and_warnings_are_reported() -> None:
    answer = vector(
        [({"n": "1"}, "NaN"), ({"n": "2"}, "+Inf"), ({"n": "3"}, "x"), ({"n": "4"}, "2.5")],
        warnings=["a store is away", "\x1b[31mred"],
        isPartial=True,
    )
    with fake_backend(lambda _: answer) as server:
        found = ask(server)
    assert [*found.rows()] == [({"n": "4"}, 2.5)]
    assert found.notes[0] == "a store is away"
    assert "\x1b" not in "".join(found.notes)
    assert any("partial" in note for note in found.notes)


def test_secrets_come_from_files_and_the_tenant_from_the_settings(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("abc123\n")
    with fake_backend(lambda _: vector([])) as server:
        ask(server, Fleet(token_file=str(token), tenant="ml"))
    (request,) = server.requests
    assert request.headers["Authorization"] == "Bearer abc123"
    assert request.headers["X-Scope-OrgID"] == "ml"


def test_fault_28_an_answer_of_many_rows_causes_no_query_for_each() -> None:
    """The probe queries one node for its interval, however many the server returns."""
    rows = vector([({"node": f"n{index}", "job": f"j{index}"}, "1") for index in range(500)])

    def reply(request: Request) -> Answer:
        return success(sorted(queries.NAMES)) if "label" in request.path else rows

    async def run(server: FakePrometheus) -> queries.Queries:
        client = Client(parse(f"prometheus+{server.url}"), Fleet())
        try:
            return await queries.probe(client, "", 1000.0)
        finally:
            await client.close()

    with fake_backend(reply) as server:
        found = asyncio.run(run(server))
        assert len(server.requests) == 4
    assert len(found.jobs) == queries.MAX_JOBS
    assert found.interval == queries.DEFAULT_INTERVAL
