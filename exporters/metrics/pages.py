"""The pages of metrics, as `trntop.catalog.Page` divides them, in both text formats.

A page is composed on the first request, at most once per view; its two formats share the lines of
all families. An absent value has no line.
"""

import platform
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from trntop import __version__
from trntop.analysis.rule import Rule
from trntop.catalog import Kind, Page
from trntop.core.model import Cluster, Inventory, NodeView, View
from trntop.core.settings import Analysis

from . import allocations, columns, process, status
from .columns import METRICS, Templates
from .exposition import END, Block, Family, Format, labels
from .status import Identity

DEFAULT_MAX_SERIES = 20_000
MAX_INCIDENTS = 500
"""Limit of the series of incidents; the worst are kept."""

Compat = Callable[[Cluster], Iterable[Block]]
"""Returns a cluster's values under the names of another exporter."""

_BUILD = Family("trntop_build_info", Kind.GAUGE, "Version of the exporter and of its Python")
_NODES = Family("trntop_nodes", Kind.GAUGE, "Nodes of the exporter")
_DROPPED = Family(
    "trntop_series_dropped",
    Kind.GAUGE,
    "Series dropped from this page because of the limit on series",
)


@dataclass(frozen=True, slots=True)
class _Node:
    """The cached lines of a node; valid for one inventory."""

    inventory: Inventory
    simulated: bool
    identity: Identity
    templates: Templates


class Exposition:
    """Renders views to pages of metrics; keeps what does not change between them.

    Args:
        max_series: limit of one page. Families are dropped completely from its end, and
            `trntop_series_dropped` counts their series.
        usage: returns the families of the exporter's own process.
        rules: the rules in force; `trn_incidents` has a series for each.
        settings: those that the rules go by.
        compat: the names of other exporters, at the end of `/metrics`.
    """

    def __init__(
        self,
        max_series: int = DEFAULT_MAX_SERIES,
        usage: Callable[[], Iterable[Block]] | None = None,
        rules: Sequence[Rule] = (),
        compat: Sequence[Compat] = (),
        settings: Analysis | None = None,
    ) -> None:
        self._max_series = max_series
        self._usage = usage or process.families
        self._rules = rules
        self._settings = settings or Analysis()
        self._compat = compat
        self._nodes: dict[str, _Node] = {}
        build = [("version", __version__), ("python", platform.python_version())]
        self._build = f"{_BUILD.name}{labels(build)} 1\n"

    def render(self, view: View | None) -> "Rendered":
        """The pages of a view; without one, the series of the exporter itself."""
        cluster = view.cluster if view is not None else Cluster()
        self._nodes = {name: self._node(view) for name, view in cluster.nodes.items()}
        nodes = [(view, self._nodes[name]) for name, view in cluster.nodes.items()]
        return Rendered(lambda page: self._compose(page, view, nodes))

    def _node(self, view: NodeView) -> _Node:
        """The lines of a node, from the cache if its inventory is the same."""
        node = self._nodes.get(view.name)
        inventory, simulated = view.inventory, view.frame.simulated
        # An inventory is replaced when it changes: identity is its version.
        if node is not None and node.inventory is inventory and node.simulated == simulated:
            return node
        return _Node(
            inventory,
            simulated,
            Identity(inventory, simulated=simulated),
            Templates(inventory, simulated=simulated),
        )

    def _compose(
        self, page: Page, view: View | None, nodes: Sequence[tuple[NodeView, _Node]]
    ) -> "_Sheet":
        sheet = _Sheet(page, self._max_series)
        if page is Page.METRICS:
            self._add_exporter(sheet, len(nodes))
        if view is None:
            return sheet
        # Families that a full page must keep come first.
        if page is Page.METRICS:
            self._add_nodes(sheet, view, nodes)
        elif page is Page.DETAIL:
            sheet.add(status.DEVICE, [line for _, node in nodes for line in node.identity.devices])
            sheet.add(status.SOURCE_EVENTS, status.source_events(view for view, _ in nodes))
        else:
            held = [line for _, node in nodes for line in node.identity.allocated_cores]
            sheet.add(allocations.CORES, held)
        for metric in METRICS[page]:
            name = metric.quantity.name
            present = [
                (column, node.templates)
                for view, node in nodes
                if (column := view.frame.columns.get(name)) is not None
            ]
            if sum(len(column) for column, _ in present) > sheet.left:
                # Counted before rendering, to save the time for families that do not fit.
                count = sum(int(np.isfinite(column).sum()) for column, _ in present)
                if count > sheet.left:
                    sheet.drop(count)
                    continue
            sheet.append(metric.family, *columns.lines(metric, present))
        if page is Page.METRICS:
            for families in self._compat:
                for family, lines in families(view.cluster):
                    sheet.add(family, lines)
        return sheet

    def _add_exporter(self, sheet: "_Sheet", nodes: int) -> None:
        sheet.add(_BUILD, [self._build])
        sheet.add(_NODES, [f"{_NODES.name} {nodes}\n"])
        for family, lines in self._usage():
            sheet.add(family, lines)

    def _add_nodes(
        self, sheet: "_Sheet", view: View, nodes: Sequence[tuple[NodeView, _Node]]
    ) -> None:
        views = [view for view, _ in nodes]
        identities = [node.identity for _, node in nodes]
        sheet.add(status.INCIDENTS, status.counts(self._rules, views, view.open_incidents))
        for family, lines in status.incidents(
            view.open_incidents, simulated=view.cluster.simulated
        ):
            sheet.add(family, lines, MAX_INCIDENTS)
        conditions = status.conditions(self._rules, self._settings, view.open_incidents)
        sheet.add(status.RULE, conditions)
        sheet.add(status.INSTANCE, [identity.instance for identity in identities])
        sheet.add(status.PHASE, status.phases(views))
        sheet.add(status.JOB, [line for identity in identities for line in identity.jobs])
        sheet.add(
            allocations.DEVICES,
            [line for identity in identities for line in identity.allocated_devices],
        )
        for family, lines in status.sources(list(zip(views, identities, strict=True))):
            sheet.add(family, lines)


class Rendered:
    """The pages of one view; each is composed on its first request, and kept."""

    def __init__(self, compose: Callable[[Page], "_Sheet"]) -> None:
        self._compose = compose
        self._sheets: dict[Page, _Sheet] = {}
        self._bodies: dict[tuple[Page, Format], bytes] = {}

    def body(self, page: Page, written: Format) -> bytes:
        """A page, encoded."""
        body = self._bodies.get((page, written))
        if body is None:
            if page not in self._sheets:
                self._sheets[page] = self._compose(page)
            body = self._bodies[page, written] = self._sheets[page].encode(written)
        return body


class _Sheet:
    """A page as it grows, up to a number of series."""

    def __init__(self, page: Page, max_series: int) -> None:
        self.left = max_series
        """Series that still fit; 0 after the first family that did not."""
        self._page = page
        self._dropped = 0
        self._families: list[tuple[Family, str]] = []

    def add(self, family: Family, lines: Sequence[str], most: int | None = None) -> None:
        """Appends a family if it fits; after the first that does not, none is added.

        Args:
            family: the family.
            lines: its series.
            most: limit of the series; the first ones are added.
        """
        kept = lines[:most]
        self._dropped += len(lines) - len(kept)
        self.append(family, "".join(kept), len(kept))

    def append(self, family: Family, text: str, count: int) -> None:
        """Appends a family of `count` lines in one text."""
        if count > self.left:
            self.drop(count)
        elif count:
            self.left -= count
            self._families.append((family, text))

    def drop(self, count: int) -> None:
        """Counts a family of `count` series that does not fit."""
        self._dropped += count
        self.left = 0

    def encode(self, written: Format) -> bytes:
        """The page; its last series counts the dropped ones."""
        dropped = f"{_DROPPED.name}{labels([('page', self._page)])} {self._dropped}\n"
        parts = [
            part
            for family, lines in (*self._families, (_DROPPED, dropped))
            for part in (family.header(written), lines)
        ]
        if written is Format.OPENMETRICS:
            parts.append(END)
        # Text is cleaned on input; a stray surrogate must not fail the page.
        return "".join(parts).encode("utf-8", "replace")
