"""What a command does not need, it does not load: seen at run time, where lint sees edges only."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

HEAVY = ("textual", "rich", "boto3", "aiohttp", "prometheus_client")


def loaded(code: str) -> set[str]:
    """Top-level modules in a fresh interpreter after `code`."""
    script = (
        f"{code}\nimport sys\nprint(' '.join({{name.partition('.')[0] for name in sys.modules}}))"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    return set(run.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    ("code", "banned"),
    [
        ("import trntop", ("numpy", "msgspec", *HEAVY)),
        ("from trntop.cli import main", ("numpy", "msgspec", "asyncio", *HEAVY)),
        (
            "import trntop.session.monitor, trntop.session.runner, trntop.recording.reader",
            ("starlette", *HEAVY),
        ),
        ("import trntop.exporters.metrics.pages", ("starlette", "uvicorn", *HEAVY)),
        ("import trntop.exporters.web.server, trntop.cli.exporting, trntop.cli.opening", HEAVY),
        ("import trntop.collectors.neuron_monitor, trntop.collectors.stdin", HEAVY),
        ("import trntop.tui.app", ("starlette", "uvicorn", "boto3", "aiohttp", "zstandard")),
    ],
)
def test_loads_only_what_it_needs(code: str, banned: tuple[str, ...]) -> None:
    assert not loaded(code) & set(banned)


def test_the_exporter_loads_no_screen_and_no_cloud() -> None:
    """`trntop export`, up to the point where it would bind a port that is no port."""
    arguments = ["export", "sim:healthy?nodes=1&minutes=1", "--listen", "127.0.0.1:999999"]
    code = f"from trntop.cli import main\nassert main({arguments}) == 2"
    assert not loaded(code) & set(HEAVY)


def test_fault_55_nothing_is_unpickled() -> None:
    """Not even between own processes: what reads pickles runs what is in them."""
    forbidden = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle"}
    found = set()
    for folder in ("trntop", "collectors", "exporters", "tui"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_bytes())):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                found |= {(path.name, name) for name in names if name.split(".")[0] in forbidden}
    assert found == set()
