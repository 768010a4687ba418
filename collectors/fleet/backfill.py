"""The backfill of an agent: what it recorded before the connection, from its `/v1/history`."""

import logging
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import quote

import aiohttp
import msgspec

from trntop.catalog import AGENT
from trntop.core.errors import DecodeError
from trntop.core.model import Reading, Time
from trntop.remote import backfill
from trntop.remote.wire import FrameReader

MAX_FRAMES = 16_000
"""Frames of all nodes that are played, in about 5 s. With more nodes the backfill is shorter."""
MAX_BYTES = 256 << 20
"""Compressed bytes of all nodes."""

log = logging.getLogger(__name__)


async def fetch(
    session: aiohttp.ClientSession,
    address: str,
    nodes: int,
    now: Callable[[], float],
    only: Sequence[str] = (),
) -> tuple[dict[str, list[backfill.Block]], float] | None:
    """The blocks of each node of an agent, and the seconds by which its clock is ahead.

    Args:
        session: the session.
        address: the agent's address.
        nodes: number of nodes of all agents.
        now: the local clock.
        only: the nodes to ask for, by the agent's names; by default all.

    Returns:
        None if the agent provides no backfill.

    Raises:
        DecodeError: the response is not valid, or too large.
        aiohttp.ClientError: the connection failed.
    """
    seconds = min(backfill.SECONDS, backfill.STEP * MAX_FRAMES / nodes)
    sparse = "&sparse" if nodes > backfill.DENSE_NODES else ""
    names = "".join(f"&nodes={quote(name, safe='')}" for name in only)
    url = f"{address}/v1/history?seconds={seconds:.0f}{sparse}{names}"
    async with session.get(url, allow_redirects=False) as response:
        clock = response.headers.get(backfill.CLOCK_HEADER)
        if (
            response.status != 200
            or response.content_type != backfill.CONTENT_TYPE
            or clock is None
        ):
            return None
        try:
            ahead = msgspec.convert(clock, Time, strict=False) - now()
        except msgspec.ValidationError:
            raise DecodeError("the time of the history is not one") from None
        frames, size = FrameReader(), 0
        found: dict[str, list[backfill.Block]] = {}
        async for chunk in response.content.iter_any():
            size += len(chunk)
            if size > MAX_BYTES:
                raise DecodeError(f"more than {MAX_BYTES >> 20} MiB of history")
            for message in frames.feed(chunk):
                block = backfill.decode(message)
                found.setdefault(block.node, []).append(block)
        return found, ahead


def readings(
    name: str, blocks: list[backfill.Block], ahead: float, until: float
) -> Iterator[Reading]:
    """The messages about a node, by the local clock.

    Args:
        name: its name here.
        blocks: at each interval by time, the longest interval first.
        ahead: seconds that the agent's clock is ahead.
        until: time of the first frame of the stream, by the agent's clock.
    """
    dense = min((block.begin for block in blocks if block.period < backfill.STEP), default=until)
    try:
        for block in blocks:
            end = min(dense, until) if block.period >= backfill.STEP else until
            for time, message, simulated in backfill.frames(block):
                if time >= end:
                    break
                yield Reading(name, AGENT, time - ahead, message, simulated)
    except DecodeError as error:
        log.warning("%s: %s", name, error)
