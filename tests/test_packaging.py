"""The wheel holds what the checkout shows, and the links equal the mapping."""

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINKS = {name: name for name in ("tui", "collectors", "exporters")} | {
    "runbooks": "docs/runbooks",
    "grafana": "deploy/grafana",
}
"""Folder inside `trntop/` → where it is in the repository."""


def files(folder: Path) -> set[str]:
    """Files below a folder, by their paths in it."""
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_links_point_at_the_folders() -> None:
    for name, folder in LINKS.items():
        link = ROOT / "trntop" / name
        if not link.is_symlink():
            pytest.skip("not a checkout with links")
        assert link.readlink() == Path("..") / folder


def test_sdist_and_wheel_hold_everything(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    if not (ROOT / "trntop" / "tui").is_symlink():
        pytest.skip("not a checkout with links")
    build = [sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path)]
    subprocess.run([*build, "-t", "sdist"], cwd=ROOT, check=True, capture_output=True)
    (sdist,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        # Python 3.11 has had filters since 3.11.4.
        safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        archive.extractall(tmp_path / "unpacked", **safely)
    (source,) = (tmp_path / "unpacked").iterdir()
    subprocess.run([*build, "-t", "wheel"], cwd=source, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    expected = {
        f"trntop/{link}/{name}" for link, folder in LINKS.items() for name in files(ROOT / folder)
    }
    expected |= {
        f"trntop/{name}" for name in files(ROOT / "trntop") if name.partition("/")[0] not in LINKS
    }
    assert packed == expected


@pytest.mark.parametrize("version", ["editable", "standard"])
def test_a_checkout_without_links_fails_an_editable_install_with_the_reason(
    tmp_path: Path, version: str
) -> None:
    hatch_build = pytest.importorskip("hatch_build")
    package = tmp_path / "trntop"
    package.mkdir()
    for name in LINKS:
        (package / name).write_text(f"../{name}")  # as Git does without symbolic links
    hook = hatch_build.CheckLinks(str(tmp_path), {}, None, None, str(tmp_path), "wheel")
    if version == "standard":
        hook.initialize(version, {})
        return
    with pytest.raises(RuntimeError, match=r"trntop/tui, .*git config core\.symlinks true"):
        hook.initialize(version, {})
    for name in LINKS:
        (package / name).unlink()
        (package / name).mkdir()
    hook.initialize(version, {})


def test_what_runs_in_production_is_what_is_tested() -> None:
    """`make lock` has been run: each version with hashes is that of the constraints."""
    tested = (ROOT / "requirements.lock").read_text().splitlines()
    lines = (ROOT / "deploy" / "requirements.txt").read_text().replace("\\\n", "").splitlines()
    pinned = [line for line in lines if line and not line.startswith("#")]
    assert all("--hash=sha256:" in line for line in pinned)
    versions = {re.split("[ ;]", line)[0].lower() for line in pinned}
    assert versions <= {re.split("[ ;]", line)[0].lower() for line in tested}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["kubernetes"]]
    names = {re.split("[<>=~]", line)[0] for line in needed}
    assert names <= {version.partition("==")[0] for version in versions}
