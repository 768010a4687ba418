"""Eight agents on hosts of their own, one of them cut off and one slowed: what a watcher sees."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.collectors.recording_sink import FAKE
from tests.network import ROOT, Network, network, until

pytestmark = [
    pytest.mark.xdist_group("machine"),
    pytest.mark.slow,  # eight agents, of real-time priority
]

NAMES = [f"trn-{number:03d}" for number in range(1, 9)]
LOST, SLOW = "trn-003", "trn-005"
WELL = [name for name in NAMES if name not in (LOST, SLOW)]
ENV = {"PYTHONPATH": str(ROOT)}
DELAY = 2.5


class Observed:
    """What the watcher has printed."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._read = 0
        self.ticks: list[dict[str, Any]] = []

    def news(self) -> list[dict[str, Any]]:
        """The ticks since the last call."""
        with self._file.open("rb") as file:
            file.seek(self._read)
            lines = file.read().rpartition(b"\n")[0]
        self._read += len(lines) + bool(lines)
        fresh = [json.loads(line) for line in lines.splitlines() if line.startswith(b"{")]
        self.ticks += fresh
        return fresh

    def state(self, name: str) -> tuple[str, str]:
        """The newest state of a node and its reason."""
        self.news()
        node = self.ticks[-1]["nodes"].get(name, {}) if self.ticks else {}
        return node.get("state", ""), node.get("reason", "")

    def count(self, state: str) -> int:
        """How many nodes are in a state."""
        self.news()
        nodes = self.ticks[-1]["nodes"] if self.ticks else {}
        return sum(node["state"] == state for node in nodes.values())

    def states(self, name: str, since: int) -> list[str]:
        """The states that a node has been in since a tick, each run of one once."""
        states = [tick["nodes"][name]["state"] for tick in self.ticks[since:]]
        return [
            state for index, state in enumerate(states) if state not in states[index - 1 : index]
        ]


def test_a_node_that_is_cut_off_and_one_that_is_slow(tmp_path: Path) -> None:
    with network([*NAMES, "monitor"], tmp_path) as net:
        started = _start(net, tmp_path)
        observed = Observed(tmp_path / "monitor")
        assert until(lambda: observed.count("fresh") == len(NAMES), 40), (
            observed.ticks[-1:] or (tmp_path / "monitor").read_text()
        )

        net.cut(LOST)
        net.spoil(SLOW, delay=DELAY, loss=0.05)
        cut = len(observed.ticks)
        assert until(lambda: observed.state(LOST)[1] == "no connection within 5 s", 30)
        assert observed.states(LOST, cut) == ["fresh", "late", "stale", "down"]
        reasons = [tick["nodes"][LOST]["reason"] for tick in observed.ticks[cut:]]
        assert "hung: no message for 15 s" in reasons
        # What was sent before the cut is not shown as current.
        assert observed.ticks[-1]["nodes"][LOST]["values"] == 0

        assert {"late", "stale"} & set(observed.states(SLOW, cut))
        for tick in observed.ticks[cut + 5 :]:
            node = tick["nodes"][SLOW]
            if node["report"] is not None:  # as old as it is, however lately it came
                assert tick["time"] - node["report"] > DELAY - 1.0
        for tick in observed.ticks[cut:]:
            assert {tick["nodes"][name]["state"] for name in WELL} == {"fresh"}

        net.restore(LOST)
        net.restore(SLOW)
        assert until(lambda: all(observed.state(name)[0] == "fresh" for name in (LOST, SLOW)), 25)
        assert all(process.poll() is None for process in started)


def _start(net: Network, folder: Path) -> list[subprocess.Popen[bytes]]:
    options = (f"collect.neuron_monitor={FAKE}", "collect.disabled=steps,kernel-log")
    settings = [word for option in options for word in ("--set", option)]
    agents = [
        host.start(
            *(sys.executable, "-m", "trntop", "export", *settings),
            *("--listen", f"{host.address}:10042"),
            output=folder / name,
            env={**ENV, "XDG_STATE_HOME": str(folder / f"state-{name}")},
        )
        for name, host in net.hosts.items()
        if name in NAMES
    ]
    watcher = (sys.executable, "-m", "tests.watcher", "http://trn-[001-008]:10042")
    return [*agents, net["monitor"].start(*watcher, output=folder / "monitor", env=ENV)]
