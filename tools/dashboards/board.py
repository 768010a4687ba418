"""What every dashboard has: variables, links to the others, annotations, times."""

from collections.abc import Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.models import common, dashboard, prometheus

from trntop.core.model import Severity

from .layout import Section, arrange
from .panels import COLORS, DATASOURCE
from .promql import OPENED, Narrow, incidents, series

TAG = "trntop"
ALL = ".+"
TOP = ("10", "20", "50", "100", "200")
"""How many rows the user may choose that worst-first panels show."""
KEPT = "${datasource:queryparam}&${job:queryparam}&${instance:queryparam}&${__url_time_range}"
"""What a link carries along."""


@dataclass(frozen=True, slots=True)
class Board:
    """A dashboard before it is built."""

    name: str
    """Of its file; after `trntop-` its uid."""
    title: str
    about: str
    variables: Sequence[dashboard.VariableModel]
    """Its own, after those that all have."""
    sections: Sequence[Section]
    incidents: Narrow
    """Which of them are on it."""

    def build(self) -> dashboard.Dashboard:
        """As Grafana imports it; editing goes to a copy, since a new release replaces it."""
        return dashboard.Dashboard(
            uid=uid(self.name),
            title=self.title,
            description=self.about,
            tags=[TAG],
            timezone="browser",
            editable=False,
            graph_tooltip=dashboard.DashboardCursorSync.CROSSHAIR,
            refresh="30s",
            time=dashboard.DashboardDashboardTime(from_val="now-1h", to="now"),
            timepicker=dashboard.TimePickerConfig(
                refresh_intervals=["5s", "15s", "30s", "1m", "5m"]
            ),
            templating=dashboard.DashboardDashboardTemplating(
                list_val=[_datasource(), *_scope(), *self.variables]
            ),
            annotations=dashboard.AnnotationContainer(list_val=_annotations(self.incidents)),
            links=[_others()],
            panels=arrange(self.sections),
        )


def uid(name: str) -> str:
    """Of a dashboard: links contain it, so it never changes."""
    return f"trntop-{name}"


def lead(title: str, board: str, variable: str) -> dashboard.DashboardLink:
    """From a cell to the dashboard of what the cell names."""
    return dashboard.DashboardLink(
        title=title, url=f"/d/{uid(board)}?var-{variable}=${{__value.raw}}&{KEPT}"
    )


def to_node() -> dashboard.DashboardLink:
    """From a node's name to its dashboard."""
    return lead("This node", "node", "node")


def to_efa_devices() -> dashboard.DashboardLink:
    """From a node's name to its EFA devices."""
    return lead("EFA devices of the node", "efa", "node")


def to_job() -> dashboard.DashboardLink:
    """From a job's name to its dashboard."""
    return lead("This job", "job", "training_job")


def choice(
    name: str,
    label: str,
    of: str,
    what: str,
    *matchers: str,
    several: bool = True,
) -> dashboard.VariableModel:
    """A variable with the values of a label.

    Args:
        name: of the variable.
        label: as the user reads it.
        of: the metric that has the label.
        what: the label.
        matchers: the series that count.
        several: whether more than one can be chosen, and all.
    """
    query = f"label_values({series(of, *matchers)}, {what})"
    return _query(name, label, query, several=several)


def how_many() -> dashboard.VariableModel:
    """How many rows panels that show the worst of something have."""
    return dashboard.VariableModel(
        type_val=dashboard.VariableType.CUSTOM,
        name="top",
        label="Rows",
        description="How many rows heat maps and worst-first tables show.",
        query=",".join(TOP),
        current=dashboard.VariableOption(selected=True, text="50", value="50"),
        options=[
            dashboard.VariableOption(selected=value == "50", text=value, value=value)
            for value in TOP
        ],
    )


def _datasource() -> dashboard.VariableModel:
    return dashboard.VariableModel(
        type_val=dashboard.VariableType.DATASOURCE,
        name="datasource",
        label="Data source",
        query="prometheus",
        current=dashboard.VariableOption(text="default", value="default"),
    )


def _scope() -> list[dashboard.VariableModel]:
    # One metric of each page: they may be scraped under different job names.
    pages = "trntop_nodes|trn_node_vcpus|trn_neuroncore_utilization_ratio"
    return [
        _query("job", "Job", f'label_values({{__name__=~"{pages}"}}, job)'),
        _query(
            "instance",
            "Instance",
            f'label_values({{__name__=~"{pages}", job=~"$job"}}, instance)',
        ),
    ]


def _query(name: str, label: str, query: str, *, several: bool = True) -> dashboard.VariableModel:
    everything = dashboard.VariableOption(selected=True, text=["All"], value=["$__all"])
    return dashboard.VariableModel(
        type_val=dashboard.VariableType.QUERY,
        name=name,
        label=label,
        datasource=DATASOURCE,
        definition=query,
        query={"query": query, "refId": f"variable-{name}"},
        refresh=dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED,
        sort=dashboard.VariableSort.NATURAL_ASC,
        multi=several,
        include_all=several,
        all_value=ALL if several else None,
        current=everything if several else None,
    )


def _others() -> dashboard.DashboardLink:
    return dashboard.DashboardLink(
        title="trntop",
        type_val=dashboard.DashboardLinkType.DASHBOARDS,
        icon="external link",
        tooltip="The other dashboards, with the same time and variables",
        tags=[TAG],
        include_vars=True,
        keep_time=True,
    )


def _annotations(narrow: Narrow) -> list[dashboard.AnnotationQuery]:
    """When incidents opened, by the data's own clock; while they last on demand."""

    def opened(severity: Severity) -> str:
        chosen = f'severity="{severity}"'
        return narrow(lambda *matchers: incidents(chosen, *matchers, of=OPENED))

    return [
        *(
            _annotation(
                f"Opened: {severity}", f"{opened(severity)} * 1000", COLORS[severity], by_value=True
            )
            for severity in reversed(Severity)
        ),
        _annotation("Incidents while they last", narrow(incidents), "purple", shown=False),
    ]


def _annotation(
    name: str, expr: str, color: str, *, by_value: bool = False, shown: bool = True
) -> dashboard.AnnotationQuery:
    return dashboard.AnnotationQuery(
        name=name,
        datasource=common.DataSourceRef(type_val="prometheus", uid="$datasource"),
        enable=shown,
        hide=False,
        icon_color=color,
        target=prometheus.Dataquery(expr=expr, ref_id="Anno", datasource=DATASOURCE),
        title_format="{{kind}}",
        text_format="{{node}} {{component}} {{training_job}}",
        tag_keys="severity,kind,node",
        use_value_for_time=by_value,
    )
