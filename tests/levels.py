"""Two levels of aggregators in one process: what the lower ones judge and send, an upper one joins.

Encoders, rules and decoders are the real ones; there is no network in between.
"""

from starlette.requests import Request

from trntop.catalog import AGENT, INCIDENTS
from trntop.core.model import Reading, View
from trntop.core.settings import Settings
from trntop.exporters.web.stream import Streams, _Client
from trntop.remote import judges, wire
from trntop.session.incident_log import IncidentLog
from trntop.session.monitor import Monitor


class Lower:
    """An aggregator of some nodes.

    Args:
        judge: identifies its run.
        most: nodes that it sends.
        wanted: the quantities that are computed; by default all.
    """

    def __init__(self, judge: str, most: int, wanted: frozenset[str] | None = None) -> None:
        self.address = f"http://{judge}:10042"
        self.monitor = Monitor(Settings(), wanted=wanted)
        self._log = IncidentLog(1.0)
        self.streams = Streams(lambda: None, 1.0, aggregator=True, log=self._log)
        self.streams.judge = judge
        query = f"role=aggregator&columns=rules&most={most}".encode()
        request = Request({"type": "http", "headers": [], "query_string": query})
        self._feed = self.streams._feed(request)
        self._client = _Client(None, self._feed)

    def chunk(self, view: View) -> bytes:
        """What its stream has of a view."""
        self._log(view)
        return self.streams._chunk(view, self._client)

    def first_chunk(self, view: View) -> bytes:
        """The same of a stream that begins."""
        return self.streams._chunk(view, _Client(None, self._feed))


class Levels:
    """A player of two levels: nodes are those of the lower ones in turn.

    Args:
        count: number of lower aggregators.
        most: nodes that each sends.
        wanted: as of `Lower`.
    """

    period = 1.0
    sparse = None

    def __init__(self, count: int, most: int, wanted: frozenset[str] | None = None) -> None:
        self.lower = [Lower(f"lower-{number}", most, wanted) for number in range(count)]
        self.upper = Monitor(Settings(), observer=True)
        self._of: dict[str, Lower] = {}

    def feed(self, reading: Reading) -> None:
        if reading.node not in self._of:
            self._of[reading.node] = self.lower[len(self._of) % len(self.lower)]
        self._of[reading.node].monitor.feed(reading)

    def restart(self) -> None:
        raise AssertionError

    def end(self, now: float) -> None:
        for lower in self.lower:
            lower.monitor.end(now)

    def tick(self, now: float) -> View:
        for lower in self.lower:
            data = lower.chunk(lower.monitor.tick(now))
            for message in wire.FrameReader().feed(data):
                head = wire.head(message)
                if head.type == wire.GONE:
                    self.upper.remove(head.node)
                elif head.type in (judges.TAG, judges.TOTALS):
                    self.upper.feed(Reading(lower.address, INCIDENTS, now, message))
                else:
                    self.upper.feed(Reading(head.node, AGENT, now, message, head.simulated))
        return self.upper.tick(now)
