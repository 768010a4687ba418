"""CPU time, memory, start time and file descriptors of the exporter's own process."""

from functools import cache

from trntop.catalog import Kind

from .exposition import Block, Family, number


def families() -> list[Block]:
    """The standard `process_*` families of Prometheus client libraries; empty without /proc."""
    blocks = []
    for metric in _collector().collect():
        (sample,) = metric.samples
        family = Family(sample.name, Kind(metric.type), metric.documentation)
        blocks.append((family, [f"{sample.name} {number(float(sample.value))}\n"]))
    return blocks


@cache
def _collector():  # type: ignore[no-untyped-def]
    # Imported with the first page: other commands start faster without it.
    from prometheus_client import ProcessCollector

    return ProcessCollector(registry=None)
