"""The collector against a real process: the fake neuron-ls and its misbehaviours."""

import sys
from pathlib import Path

import pytest

from tests.collectors.recording_sink import RecordingSink, alive, running
from trntop.catalog import NEURON_LS
from trntop.collectors.neuron_ls import UPDATE, NeuronLs, examine
from trntop.core.model import State
from trntop.sources.neuron_ls import decode

COMMAND = [sys.executable, "-S", "-E", str(Path(__file__).parent.parent / "fakes/neuron_ls.py")]
PERIOD = 0.05


class Fake:
    """The fake's switches."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self._monkeypatch = monkeypatch
        self._notes = folder / "runs"
        monkeypatch.setenv("FAKE_NEURON_LS_RUNS", str(self._notes))

    def does(self, mode: str) -> None:
        self._monkeypatch.setenv("FAKE_NEURON_LS", mode)

    @property
    def runs(self) -> list[tuple[int, str]]:
        """Process ids and arguments."""
        lines = self._notes.read_text().splitlines() if self._notes.exists() else []
        return [(int(pid), rest) for pid, _, rest in (line.partition(" ") for line in lines)]

    def gone(self) -> bool:
        return bool(self.runs) and not any(alive(pid) for pid, _ in self.runs)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Fake:
    return Fake(monkeypatch, tmp_path)


@pytest.fixture
def sink() -> RecordingSink:
    return RecordingSink()


async def test_commands_are_handed_over_without_arguments(fake: Fake, sink: RecordingSink) -> None:
    async with running(NeuronLs("n", COMMAND, PERIOD), sink):
        await sink.until(lambda: len(sink.readings) >= 2)
    assert [status.state for status in sink.statuses[:2]] == [State.STARTING, State.FRESH]
    reading = sink.readings[0]
    assert (reading.node, reading.source) == ("n", NEURON_LS)
    assert len(decode(reading.data).facts["device_links"]) == 4
    assert b'"command":"python3 train.py"' in reading.data
    assert b"hunter2" not in reading.data
    assert {arguments for _, arguments in fake.runs} == {"-j -a"}
    assert sink.counts == {"runs": 2, "failures": 0}
    assert fake.gone()


@pytest.mark.parametrize(
    ("mode", "refused", "understood"),
    [
        ("object", ["-j -a"], "--output-format json -a"),
        ("object-only", ["-j -a", "--output-format json -a"], "--output-format json"),
    ],
)
async def test_the_form_that_is_understood_is_remembered(
    fake: Fake, sink: RecordingSink, mode: str, refused: list[str], understood: str
) -> None:
    fake.does(mode)
    async with running(NeuronLs("n", COMMAND, PERIOD), sink):
        await sink.until(lambda: len(sink.readings) >= 2)
    tried = [arguments for _, arguments in fake.runs]
    assert tried[: len(refused) + 2] == [*refused, understood, understood]
    assert decode(sink.readings[1].data).facts["facts"]["instance_id"] == "i-simulated"
    assert sink.reasons(State.DOWN) == []


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("neither", f"neuron-ls supports neither -j nor --output-format json; {UPDATE}"),
        ("no-driver", "neuron-ls exited with code 1: no neuron device found"),
        ("garbage", "neuron-ls wrote no JSON: +--------+"),
        ("silent", "neuron-ls wrote nothing"),
    ],
)  # fmt: skip
async def test_failures_are_explained_and_tried_again(
    fake: Fake, sink: RecordingSink, mode: str, reason: str
) -> None:
    fake.does(mode)
    async with running(NeuronLs("n", COMMAND, PERIOD), sink):
        await sink.until(lambda: len(sink.reasons(State.DOWN)) >= 2)
        assert set(sink.reasons(State.DOWN)) == {reason}
        fake.does("array")
        await sink.until(lambda: sink.readings)
    assert sink.statuses[-1].state is State.FRESH
    assert sink.counts["failures"] >= 2


async def test_one_that_hangs_is_killed(fake: Fake, sink: RecordingSink) -> None:
    fake.does("hang")
    async with running(NeuronLs("n", COMMAND, 30.0, deadline=0.3), sink):
        await sink.until(lambda: sink.reasons(State.DOWN))
        assert fake.gone()
    assert sink.reasons(State.DOWN) == ["neuron-ls did not answer within 0.3 s"]


async def test_output_is_bounded(
    fake: Fake, sink: RecordingSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trntop.collectors.child.MAX_OUTPUT", 1 << 20)
    fake.does("huge")
    async with running(NeuronLs("n", COMMAND, 30.0), sink):
        await sink.until(lambda: sink.reasons(State.DOWN))
        assert fake.gone()
    assert sink.reasons(State.DOWN) == ["neuron-ls wrote more than 1 MiB"]


async def test_not_installed(sink: RecordingSink, tmp_path: Path) -> None:
    async with running(NeuronLs("n", str(tmp_path / "neuron-ls")), sink):
        await sink.until(lambda: sink.reasons(State.DOWN))
    assert "is not installed; install aws-neuronx-tools" in sink.reasons(State.DOWN)[0]


def test_examine(fake: Fake, tmp_path: Path) -> None:
    finding = examine(COMMAND)
    assert finding.ok
    assert finding.found == "unknown instance type; Neuron devices: 4; processes that hold them: 1"
    fake.does("no-device")
    finding = examine(COMMAND)
    assert (finding.ok, finding.found) == (False, "neuron-ls lists no Neuron device")
    fake.does("no-driver")
    finding = examine(COMMAND)
    assert not finding.ok
    assert "modprobe neuron" in finding.remedy
    assert "aws-neuronx-tools" in examine(str(tmp_path / "neuron-ls")).remedy
