"""Every reason for an absent value agrees with the values of the same frame."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest

from tests import captures
from tests.make_fixtures import FOLDER
from trntop.catalog import CATALOG, inputs
from trntop.collectors.simulator import parse, simulate
from trntop.collectors.simulator.scenarios import SCENARIOS
from trntop.core.model import HAS_VALUES, NodeView, View
from trntop.core.settings import Settings
from trntop.core.versions import numbers
from trntop.pipeline import hbm
from trntop.pipeline.profiles import find
from trntop.recording.reader import open_recording
from trntop.session.monitor import Monitor, play

SPACING = 4
"""Ticks from one view that is checked to the next."""
SMALL = "nodes=2&type=trn2.3xlarge&minutes=0.5"
FAULT = "onset=10&duration=15"


def live(node: NodeView, source: str) -> bool:
    return any(state.name == source and state.state in HAS_VALUES for state in node.frame.sources)


def missing(node: NodeView, name: str) -> Iterator[str]:
    """The quantity and those of its inputs, direct and indirect, that are absent."""
    yield name
    for needed in inputs(name):
        if needed not in node.frame.columns:
            yield from missing(node, needed)


def sources(node: NodeView, name: str) -> set[str]:
    """The sources that would report what is missing."""
    return {CATALOG[needed].source for needed in missing(node, name)} - {""}


def down(node: NodeView, name: str, source: str) -> bool:
    return source in sources(node, name) and not live(node, source)


def executed(node: NodeView, pid: int) -> float:
    rates = node.frame.columns.get(hbm.EXECUTIONS, ())
    return dict(zip((runtime.pid for runtime in node.inventory.runtimes), rates, strict=False)).get(
        pid, 0.0
    )


def no_profile(node: NodeView, program: str) -> bool:
    return any(
        runtime.program is not None
        and runtime.program.name == program
        and find(node.inventory.profiles, runtime.program) is None
        for runtime in node.inventory.runtimes
    )


def no_program(node: NodeView, pid: str) -> bool:
    return any(
        runtime.pid == int(pid) and not runtime.neffs and executed(node, int(pid)) > 0
        for runtime in node.inventory.runtimes
    )


def computed(node: NodeView, name: str) -> bool:
    """Whether something is computed, has its inputs, and yet has no value."""
    return any(
        not CATALOG[needed].source and all(each in node.frame.columns for each in inputs(needed))
        for needed in missing(node, name)
    )


def unread(node: NodeView, name: str, *_: str) -> bool:
    """Whether nothing else of the group of a report has a value either."""
    prefix = "neuroncore_utilization" if "neuroncore" in name else "runtime_executions"
    return not any(column.startswith(prefix) for column in node.frame.columns)


CHECKS: dict[str, Callable[..., bool]] = {
    r"no (\S+) source": lambda node, name, source: (
        source in sources(node, name) and all(state.name != source for state in node.frame.sources)
    ),
    r"(\S+) does not report it": lambda node, name, source: (
        source in sources(node, name) and live(node, source)
    ),
    r"(\S+): .+": down,
    r"a rate needs two readings of its counter": lambda node, name: any(
        CATALOG[needed].rate_of in node.frame.columns for needed in missing(node, name)
    ),
    r"cannot be computed from what is reported": computed,
    r"the report covers only (.+)": unread,
    r"no device can be read: all are lost": lambda node, _: all(
        links.get("lost") for links in node.inventory.device_links.values()
    ),
    r"the Neuron driver \(([\d.]+)\) reports it since 2\.30\.2": lambda _, __, driver: (
        numbers(driver) < (2, 30, 2)
    ),
    r"needs 10 s of data": computed,
    r"anything from the floor to the ceiling is possible": computed,
    r"no executions counted": lambda node, _: (
        not any(executed(node, runtime.pid) for runtime in node.inventory.runtimes)
    ),
    r"no Neuron process": lambda node, _: node.frame.value("node_runtimes") == 0,
    r"neuron-monitor reports no executions": lambda node, _: (
        hbm.EXECUTIONS not in node.frame.columns
    ),
    r"process (\d+) lists no loaded program": lambda node, _, pid: no_program(node, pid),
    r"no profile of (.+): trntop profile add FILE": lambda node, _, program: no_profile(
        node, program
    ),
    r"profile of .+ does not fit: .+ need ([\d.]+) cores, not (\d+)": lambda node, _, need, has: (
        float(need) > int(has)
    ),
}
"""Each reason, and what must hold where it is given."""


def errors(node: NodeView, checked: Counter[str]) -> Iterator[str]:
    """Reasons of a frame that its own values contradict."""
    checked["frames"] += 1
    for name in CATALOG.keys() - node.frame.columns.keys():
        reason = node.frame.why_absent(name)
        checked["reasons"] += 1
        # The first that fits: `S: …` is also the form of a profile's reason.
        found = sorted(
            ((pattern, match) for pattern in CHECKS if (match := re.fullmatch(pattern, reason))),
            key=lambda pair: pair[0].startswith("("),
        )
        if not found or not CHECKS[found[0][0]](node, name, *found[0][1].groups()):
            yield f"{name}: {reason}"


def check(views: Iterator[View]) -> Counter[str]:
    checked: Counter[str] = Counter()
    found = [
        f"{node.name} at {view.time:.0f}: {reason}"
        for view in islice(views, 0, None, SPACING)
        for node in view.cluster.nodes.values()
        for reason in errors(node, checked)
    ]
    assert found == []
    assert checked["reasons"] > 10
    return checked


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_simulated_runs(scenario: str) -> None:
    fault = "" if scenario in ("healthy", "demo") else f"&{FAULT}"
    check(play(simulate(parse(f"sim:{scenario}?{SMALL}{fault}"), 1.76e9), Monitor(Settings())))


@pytest.mark.parametrize(
    "path", [*sorted(FOLDER.glob("*.jsonl*")), captures.NEURON_MONITOR], ids=lambda path: path.name
)
def test_recordings(path: Path) -> None:
    if not path.exists():
        pytest.skip("the public captures are not beside this checkout")
    check(play(open_recording(path), Monitor(Settings())))
