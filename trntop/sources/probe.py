"""Results of active latency probes, as the tools report them.

    {"tool": "fi_pingpong", "peer": "trn-003", "card": "rdmap16s27", "peer_card": …,
     "provider": "efa", "size_bytes": 64, "statistic": "mean", "seconds": 1.65e-05,
     "load": "idle", "lost": 0, "error": …}

or several as `{"results": […]}`. A result needs `tool`, `peer` and `seconds`, or an `error` in
their place. `seconds` is one way, as fi_pingpong's `usec/xfer` and perftest's latencies are;
`statistic` is that of the probe's messages: mean, min, max or a percentile. `load` describes
what ran at the same time.
"""

import msgspec
import numpy as np

from trntop.catalog import PROBE, Entity
from trntop.core.errors import DecodeError
from trntop.core.model import Sample
from trntop.core.text import clean
from trntop.sources import tolerant
from trntop.sources.columns import SECONDS, SIZE, Layout
from trntop.sources.source import Role, Source

MAX_RESULTS = 1024
STATISTICS = ("p50", "mean", "min", "p25", "p90", "p99", "max")
"""The best known first: of several results of a link, the one that odd messages move least."""
_FACTS = ("tool", "provider", "peer_card", "statistic", "size_bytes", "load", "lost")
_COLUMNS = Layout((("link_latency_seconds",), SECONDS), (("link_probe_size_bytes",), SIZE))


class _Result(msgspec.Struct):
    tool: str | None = None
    peer: str | None = None
    card: str | None = None
    peer_card: str | None = None
    provider: str | None = None
    size_bytes: int | None = None
    statistic: str | None = None
    seconds: float | None = None
    load: str | None = None
    lost: int | None = None
    error: str | None = None

    @property
    def link(self) -> str:
        """`peer`, or `card>peer` where the device is known."""
        peer, card = clean(self.peer or "", 64), clean(self.card or "", 64)
        return f"{card}>{peer}" if card else peer

    @property
    def rank(self) -> tuple[bool, float, int]:
        """The lower, the better it represents its link: small messages show latency itself."""
        size = self.size_bytes if self.size_bytes is not None else np.inf
        known = self.statistic in STATISTICS
        order = STATISTICS.index(self.statistic or "") if known else len(STATISTICS)
        return bool(self.error), size, order

    def complaint(self) -> str:
        """Why it gives no latency; empty when it does."""
        if self.error:
            return clean(self.error)
        if self.statistic is not None and self.statistic not in STATISTICS:
            known = ", ".join(STATISTICS)
            return f"unknown statistic {clean(self.statistic, 16)!r}; known are {known}"
        if not self.tool:
            return "no `tool`"
        if self.seconds is None or not 0 < self.seconds <= SECONDS.limit:
            return "no usable `seconds`"
        return ""


class _Probe(_Result):
    results: list[_Result] | None = None


_decoder = msgspec.json.Decoder(_Probe)


def decode(data: bytes) -> Sample:
    """One payload: a latency per link, absent where the probe failed.

    Raises:
        DecodeError: no JSON object of this kind, or none of its results names its peer.
    """
    probe, problems = tolerant.decode(data, _decoder)
    results = [probe, *(probe.results or ())] if probe.peer else list(probe.results or ())
    notes = list(problems)
    if len(results) > MAX_RESULTS:
        notes.append(f"{len(results)} results; only {MAX_RESULTS} are read")
        results = results[:MAX_RESULTS]
    links: dict[str, _Result] = {}
    for result in results:
        if not result.link:
            notes.append("a result without `peer`")
            continue
        if complaint := result.complaint():
            notes.append(f"{result.link}: {complaint}")
            result = msgspec.structs.replace(result, seconds=None, error=complaint)
        if result.link not in links or result.rank < links[result.link].rank:
            links[result.link] = result
    if not links:
        raise DecodeError(notes[0] if notes else "no `peer`")
    names = sorted(links)
    values = _COLUMNS.read([(links[name].seconds, links[name].size_bytes) for name in names])
    return Sample(
        keys={Entity.LINK: tuple(names)},
        # A link that could not be probed has a column all the same: its earlier result is over.
        columns=dict(zip(_COLUMNS.names, values.T, strict=True)),
        facts={"links": {name: _facts(links[name]) for name in names}},
        problems=tuple(notes),
        part=",".join(names),
    )


def _facts(result: _Result) -> dict[str, str]:
    """What is known of a result besides its numbers."""
    facts = {name: getattr(result, name) for name in _FACTS}
    return {name: clean(str(value), 64) for name, value in facts.items() if value not in (None, "")}


SOURCE = Source(
    name=PROBE,
    decode=decode,
    role=Role.PROBE,
    stale_after=900.0,  # a link is probed once in minutes
    gives="latency from the node to its peers, measured by dedicated messages",
    origin="results of `fi_pingpong`, `ib_send_lat` or `nccom-test`, written as docs/recording.md "
    "describes into a recording or a stream",
    needs="agents with `--probe-every` (docs/probes.md), because EFA devices have no latency "
    "counters",
    without="no latency: EFA devices count only traffic and retransmits",
)
