"""trntop's metrics in somebody else's prometheus_client registry.

from prometheus_client import REGISTRY
from trntop.exporters.collector import TrntopCollector

session.start()  # a `trntop.session.runner.Session`
REGISTRY.register(TrntopCollector(lambda: session.view))
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from trntop.analysis.rule import Rule
from trntop.catalog import Page
from trntop.core.model import View

from .metrics.exposition import Format
from .metrics.pages import DEFAULT_MAX_SERIES, Exposition


class TrntopCollector(Collector):
    """Yields the metric families of the newest view: those of `trntop export`'s pages.

    Without the `process_*` families, which a registry has already.

    Args:
        latest: gives the newest view, None while there is none; called at each scrape, must
            return at once.
        pages: the pages to include.
        rules: the rules in force; `trn_incidents` has one series for each.
        max_series: most series of one page; `trntop_series_dropped` counts the others.
    """

    def __init__(
        self,
        latest: Callable[[], View | None],
        pages: Sequence[Page] = (Page.METRICS,),
        rules: Sequence[Rule] = (),
        max_series: int = DEFAULT_MAX_SERIES,
    ) -> None:
        self._latest = latest
        self._pages = pages
        self._exposition = Exposition(max_series, tuple, rules)

    def describe(self) -> Iterable[Metric]:
        """Nothing: registering collects nothing, and names of custom quantities come later."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """The families of the newest view."""
        rendered = self._exposition.render(self._latest())
        families: dict[str, Metric] = {}
        for page in self._pages:
            text = rendered.body(page, Format.TEXT).decode()
            for family in text_string_to_metric_families(text):
                # Every page has `trntop_series_dropped`, and a family is yielded once.
                known = families.setdefault(family.name, family)
                if known is not family:
                    known.samples += family.samples
        yield from families.values()
