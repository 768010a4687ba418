"""Grafana's dashboards as code: what the screen shows, asked of a Prometheus.

Built with grafana-foundation-sdk, a dependency of development that only this package imports.
What it makes is committed in `deploy/grafana` and shipped as it is there
(`trntop.exporters.shipped_dashboards`).

    promql     the expressions: every selector is narrowed to the chosen scrape job and instance
    panels     the kinds of panels, with what all of one kind have in common
    layout     rows of panels on the grid
    board      variables, links and annotations, the same on every dashboard
    common     panels of several dashboards
    cluster, node, efa, job    the dashboards
"""

import warnings

with warnings.catch_warnings():
    # The classic form is meant: any Grafana imports it, the new one only the newest do.
    warnings.filterwarnings("ignore", "Prefer using dashboardv2", DeprecationWarning)
    import grafana_foundation_sdk.models.dashboard  # noqa: F401
