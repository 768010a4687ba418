import time

from tests.pages import samples
from trntop.catalog import Page
from trntop.exporters.metrics import process
from trntop.exporters.metrics.exposition import Format
from trntop.exporters.metrics.pages import Exposition


def test_this_process() -> None:
    values = {family.name: float(line.split()[1]) for family, (line,) in process.families()}
    assert values["process_resident_memory_bytes"] > 1 << 20
    assert 0 < values["process_start_time_seconds"] <= time.time() + 2
    assert values["process_open_fds"] >= 3
    assert values["process_cpu_seconds_total"] > 0


def test_it_is_on_the_page() -> None:
    body = Exposition().render(None).body(Page.METRICS, Format.TEXT)
    names = {name for name, _ in samples(body)}
    assert names >= {family.name for family, _ in process.families()}
