"""Writes the dashboards as Grafana imports them: `python -m tools.dashboards [DIR]`."""

import sys
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from trntop.exporters import shipped_dashboards

from . import cluster, efa, job, node

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "grafana"


def boards() -> dict[str, Dashboard]:
    """Name of the file, without `.json` → the dashboard."""
    return {
        board.name: board.build()
        for board in (cluster.board(), node.board(), efa.board(), job.board())
    }


def encode(dashboard: Dashboard) -> str:
    """As it is committed."""
    return shipped_dashboards.encode(dashboard, JSONEncoder)


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    for name, dashboard in boards().items():
        (target / f"{name}.json").write_text(encode(dashboard), "utf-8")
