"""Sources of other packages: the example of docs/adding-a-source.md, installed as printed."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/adding-a-source.md"


def install(site: Path, files: dict[str, str], name: str, entries: dict[str, str]) -> None:
    """What an installer leaves of a package."""
    for path, text in files.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text)
    info = site / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = "\n".join(f"{key} = {value}" for key, value in entries.items())
    (info / "entry_points.txt").write_text(f"[trntop.sources]\n{lines}\n")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A directory of packages that holds the example."""
    page = PAGE.read_text()
    (toml,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    project = tomllib.loads(toml)["project"]
    files = dict(re.findall(r"```python\n# (\S+)\n(.*?)```", page, re.DOTALL))
    files["trntop_thermal/__init__.py"] = ""
    folder = tmp_path / "site"
    install(folder, files, project["name"], project["entry-points"]["trntop.sources"])
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine of which nothing but two temperatures can be read; one is damaged."""
    for device, text in ((0, "61500\n"), (1, "x")):
        file = tmp_path / f"root/sys/class/hwmon/neuron{device}/temp1_input"
        file.parent.mkdir(parents=True)
        file.write_text(text)
    return tmp_path / "root"


def trntop(site: Path, root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    settings = {
        "root": root, "neuron_monitor": "no-such-program", "neuron_ls": "no-such-program",
        "steps_socket": root / "steps.sock", "disabled": "kernel-log",
    }  # fmt: skip
    options = [part for key, value in settings.items()
               for part in ("--set", f"collect.{key}={value}")]  # fmt: skip
    return subprocess.run(
        [sys.executable, "-m", "trntop", *arguments, *options],
        env=os.environ | {"PYTHONPATH": str(site), "HOME": str(root)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_the_example_gives_its_values(site: Path, root: Path) -> None:
    run = trntop(site, root, "snapshot", "--json")
    assert run.returncode == 0, run.stderr
    (node,) = json.loads(run.stdout)["nodes"]
    assert {source["source"]: source["state"] for source in node["sources"]}["thermal"] == "fresh"
    assert [device["device_temperature_celsius"] for device in node["devices"]] == [61.5, None]


def test_doctor_examines_it(site: Path, root: Path) -> None:
    run = trntop(site, root, "doctor")
    assert "✓ thermal: temperatures of 2 devices\n    gives the temperature of each" in run.stdout
    assert run.returncode == 0


def test_a_broken_plug_in_costs_a_line(site: Path, root: Path) -> None:
    source = (site / "trntop_thermal/source.py").read_text()
    rows = {
        "broken.py": "import no_such_module",
        "other.py": "SOURCE = 7",
        "again.py": source.replace('"thermal"', '"efa"'),
        "astray.py": source.replace("trntop_thermal.collector", "no_such_collector").replace(
            '"thermal"', '"astray"').replace("device_temperature", "device_other"),
    }  # fmt: skip
    install(site, rows, "bad", {row.removesuffix(".py"): f"{row.removesuffix('.py')}:SOURCE"
                                for row in rows})  # fmt: skip
    lines = trntop(site, root, "doctor").stdout.splitlines()
    assert [line for line in lines if "plug-in" in line] == [
        "✗ astray: plug-in ignored: ModuleNotFoundError: No module named 'no_such_collector'",
        "✗ plug-in again of bad ignored: source efa exists already",
        "✗ plug-in broken of bad ignored: ModuleNotFoundError: No module named 'no_such_module'",
        "✗ plug-in other of bad ignored: int is not a trntop.sources.Source",
    ]
    run = trntop(site, root, "snapshot", "--json")
    (node,) = json.loads(run.stdout)["nodes"]
    assert [device["device_temperature_celsius"] for device in node["devices"]] == [61.5, None]


def test_without_entry_points_importlib_metadata_is_not_loaded() -> None:
    code = "import sys, trntop.sources; print('importlib.metadata' in sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert run.stdout.strip() == "False"
