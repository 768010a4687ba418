"""The incidents of the last day, as `/v1/incidents` of an agent or an aggregator has them."""

import asyncio
from collections.abc import Sequence

import aiohttp
import msgspec

from trntop.core.model import Incident
from trntop.core.settings import Settings
from trntop.core.source_spec import Origin, Source
from trntop.core.text import clean

from . import agents, connection
from .finders import finder
from .target import FindError, Target

MAX_BYTES = 32 << 20
PATH = "/v1/incidents"
_STATUSES = {401: "it wants a name and password, or a token (401)", 403: "access denied (403)"}


class Day(msgspec.Struct, frozen=True):
    """One answer; the members are those of the document."""

    judge: str
    nodes: int
    incidents: tuple[Incident, ...]
    """Open ones first."""
    time: float | None = None
    since: float | None = None
    judged_from: float | None = None
    behind_seconds: float | None = None
    simulated: bool = False
    problems: tuple[str, ...] = ()


_decoder = msgspec.json.Decoder(Day)


async def fetch(source: Source, settings: Settings) -> list[tuple[str, Day]]:
    """The days of all addresses of a source, each with its name.

    Raises:
        FindError: one cannot be read; the reason.
        TrntopError: the source is not valid.
    """
    fleet = settings.fleet
    targets: Sequence[Target]
    if source.origin is Origin.AGENT:
        targets = agents.targets(source.text, fleet)
    else:
        targets = await finder(source, settings).find()
    async with connection.session(fleet) as session:
        days = [_get(session, target, fleet.connect) for target in targets]
        found = await asyncio.gather(*days)
    return [(target.name, day) for target, day in zip(targets, found, strict=True)]


async def _get(session: aiohttp.ClientSession, target: Target, seconds: float) -> Day:
    if target.address.startswith("ssh:"):
        raise FindError(f"{clean(target.address)}: ssh has no incidents of the past; use an agent")
    url = f"{target.address}{PATH}"
    try:
        async with (
            asyncio.timeout(seconds),
            session.get(url, allow_redirects=False) as response,
        ):
            if response.status != 200:
                why = _STATUSES.get(response.status, f"no {PATH} here ({response.status})")
                raise FindError(f"{clean(target.address)}: {why}")
            body = await response.content.read(MAX_BYTES)
            while not response.content.at_eof() and len(body) < MAX_BYTES:
                body += await response.content.read(MAX_BYTES - len(body))
        day = _decoder.decode(body)
    except TimeoutError:
        why = f"no answer within {seconds:g} s"
    except (aiohttp.ClientError, OSError) as error:
        why = connection.reason(error)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        why = f"its {PATH} is not that of trntop"
    else:
        problems = tuple(map(clean, day.problems))
        incidents = tuple(one.cleaned() for one in day.incidents)
        return msgspec.structs.replace(day, incidents=incidents, problems=problems)
    raise FindError(f"{clean(target.address)}: {why}")
