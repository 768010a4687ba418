"""Answers of a node over ssh: `{"period": seconds, "round_trip_seconds": …}`, each period.

What is read over the connection comes as readings of the sources themselves. This one gives no
value; it shows since when the node has sent nothing.
"""

import msgspec

from trntop.catalog import SSH
from trntop.core.model import Sample
from trntop.sources import tolerant
from trntop.sources.source import Role, Source


class _Answer(msgspec.Struct):
    period: float | None = None


_decoder = msgspec.json.Decoder(_Answer)


def decode(data: bytes) -> Sample:
    """One answer.

    Raises:
        DecodeError: the payload is not a JSON object of this kind.
    """
    answer, problems = tolerant.decode(data, _decoder)
    period = answer.period
    return Sample(
        period=period if period is not None and 0 < period < float("inf") else None,
        problems=problems,
    )


SOURCE = Source(
    name=SSH,
    decode=decode,
    role=Role.REMOTE,
    gives="whether a node without trntop answers, and if not, why",
    origin="OpenSSH and a shell on the node, which read the other sources there (docs/ssh.md)",
    needs="ssh to the node without a prompt: a key or an agent, and a known host key",
    without="no values of such a node",
)
