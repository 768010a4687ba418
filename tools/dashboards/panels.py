"""The kinds of panels: what all of one kind have in common is here once.

Values are asked for as of now where a panel shows one value, so that what went silent is shown
as absent and not as it was. Thresholds are the rulebook's.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from string import ascii_uppercase
from typing import Any

from grafana_foundation_sdk.models import (
    common,
    dashboard,
    heatmap,
    prometheus,
    stat,
    table,
    text,
    timeseries,
)

from trntop.catalog import CATALOG
from trntop.core import units
from trntop.core.model import Severity
from trntop.core.settings import Analysis
from trntop.exporters.metrics import allocations, status
from trntop.exporters.metrics.exposition import Family

LIMITS = Analysis()
"""The default thresholds."""

CALM = "text"
NOTICE = "blue"
WARNING = "orange"
CRITICAL = "red"
WELL = "green"
UNKNOWN = "#808080"
COLORS = {Severity.INFO: NOTICE, Severity.WARNING: WARNING, Severity.CRITICAL: CRITICAL}

DATASOURCE = common.DataSourceRef(type_val="prometheus", uid="$datasource")

Steps = Sequence[tuple[float | None, str]]
"""Thresholds: from which value on which colour; the first has none."""
Mapped = Mapping[str, tuple[str, str]]
"""Value → its text and colour."""

SEVERITIES: Mapped = {
    str(severity.rank + 1): (str(severity), COLORS[severity]) for severity in Severity
}
"""How `promql.severity_rank` is read."""


@dataclass(frozen=True, slots=True)
class Query:
    """An expression and the name of what it gives."""

    expr: str
    legend: str = ""
    steps: Steps = ()
    """Thresholds of its own, where a panel shows several values."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    title: str
    expr: str
    unit: str = "short"
    steps: Steps = ()
    mapped: Mapped = field(default_factory=dict)
    bar: bool = False
    """Drawn as a bar from 0 to 1."""
    shown: bool = True
    """Whether the values are shown, or only asked for because of their labels."""


def above(warning: float | None = None, critical: float | None = None) -> Steps:
    """Calm up to a limit."""
    steps: list[tuple[float | None, str]] = [(None, CALM)]
    if warning is not None:
        steps.append((warning, WARNING))
    if critical is not None:
        steps.append((critical, CRITICAL))
    return steps


def below(limit: float) -> Steps:
    """Calm from a limit on."""
    return [(None, WARNING), (limit, CALM)]


def stats(
    title: str,
    about: str,
    *queries: Query,
    unit: str = "short",
    steps: Steps = (),
    mapped: Mapped | None = None,
    width: int = 3,
    height: int = 4,
    name_only: bool = False,
    filled: bool = False,
) -> dashboard.Panel:
    """One value or a few, as they are now.

    Args:
        title: what it is.
        about: what a reader may want to know; the metrics used are described after it.
        queries: with a legend where there are several values.
        unit: one of Grafana's.
        steps: thresholds.
        mapped: texts and colours for single values.
        width: of 24 columns.
        height: in Grafana's grid units.
        name_only: the legend is the value.
        filled: coloured as a whole, for what must not be overlooked.
    """
    named = any(query.legend for query in queries)
    mode = common.BigValueTextMode
    options = stat.Options(
        graph_mode=common.BigValueGraphMode.NONE,
        color_mode=_fill(filled=filled),
        text_mode=mode.NAME if name_only else mode.VALUE_AND_NAME if named else mode.VALUE,
        reduce_options=common.ReduceDataOptions(values=False, calcs=["last"], fields=""),
    )
    fields = _fields(unit, steps or above(), mapped or {})
    panel = _panel("stat", title, about, queries, options, fields, width, height, instant=True)
    assert panel.field_config is not None
    panel.field_config.overrides = [
        _by_name(query.legend, {"thresholds": _thresholds(query.steps)})
        for query in queries
        if query.steps
    ]
    return panel


def lines(
    title: str,
    about: str,
    *queries: Query,
    unit: str,
    limit: float | None = None,
    stacked: bool = False,
    top: float | None = None,
    width: int = 8,
    height: int = 8,
) -> dashboard.Panel:
    """Values over time; a dashed line is at `limit`, the axis begins at 0."""
    mode = common.GraphThresholdsStyleMode
    custom = timeseries.FieldConfig(
        line_width=1,
        fill_opacity=30 if stacked else 0,
        show_points=common.VisibilityMode.NEVER,
        span_nulls=False,
        axis_soft_min=0,
        axis_soft_max=top,
        thresholds_style=common.GraphThresholdsStyleConfig(
            mode=mode.OFF if limit is None else mode.DASHED
        ),
        stacking=common.StackingConfig(
            mode=common.StackingMode.NORMAL if stacked else common.StackingMode.NONE, group="A"
        ),
    )
    options = timeseries.Options(
        legend=common.VizLegendOptions(
            display_mode=common.LegendDisplayMode.LIST,
            placement=common.LegendPlacement.BOTTOM,
            show_legend=True,
            calcs=[],
        ),
        tooltip=common.VizTooltipOptions(
            mode=common.TooltipDisplayMode.MULTI, sort=common.SortOrder.DESCENDING
        ),
    )
    fields = _fields(
        unit, above(limit), {}, color=dashboard.FieldColorModeId.PALETTE_CLASSIC_BY_NAME
    )
    fields.custom = custom
    return _panel("timeseries", title, about, queries, options, fields, width, height)


def heat(
    title: str,
    about: str,
    query: Query,
    *,
    scheme: str,
    top: float | None,
    unit: str = "percentunit",
    width: int = 8,
    height: int = 9,
) -> dashboard.Panel:
    """A row per series, time from left to right; full colour at `top`."""
    options = heatmap.Options(
        calculate=False,
        color=heatmap.HeatmapColorOptions(
            mode=heatmap.HeatmapColorMode.SCHEME,
            scheme=scheme,
            fill="dark-orange",
            scale=heatmap.HeatmapColorScale.EXPONENTIAL,
            exponent=0.5,
            steps=64,
            reverse=False,
            min_val=0,
            max_val=top,
        ),
        rows_frame=heatmap.RowsHeatmapOptions(layout=common.HeatmapCellLayout.AUTO),
        cell_gap=1,
        cell_values=heatmap.CellValues(unit=unit),
        show_value=common.VisibilityMode.NEVER,
        y_axis=heatmap.YAxisConfig(axis_placement=common.AxisPlacement.LEFT, reverse=True),
        legend=heatmap.HeatmapLegend(show=True),
        tooltip=heatmap.HeatmapTooltip(
            mode=common.TooltipDisplayMode.SINGLE, y_histogram=False, show_color_scale=True
        ),
    )
    fields = _fields(unit, (), {})
    fields.custom = heatmap.FieldConfig(
        scale_distribution=common.ScaleDistributionConfig(type_val=common.ScaleDistribution.LINEAR)
    )
    return _panel("heatmap", title, about, [query], options, fields, width, height)


def rows(
    title: str,
    about: str,
    labels: Mapping[str, str],
    *columns: Column,
    sort: str,
    rising: bool = False,
    hidden: Sequence[str] = (),
    links: Mapping[str, Sequence[dashboard.DashboardLink]] | None = None,
    width: int = 24,
    height: int = 9,
) -> dashboard.Panel:
    """A table as of now, a row per combination of labels, worst first.

    Args:
        title: what its rows are.
        about: as for `one`.
        labels: label → title, in the order of the columns; they are before the values.
        columns: the values; a row has what is known, and a dash elsewhere.
        sort: title of the column to sort by, largest first.
        rising: smallest first.
        hidden: labels that are not shown.
        links: title of a column → where its cells lead.
        width: of 24 columns.
        height: in Grafana's grid units.
    """
    several = len(columns) > 1
    fields_of = {
        (f"Value #{letter}" if several else "Value"): column
        for letter, column in zip(ascii_uppercase, columns, strict=False)
    }
    names = {name: column.title for name, column in fields_of.items() if column.shown}
    silent = [name for name, column in fields_of.items() if not column.shown]
    order = [*labels, *names]
    transformations = [
        dashboard.DataTransformerConfig(id_val="merge", options={}),
        dashboard.DataTransformerConfig(
            id_val="organize",
            options={
                "excludeByName": dict.fromkeys(("Time", *hidden, *silent), True),
                "indexByName": {name: index for index, name in enumerate(order)},
                "renameByName": {**labels, **names},
            },
        ),
    ]
    fields = _fields("short", above(), {})
    fields.custom = table.FieldConfig(
        align=common.FieldTextAlignment.AUTO, cell_options=common.TableAutoCellOptions(),
        filterable=True,
    )  # fmt: skip
    options = table.Options(
        show_header=True,
        sort_by=[common.TableSortByFieldState(display_name=sort, desc=not rising)],
        footer=common.TableFooterOptions(show=False, reducer=[], enable_pagination=True),
        cell_height=common.TableCellHeight.SM,
    )
    panel = _panel(
        "table", title, about, [Query(column.expr) for column in columns], options, fields,
        width, height, instant=True,
    )  # fmt: skip
    panel.transformations = transformations
    assert panel.field_config is not None
    panel.field_config.overrides = [
        *(_override(column) for column in columns if column.shown),
        *(_by_name(name, {"links": list(leads)}) for name, leads in (links or {}).items()),
    ]
    return panel


def prose(title: str, content: str, *, width: int = 24, height: int = 6) -> dashboard.Panel:
    """Markdown."""
    return dashboard.Panel(
        type_val="text",
        title=title,
        grid_pos=dashboard.GridPos(h=height, w=width),
        options=text.Options(mode=text.TextMode.MARKDOWN, content=content),
    )


def _fill(*, filled: bool) -> common.BigValueColorMode:
    mode = common.BigValueColorMode
    return mode.BACKGROUND_SOLID if filled else mode.VALUE


def _panel(
    kind: str,
    title: str,
    about: str,
    queries: Sequence[Query],
    options: object,
    fields: dashboard.FieldConfig,
    width: int,
    height: int,
    *,
    instant: bool = False,
) -> dashboard.Panel:
    form = prometheus.PromQueryFormat
    return dashboard.Panel(
        type_val=kind,
        title=title,
        description=described(about, [query.expr for query in queries]),
        datasource=DATASOURCE,
        grid_pos=dashboard.GridPos(h=height, w=width),
        targets=[
            prometheus.Dataquery(
                datasource=DATASOURCE,
                editor_mode=prometheus.QueryEditorMode.CODE,
                expr=query.expr,
                format_val=form.TABLE if kind == "table" else form.TIME_SERIES,
                instant=instant,
                range_val=not instant,
                legend_format=query.legend or None,
                ref_id=letter,
            )
            for letter, query in zip(ascii_uppercase, queries, strict=False)
        ],
        options=options,
        field_config=dashboard.FieldConfigSource(defaults=fields),
    )


def _fields(
    unit: str,
    steps: Steps,
    mapped: Mapped,
    *,
    color: dashboard.FieldColorModeId = dashboard.FieldColorModeId.THRESHOLDS,
) -> dashboard.FieldConfig:
    return dashboard.FieldConfig(
        unit=unit,
        no_value=units.ABSENT,
        color=dashboard.FieldColor(mode=color),
        mappings=_mappings(mapped),
        thresholds=_thresholds(steps),
    )


def _thresholds(steps: Steps) -> dashboard.ThresholdsConfig:
    return dashboard.ThresholdsConfig(
        mode=dashboard.ThresholdsMode.ABSOLUTE,
        steps=[dashboard.Threshold(value=value, color=color) for value, color in steps],
    )


def _mappings(mapped: Mapped) -> list[dashboard.ValueMapping]:
    """Absent is a dash, everywhere."""
    absent = dashboard.SpecialValueMap(
        options=dashboard.DashboardSpecialValueMapOptions(
            match=dashboard.SpecialValueMatch.NULL_AND_NAN,
            result=dashboard.ValueMappingResult(text=units.ABSENT, index=len(mapped)),
        )
    )
    found = {
        value: dashboard.ValueMappingResult(text=label, color=color, index=index)
        for index, (value, (label, color)) in enumerate(mapped.items())
    }
    return [*([dashboard.ValueMap(options=found)] if found else []), absent]


def _override(column: Column) -> dashboard.DashboardFieldConfigSourceOverrides:
    properties: dict[str, Any] = {"unit": column.unit}
    if column.steps:
        properties["thresholds"] = _thresholds(column.steps)
    if column.mapped:
        properties["mappings"] = _mappings(column.mapped)
    if column.bar:
        properties |= {"min": 0, "max": 1}
        properties["custom.cellOptions"] = common.TableBarGaugeCellOptions(
            mode=common.BarGaugeDisplayMode.BASIC,
            value_display_mode=common.BarGaugeValueMode.TEXT,
        )
    elif column.mapped:
        properties["custom.cellOptions"] = common.TableColoredBackgroundCellOptions(
            mode=common.TableCellBackgroundDisplayMode.BASIC
        )
    elif column.steps:
        properties["custom.cellOptions"] = common.TableColorTextCellOptions()
    return _by_name(column.title, properties)


def _by_name(
    name: str, properties: Mapping[str, Any]
) -> dashboard.DashboardFieldConfigSourceOverrides:
    """Of the field with that name, instead of what all have."""
    return dashboard.DashboardFieldConfigSourceOverrides(
        matcher=dashboard.MatcherConfig(id_val="byName", options=name),
        properties=[
            dashboard.DynamicConfigValue(id_val=key, value=value)
            for key, value in properties.items()
        ],
    )


def described(about: str, exprs: Sequence[str]) -> str:
    """The description of a panel: then every metric in it, with where its values come from."""
    known = _metrics()
    used = dict.fromkeys(
        name for expr in exprs for name in re.findall(r"\btrn(?:top)?_\w+", expr) if name in known
    )
    return f"{about}\n\n" + "\n".join(f"- `{name}`: {known[name]}" for name in used)


@cache
def _metrics() -> Mapping[str, str]:
    """Metric → its help and provenance."""
    own = (
        value
        for module in (status, allocations)
        for value in vars(module).values()
        if isinstance(value, Family)
    )
    return {family.name: family.help for family in own} | {
        quantity.metric: f"{quantity.help} ({quantity.provenance})"
        for quantity in CATALOG.values()
        if quantity.exported
    }
