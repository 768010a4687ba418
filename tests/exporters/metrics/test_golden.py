"""Whole pages: against golden files, against promtool and against prometheus_client's parsers."""

import math
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.builders import make_incident, make_node, view_of
from tests.exporters.metrics.test_pages import HOSTILE
from tests.pages import body_of, exposition, named, samples
from trntop.catalog import NEURON_MONITOR, STEPS, Page
from trntop.collectors.simulator import parse, simulate
from trntop.core.model import Severity, State, View
from trntop.core.settings import Settings
from trntop.exporters.metrics.exposition import Format
from trntop.session.monitor import Monitor, play

GOLDEN = Path(__file__).parent / "golden"
START = 1.76e9
UNTIMED = ("healthy", "demo", "random", "version-skew")
"""Scenarios that begin when they like."""
VARIOUS = ("demo", "efa-degraded", "device-lost", "silent-node", "version-skew", "execution-errors")
"""Those whose pages differ in form: devices, nodes and values that lack, labels of incidents."""

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed"
)


@cache
def played(scenario: str) -> View:
    """Two nodes after two minutes, the last 80 s of them with what the scenario is about."""
    onset = "" if scenario in UNTIMED else "&onset=40"
    text = f"sim:{scenario}?nodes=2&minutes=2{onset}&type=trn1.32xlarge"
    # The very last view is that of an ended recording.
    *_, view, _ = play(simulate(parse(text), START), Monitor(Settings()))
    return view


@cache
def by_hand() -> View:
    """One healthy node, one simulated, one with a silent monitor and an unknown value."""
    return view_of(
        make_node(0, devices=1),
        make_node(1, devices=1, simulated=True),
        make_node(
            2,
            devices=1,
            states={NEURON_MONITOR: State.STALE, STEPS: State.DOWN},
            reason="silent for 14 s",
            columns={"efa_retrans_pkts_total": [3.0, math.nan]},
        ),
        incidents=[
            make_incident(),
            make_incident("node_silent", severity=Severity.CRITICAL, component=None),
            make_incident("memory_pressure", closed_at=START),
        ],
    )


GOLDENS = {
    **{f"{page}.prom": ("", page, Format.TEXT) for page in Page},
    "metrics.openmetrics": ("", Page.METRICS, Format.OPENMETRICS),
    **{
        f"{scenario}.{suffix}": (scenario, Page.METRICS, written)
        for scenario in ("efa-degraded", "device-lost", "silent-node")
        for suffix, written in (("prom", Format.TEXT), ("openmetrics", Format.OPENMETRICS))
    },
}
"""File → the scenario (none: the view made by hand), page and format that it holds."""


def golden(name: str) -> str:
    """A page without what changes with the version, and to ten digits: sums of floats differ in
    their last ones from processor to processor.
    """
    scenario, page, written = GOLDENS[name]
    text = body_of(played(scenario) if scenario else by_hand(), page, written).decode()
    text = re.sub(r"(trntop_build_info)\{.*\}", r"\1{…}", text)
    return re.sub(
        r"(?<= )-?\d+(\.\d+)?(e[-+]\d+)?$",
        lambda number: f"{float(number[0]):.10g}",
        text,
        flags=re.MULTILINE,
    )


@pytest.mark.parametrize("name", GOLDENS)
def test_golden_page(name: str) -> None:
    assert golden(name) == (GOLDEN / name).read_text(), (
        "run: python -m tests.exporters.metrics.test_golden"
    )


@pytest.mark.parametrize("scenario", VARIOUS)
def test_fault_36_a_scenario_is_read_the_same_in_both_formats(scenario: str) -> None:
    rendered = exposition().render(played(scenario))
    for page in Page:
        text, openmetrics = (rendered.body(page, written) for written in Format)
        assert samples(text) == samples(openmetrics, Format.OPENMETRICS)
        assert named(text, "trntop_series_dropped") == [({"page": page}, 0)]


@needs_promtool
@pytest.mark.parametrize("scenario", ["", *VARIOUS])
def test_fault_36_promtool_finds_nothing(scenario: str) -> None:
    rendered = exposition().render(played(scenario) if scenario else by_hand())
    for page in Page:
        check(rendered.body(page, Format.TEXT))


@needs_promtool
def test_promtool_reads_hostile_names() -> None:
    view = view_of(*(make_node(name=text, jobs=[text]) for text in HOSTILE))
    for page in Page:
        check(body_of(view, page))


def check(body: bytes) -> None:
    result = subprocess.run(["promtool", "check", "metrics"], input=body, capture_output=True)
    assert (result.returncode, result.stdout + result.stderr) == (0, b"")


def test_a_node_has_little_more_than_a_hundred_series() -> None:
    """On `/metrics`, so that one Prometheus carries a large cluster."""
    simulation = parse("sim:healthy?nodes=1&minutes=1&type=trn2.48xlarge")
    *_, view, _ = play(simulate(simulation, START), Monitor(Settings()))
    of_node = [pairs for _, pairs in samples(body_of(view)) if ("node", "trn-000") in pairs]
    assert len(of_node) <= 140
    of_exporter = len(samples(body_of(view))) - len(of_node)
    assert of_exporter <= 25


if __name__ == "__main__":
    for file in GOLDENS:
        sys.stderr.write(f"{file}\n")
        (GOLDEN / file).write_text(golden(file))
