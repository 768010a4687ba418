import json
import re
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.prometheus_server import PAUSE, WAIT_SECONDS, Scrape, needs_prometheus, prometheus
from trntop.cli.targets import Inventory, build_app, targets
from trntop.core.errors import TrntopError, UsageError

pytestmark = pytest.mark.xdist_group("servers")


def arguments(**given: object) -> Namespace:
    usual = {"nodes": [], "port": 10042, "labels": [], "listen": None}
    return Namespace(**(usual | given))


def test_prints_what_file_sd_reads(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    args = arguments(nodes=["trn-[001-002]", "gpu,trn-002"], port=9, labels=["cluster=a", "rack="])
    assert targets(args) == 0
    assert json.loads(capfdbinary.readouterr().out) == [
        {
            "targets": ["trn-001:9", "trn-002:9", "gpu:9"],
            "labels": {"cluster": "a", "rack": ""},
        }
    ]


def test_a_file_of_nodes(tmp_path: Path) -> None:
    file = tmp_path / "nodes"
    file.write_text("# the run\ntrn-[1-2]  # first rack\n\ntrn-3,trn-4\n")
    (group,) = json.loads(Inventory(["head", f"@{file}"], 1, {}).document())
    assert group["targets"] == ["head:1", "trn-1:1", "trn-2:1", "trn-3:1", "trn-4:1"]


def test_no_node_is_an_empty_list(tmp_path: Path) -> None:
    file = tmp_path / "nodes"
    file.write_text("# nobody\n")
    assert Inventory([f"@{file}"], 10042, {}).document() == b"[]"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"nodes": ["trn-[1"]}, "bracket"),
        (
            {"nodes": ["trn"], "labels": ["cluster"]},
            "cluster is not a valid --label; use NAME=VALUE",
        ),
        ({"nodes": ["trn"], "labels": ["a-b=c"]}, "a-b=c is not a valid --label"),
        ({"nodes": ["trn"], "labels": ["ä=c"]}, "--label"),
        ({"nodes": ["trn"], "listen": "nowhere"}, "nowhere is not a valid address"),
    ],
)
def test_bad_use(given: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        targets(arguments(**given))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    file = tmp_path / "nodes"
    with pytest.raises(TrntopError, match="No such file"):
        targets(arguments(nodes=[f"@{file}"]))
    file.write_bytes(b"trn-1\n\xff")
    with pytest.raises(TrntopError, match="not UTF-8 at byte 6"):
        targets(arguments(nodes=[f"@{file}"]))
    file.write_bytes(b"a," * (3 << 20))
    with pytest.raises(TrntopError, match="larger than 4 MiB"):
        targets(arguments(nodes=[f"@{file}"]))


async def test_serves_the_file_as_it_is_now(tmp_path: Path) -> None:
    file = tmp_path / "nodes"
    file.write_text("trn-1")
    app = build_app(Inventory([f"@{file}"], 10042, {"cluster": "a"}))
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=app), base_url="http://sd"
    ) as client:
        for path in ("/targets", "/"):
            answer = await client.get(path)
            assert answer.status_code == 200
            assert answer.headers["content-type"] == "application/json"
            assert answer.json() == [{"targets": ["trn-1:10042"], "labels": {"cluster": "a"}}]
        file.write_text("")
        assert (await client.get("/targets")).json() == []
        file.write_text("trn-[1")
        refused = await client.get("/targets")
        assert refused.status_code == 503
        assert refused.text == f"{file}: unbalanced bracket in trn-[1\n"
        file.unlink()
        assert (await client.get("/targets")).status_code == 503
        file.write_text("trn-2")
        assert (await client.get("/targets")).json()[0]["targets"] == ["trn-2:10042"]
        assert (await client.head("/targets")).status_code == 200
        assert (await client.post("/targets")).status_code == 405
        for path in ("/metrics", "/targets/"):
            assert (await client.get(path)).status_code == 404


SERVE = """
import sys
from argparse import Namespace
from pathlib import Path
from trntop.cli.targets import targets
args = Namespace(
    nodes=[f'@{sys.argv[1]}'], port=1, labels=["cluster=a"], listen="127.0.0.1:0"
)
sys.exit(targets(args))
"""


@contextmanager
def served(file: Path) -> Iterator[str]:
    """The URL of the list, served by a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE, file], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        said = process.stderr.readline()
        match = re.fullmatch(r"trntop: serving (http://127\.0\.0\.1:\d+/targets)\n", said)
        assert match, said
        yield match[1]
    finally:
        process.terminate()
        assert process.wait(10) == 0
        process.stderr.close()


@needs_prometheus
def test_prometheus_discovers_the_nodes(tmp_path: Path) -> None:
    file = tmp_path / "nodes"
    file.write_text("127.0.0.[1-2]")
    with served(file) as url:
        discovery = [{"url": url, "refresh_interval": "1s"}]
        scrape = Scrape("trntop", options={"http_sd_configs": discovery})
        with prometheus(tmp_path, [scrape]) as server:

            def known() -> set[tuple[str, str]]:
                labels = [target["labels"] for target in server.targets()]
                return {(one["instance"], one["cluster"]) for one in labels}

            def refused() -> bool:
                page = httpx.get(f"{server.url}/metrics", trust_env=False).text
                return re.search(r"\nprometheus_sd_http_failures_total [1-9]", page) is not None

            until(lambda: known() == {("127.0.0.1:1", "a"), ("127.0.0.2:1", "a")})
            file.write_text("127.0.0.[2-3]")
            until(lambda: known() == {("127.0.0.2:1", "a"), ("127.0.0.3:1", "a")})
            # What cannot be told takes no target away.
            file.write_text("127.0.0.[2-")
            until(refused)
            assert known() == {("127.0.0.2:1", "a"), ("127.0.0.3:1", "a")}


def until(condition: Callable[[], bool]) -> None:
    """Waits; Prometheus looks for new targets each 5 s."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(PAUSE)
