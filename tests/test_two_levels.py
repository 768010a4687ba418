"""Agents, two aggregators of them, one above these and a dashboard, each a process of its own."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.test_aggregator import Exporter, exporters, until
from tests.test_opened_late import TICK, Dashboard, check, clock, cluster, found
from tests.test_streams_end_to_end import run

pytestmark = [
    pytest.mark.xdist_group("machine"),
    pytest.mark.slow,  # 90 s of real time, and a dozen processes
]

HALF = 4
"""Agents of each of the two."""
KIND = "efa_degraded"


def test_an_aggregator_above_aggregators_has_what_they_find(tmp_path: Path) -> None:
    with cluster(tmp_path, 2 * HALF, 300) as made, exporters() as start:
        racks = (
            {f"127.0.0.{number}" for number in range(1, HALF + 1)},
            {f"127.0.0.{number}" for number in range(HALF + 1, 2 * HALF + 1)},
        )
        faulty = int(made.node in racks[1])

        def lower_one(rack: int, listen: str) -> Exporter:
            first = 1 + rack * HALF
            nodes = f"http://127.0.0.[{first}-{first + HALF - 1}]:{made.port}"
            return start(nodes, "--state", str(tmp_path / f"{rack}"), listen=listen)

        def upper_one(listen: str) -> Exporter:
            return start(sources, "--state", str(tmp_path / "upper"), listen=listen)

        lower = [lower_one(rack, f"127.0.1.{rack + 1}:0") for rack in range(2)]
        sources = "http://" + ",".join(aggregator.listen for aggregator in lower)
        upper = upper_one("127.0.0.1:0")
        fresh = dict.fromkeys(racks[0] | racks[1], "fresh")
        until(lambda: states(upper) == fresh)

        # What one of them finds is the same above.
        until(lambda: upper.day["incidents"])
        below, above = (found(aggregator.day, KIND) for aggregator in (lower[faulty], upper))
        check(made, above, is_open=True)
        assert identity(above) == identity(below)
        assert lower[1 - faulty].day["incidents"] == []
        assert is_on_page(upper, above)
        shown = found(json.loads(run("snapshot", "--json", upper.listen)), KIND)
        assert identity(shown) == identity(above)
        device = above["component"].removeprefix("efa:")
        dashboard = Dashboard(tmp_path / "dashboard", upper.listen)
        try:
            dashboard.shows(clock(above["opened_at"]), above["node"], device)

            # It is gone: its nodes are not shown as healthy, and its incident is not shown as over.
            lower[faulty].kill()
            lost = {**fresh, **dict.fromkeys(racks[faulty], "down")}
            until(lambda: states(upper) == lost)
            until(lambda: behind(upper) > 0)
            for node in lost:
                assert has_values(upper, node) is (lost[node] == "fresh")
            (kept,) = upper.day["incidents"]
            assert identity(kept) == identity(above)
            assert kept["closed_at"] is None
            assert re.search(r"\(as of \d+ s ago\)$", kept["summary"])
            assert is_on_page(upper, above)
            reason = f"http://{lower[faulty].listen}: connection refused"
            dashboard.shows(f"{HALF} down", reason)

            # It is back.
            lower_one(faulty, lower[faulty].listen)
            until(lambda: states(upper) == fresh)
            until(lambda: behind(upper) == 0)
            check_again(upper, above)
            dashboard.shows(clock(above["opened_at"]), above["node"], device)
        finally:
            dashboard.close()

        # So is the upper one.
        upper.kill()
        again = upper_one(upper.listen)
        check_again(again, above)
        until(lambda: states(again) == fresh)
        check_again(again, above)


def states(aggregator: Exporter) -> dict[str, str]:
    nodes = aggregator.get("/v1/inventory").json()["nodes"]
    return {node["node"]: node["state"] for node in nodes}


def identity(incident: dict[str, Any]) -> tuple[str, float]:
    return incident["id"], incident["opened_at"]


def check_again(aggregator: Exporter, incident: dict[str, Any]) -> None:
    """It has the same incident, once; what played the past again may find it a tick earlier."""
    (known,) = aggregator.day["incidents"]
    assert (known["id"], known["closed_at"]) == (incident["id"], None)
    assert known["opened_at"] == pytest.approx(incident["opened_at"], abs=TICK)


def is_on_page(aggregator: Exporter, incident: dict[str, Any]) -> bool:
    """Whether an incident is the one that is active."""
    page = aggregator.get("/metrics").text
    (labels,) = re.findall(r"^trn_incident_active\{(.*)\} 1$", page, re.MULTILINE)
    return all(f'{name}="{incident[name]}"' in labels for name in ("kind", "node", "component"))


def has_values(aggregator: Exporter, node: str) -> bool:
    return f'\ntrn_node_efa_tx_bytes_per_second{{node="{node}"' in aggregator.get("/metrics").text


def behind(aggregator: Exporter) -> float:
    found = re.search(r"\ntrntop_behind_seconds (.*)\n", aggregator.get("/metrics").text)
    assert found is not None
    return float(found[1])
