"""With only the quantities that the rules read, an analysis finds the same incidents."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from itertools import islice
from typing import Any, ClassVar

import numpy as np
import pytest

from trntop.analysis import Analyzer
from trntop.analysis.rule_inputs import rule_inputs
from trntop.catalog import CATALOG, TENSOR_ENGINE
from trntop.collectors import simulator
from trntop.core.custom_rule import CustomRule
from trntop.core.model import Cluster, Column, Incident, NodeView, Reading, State
from trntop.core.settings import Settings
from trntop.pipeline.derive import compute_plan
from trntop.pipeline.node import NodeState
from trntop.session.monitor import Monitor, play
from trntop.sources import DECODERS

START = 1.76e9
RULE_INPUTS = rule_inputs()


def stream(text: str) -> list[Reading]:
    return list(simulator.simulate(simulator.parse(f"sim:{text}"), START))


def same(columns: Mapping[str, Column], other: Mapping[str, Column], names: frozenset[str]) -> None:
    assert columns.keys() == other.keys() & names
    for name, values in columns.items():
        assert np.allclose(values, other[name], rtol=1e-12, atol=0.0, equal_nan=True), name


@pytest.mark.parametrize(
    "text", ["ecc?nodes=2&onset=30&minutes=1", "efa-degraded?nodes=2&onset=60&minutes=2"]
)
def test_the_incidents_are_the_same(text: str) -> None:
    readings = stream(f"{text}&type=trn1.32xlarge")
    whole = play(iter(readings), Monitor(Settings()))
    lean = play(iter(readings), Monitor(Settings(), wanted=RULE_INPUTS))
    for number, (expected, made) in enumerate(zip(whole, lean, strict=True)):
        assert made.time == expected.time
        assert made.incidents == expected.incidents
        if number % 10:
            continue
        for name, view in expected.cluster.nodes.items():
            frame = made.cluster.nodes[name].frame
            same(frame.columns, view.frame.columns, RULE_INPUTS)
            assert frame.last_seen == view.frame.last_seen
            assert [(source.name, source.state) for source in frame.sources] == [
                (source.name, source.state) for source in view.frame.sources
            ]
    assert made.incidents


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_each_quantity_can_be_computed_alone(every: int) -> None:
    """All that it needs is found, so that a rule of the user's own may read any of them."""
    whole, alone = (
        NodeState("n"),
        {
            name: NodeState("n", (), compute_plan([name]))
            for name in islice(CATALOG, 0, None, every)
        },
    )
    readings = stream("healthy?nodes=1&minutes=0.1&type=trn1.32xlarge")
    for reading in readings:
        sample = DECODERS[reading.source](reading.data)
        for state in (whole, *alone.values()):
            state.feed(reading, deepcopy(sample))
    seen = set()
    for wait in (0.5, 1.5):
        now = readings[-1].time + wait
        columns = whole.view(now).frame.columns
        seen |= columns.keys()
        for name, state in alone.items():
            same(state.view(now).frame.columns, columns, frozenset([name]))
    assert len(seen) > 200


class _Watched(dict[str, Column]):
    """Columns that remember which of them were asked for."""

    requested: ClassVar[set[str]] = set()

    def __getitem__(self, name: str) -> Column:
        self.requested.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.requested.add(name)
        return super().get(name, default)

    def __contains__(self, name: object) -> bool:
        self.requested.add(str(name))
        return super().__contains__(name)


def test_nothing_else_is_reserved() -> None:
    analyzer = Analyzer(Settings().analysis)
    incidents: tuple[Incident, ...] = ()
    readings = stream("execution-errors?nodes=2&onset=60&minutes=2&type=trn1.32xlarge")
    for view in play(readings, Monitor(Settings(), wanted=RULE_INPUTS)):
        nodes = {
            name: NodeView(
                node.inventory, replace(node.frame, columns=_Watched(node.frame.columns))
            )
            for name, node in view.cluster.nodes.items()
        }
        incidents = analyzer.tick(Cluster(view.time, nodes))
    assert incidents
    assert _Watched.requested
    assert _Watched.requested - RULE_INPUTS == set()


def test_custom_rules_are_read_for() -> None:
    own = CustomRule(name="hot", when="device_tensor_engine_busy_ratio > 0.9")
    assert rule_inputs([own]) == RULE_INPUTS | {"device_tensor_engine_busy_ratio"}
    assert TENSOR_ENGINE in compute_plan(RULE_INPUTS).skippable
    assert not compute_plan(rule_inputs([own])).skippable
    assert not compute_plan().skippable


def test_unneeded_payloads_are_decoded_once_and_count_as_received(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decoded = []

    def decode(data: bytes) -> Any:
        decoded.append(data)
        return real(data)

    real = DECODERS[TENSOR_ENGINE]
    monkeypatch.setitem(DECODERS, TENSOR_ENGINE, decode)
    monitor = Monitor(Settings(), wanted=RULE_INPUTS)
    engine = b'{"devices": {"0": {"0": "xrow_grp,mm_active,wl_active,idle\\n0,1,2,3\\n"}}}'
    for second in range(10):
        data = b"broken" if second < 2 else engine
        monitor.feed(Reading("n", TENSOR_ENGINE, float(second), data))
    assert decoded == [b"broken", b"broken", engine]
    (source,) = monitor.tick(9.0).cluster.nodes["n"].frame.sources
    assert (source.state, source.time) == (State.FRESH, 9.0)
    assert source.counts == {"undecodable": 2, "readings": 8}
    assert monitor.tick(9.0).cluster.has_parts
