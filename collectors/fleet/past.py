"""The past of an agent, from its `/v1/history`."""

import logging
from collections.abc import Callable, Iterator

import aiohttp

from trntop.catalog import AGENT
from trntop.core.errors import DecodeError
from trntop.core.model import Reading
from trntop.remote import past
from trntop.remote.wire import FrameReader

MAX_FRAMES = 16_000
"""Frames of all nodes that are played: about 5 s. With more nodes the past is shorter."""
MAX_BYTES = 256 << 20
"""Compressed bytes of all nodes."""

log = logging.getLogger(__name__)


async def fetch(
    session: aiohttp.ClientSession, address: str, nodes: int, now: Callable[[], float]
) -> tuple[dict[str, list[past.Block]], float] | None:
    """The blocks of each of an agent's nodes, and the seconds that its clock is ahead.

    Args:
        session: the session.
        address: the agent's.
        nodes: number of nodes of all agents.
        now: the local clock.

    Returns:
        None if the agent has no past to hand over.

    Raises:
        DecodeError: the response is not valid, or too large.
        aiohttp.ClientError: the connection failed.
    """
    seconds = min(past.SECONDS, past.STEP * MAX_FRAMES / nodes)
    sparse = "&sparse" if nodes > past.DENSE_NODES else ""
    url = f"{address}/v1/history?seconds={seconds:.0f}{sparse}"
    async with session.get(url, allow_redirects=False) as response:
        clock = response.headers.get(past.CLOCK_HEADER)
        if response.status != 200 or response.content_type != past.CONTENT_TYPE or clock is None:
            return None
        try:
            ahead = float(clock) - now()
        except ValueError:
            raise DecodeError("the time of the history is not a number") from None
        frames, size = FrameReader(), 0
        found: dict[str, list[past.Block]] = {}
        async for chunk in response.content.iter_any():
            size += len(chunk)
            if size > MAX_BYTES:
                raise DecodeError(f"more than {MAX_BYTES >> 20} MiB of history")
            for message in frames.feed(chunk):
                block = past.decode(message)
                found.setdefault(block.node, []).append(block)
        return found, ahead


def readings(name: str, blocks: list[past.Block], ahead: float, until: float) -> Iterator[Reading]:
    """The messages about a node, by the local clock.

    Args:
        name: its name here.
        blocks: at each interval by time, the longest interval first.
        ahead: seconds that the agent's clock is ahead.
        until: time of the first frame of the stream, by the agent's clock.
    """
    dense = min((block.begin for block in blocks if block.period < past.STEP), default=until)
    try:
        for block in blocks:
            end = min(dense, until) if block.period >= past.STEP else until
            for time, message, simulated in past.frames(block):
                if time >= end:
                    break
                yield Reading(name, AGENT, time - ahead, message, simulated)
    except DecodeError as error:
        log.warning("%s: %s", name, error)
