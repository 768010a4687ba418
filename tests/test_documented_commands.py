"""Every `trntop …` printed in the documentation: what needs no network or hardware runs, and the
arguments of all others parse.
"""

import gzip
import re
import shlex
import shutil
from argparse import Namespace
from collections.abc import Iterator
from glob import glob
from pathlib import Path

import pytest

from trntop.cli import main, parse
from trntop.core.errors import UsageError
from trntop.core.source_spec import Origin, parse_all
from trntop.recording.reader import open_recording
from trntop.recording.writer import Recorder

ROOT = Path(__file__).parents[1]
FIXTURES = ROOT / "fixtures"
PAGES = sorted(
    (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md"),
     *ROOT.glob("deploy/**/*.md"))
)  # fmt: skip

FENCED = re.compile(r"^ *```[^\n]*\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
PLACEHOLDERS = {
    "FILE": "run.jsonl", "RECORDING": "run.jsonl", "FILE.jsonl": "run.jsonl",
    "FILE…": "rank0.pt.trace.json.gz", "KIND": "efa_degraded", "DIR": "dashboards",
    "NODE": "trn-001", "NODELIST": "trn-[001-016]", "SCENARIO": "healthy",
    "A": "a.jsonl", "B": "b.jsonl",
    "/etc/trntop/config.toml": "config.toml", "$(squeue -h -j 4711 -o %N)": "trn-[001-016]",
}  # fmt: skip
SEPARATORS = {"|", "&&", ";", ">", "&"}
OFFLINE = {"rules", "targets", "import", "profile", "doctor", "compare"}
"""Commands that use no network. (`demo` does not either; test_cli.py runs it, which takes long.)"""
ON_RECORDINGS = {"snapshot", "analyze", "replay", "record", "top"}
LEAST_PARSED = 80


def commands(text: str) -> Iterator[list[str]]:
    """The arguments of each `trntop` on a page, without the shell around them."""
    for found in FENCED.finditer(text):
        for line in found[1].replace("\\\n", " ").splitlines():
            yield from _of_line(line)
    for span in INLINE.findall(FENCED.sub("", text)):
        yield from _of_line(" ".join(span.replace("\\|", "|").split()))


def _of_line(line: str) -> Iterator[list[str]]:
    try:
        words = shlex.split(line, comments=True)
    except ValueError:  # a sentence with an apostrophe
        return
    while words:
        end = next((at for at, word in enumerate(words) if word in SEPARATORS), len(words))
        part, words = words[:end], words[end + 1 :]
        while part and re.fullmatch(r"[A-Z_]+=\S*", part[0]):
            part = part[1:]
        if part and part[0] in ("trntop", ".venv/bin/trntop"):
            yield [PLACEHOLDERS.get(word, word) for word in part[1:]]


BY_PAGE = {
    str(page.relative_to(ROOT)): found
    for page in PAGES
    if (found := list(commands(page.read_text("utf-8"))))
}


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five readings: enough for a table."""
    path = tmp_path_factory.mktemp("recording") / "run.jsonl"
    readings = list(open_recording(FIXTURES / "neuron-monitor-trn1.2xlarge.jsonl"))[:5]
    with Recorder(path, created=readings[0].time) as recorder:
        for reading in readings:
            recorder.write(reading)
    return path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with the small files that the documentation names."""
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.chdir(tmp_path)
    trace = gzip.compress((FIXTURES / "torch-profiler-trace.json").read_bytes())
    (tmp_path / "rank0.pt.trace.json.gz").write_bytes(trace)
    (tmp_path / "nodes.txt").write_text("trn-[001-016]\n")
    (tmp_path / "config.toml").touch()
    return tmp_path


def supplied(args: Namespace, recording: Path) -> None:
    """Makes the recordings and profiles that a command reads, where none has written them."""
    if args.command == "profile":
        for path in getattr(args, "files", ()):
            shutil.copy(FIXTURES / "neuron-explorer-summary.json", path)
        return
    named = (*getattr(args, "sources", ()), getattr(args, "a", ""), getattr(args, "b", ""))
    for name in named:
        path = Path(name)
        if re.fullmatch(r"[\w.-]+\.jsonl(\.zst)?", name) and not path.exists():
            with Recorder(path, created=0.0) as recorder:
                for reading in open_recording(recording):
                    recorder.write(reading)


def ends_here(args: Namespace) -> bool:
    """Whether a command ends by itself, without network and hardware."""
    if getattr(args, "web", False) or getattr(args, "listen", None):
        return False
    if args.command == "targets" and not args.nodes:
        return False
    if args.prog.endswith("profile scan"):
        return False  # it needs a compile cache and the capture tool: tests/cli/test_scanning.py
    if args.command in OFFLINE:
        # There is no incident to forget, and the recordings here have no ten minutes.
        return not getattr(args, "forget", None) and "@" not in getattr(args, "a", "")
    return (
        args.command in ON_RECORDINGS
        and bool(args.sources)
        and all(source.origin is Origin.RECORDING for source in parse_all(args.sources))
    )


def expanded(arguments: list[str]) -> list[str]:
    """As a shell would: patterns that match files."""
    return [name for word in arguments for name in (sorted(glob(word)) or [word])]  # noqa: PTH207


def is_mention(arguments: list[str]) -> bool:
    """Only the name of a command, such as `trntop record`, in a sentence."""
    return all(re.fullmatch(r"[a-z]+", word) for word in arguments)


@pytest.mark.parametrize("page", BY_PAGE)
def test_commands_work_as_printed(
    page: str, folder: Path, recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done: list[list[str]] = []
    for printed in BY_PAGE[page]:
        arguments = expanded(printed)
        if arguments in done:
            continue
        done.append(arguments)
        if arguments[-1:] in (["--help"], ["--version"]):
            with pytest.raises(SystemExit, match=r"^0$"):
                main(arguments)
            continue
        try:
            args = parse(arguments)
        except UsageError as error:
            assert is_mention(arguments), arguments
            assert str(error).startswith("missing")
            continue
        supplied(args, recording)
        parse_all(getattr(args, "sources", []))
        if ends_here(args):
            # doctor finds no device here.
            expected = 1 if args.command == "doctor" else 0
            assert main(arguments) == expected, (arguments, capsys.readouterr().err)


def test_the_extraction_finds_the_commands() -> None:
    assert {"README.md", "docs/check.md", "deploy/README.md"} <= set(BY_PAGE)
    assert ["rules", "grafana"] in BY_PAGE["README.md"]
    assert ["export", "-"] in BY_PAGE["README.md"]  # in a pipe, in a sentence
    assert ["targets", "trn-[001-016]", "--label", "run=4711"] in BY_PAGE["deploy/README.md"]
    assert len([command for page in BY_PAGE.values() for command in page]) > LEAST_PARSED
