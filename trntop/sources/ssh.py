"""That a node answers over ssh: `{"period": seconds, "round_trip_seconds": …}`, each period.

What is read over the connection comes as readings of the sources themselves. This one gives no
value; it says since when nothing came from the node at all.
"""

import msgspec

from trntop.core.model import Sample
from trntop.sources import tolerant


class _Answer(msgspec.Struct):
    period: float | None = None


_decoder = msgspec.json.Decoder(_Answer)


def decode(data: bytes) -> Sample:
    """One answer.

    Raises:
        DecodeError: the payload is no JSON object of this kind.
    """
    answer, problems = tolerant.decode(data, _decoder)
    period = answer.period
    return Sample(
        period=period if period is not None and 0 < period < float("inf") else None,
        problems=problems,
    )
