"""What a check will take, and the table of it in the manual."""

import re
from pathlib import Path

import pytest

from trntop.check.model import ProbeSpec
from trntop.check.plan import Plan, probe_seconds
from trntop.core import units

PAGE = Path(__file__).parents[2] / "docs/check.md"
EFA_DEVICES = 16


@pytest.mark.parametrize("provider", ["efa", "tcp"])
def test_64_nodes_are_checked_in_less_than_two_minutes(provider: str) -> None:
    plan = Plan(spec=ProbeSpec(provider=provider))  # type: ignore[arg-type]
    assert max(plan.seconds(64)) < 120


def test_a_probe_never_takes_longer_than_its_deadline() -> None:
    spec = ProbeSpec(iterations=10_000_000)
    assert probe_seconds(spec) < spec.seconds + 1


def test_more_work_takes_longer() -> None:
    quick, full, efa_devices = Plan(), Plan(extent="full"), Plan(per_device=True)
    assert quick.seconds(16)[0] < full.seconds(16)[0]
    assert quick.seconds(16)[0] < efa_devices.seconds(16, EFA_DEVICES)[0]
    assert quick.seconds(16)[0] < quick.seconds(16)[1]
    assert Plan(pairs=1).seconds(16)[0] > quick.seconds(16)[0]
    assert quick.seconds(1)[0] > 0 == quick.rounds(0).__len__()


def row(count: int) -> str:
    times = (
        plan.seconds(count, EFA_DEVICES)[0]
        for plan in (Plan(), Plan(per_device=True), Plan(extent="full"))
    )
    return f"| {count:,} | " + " | ".join(map(units.span, times)) + " |"


def test_the_table_in_the_manual() -> None:
    counts = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
    rows = [re.sub(r" +", " ", line) for line in PAGE.read_text().splitlines()]
    table = rows[rows.index(row(counts[0])) :]
    assert table[: len(counts)] == [row(count) for count in counts]
    assert not table[len(counts)]
