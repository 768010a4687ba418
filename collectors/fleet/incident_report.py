"""The incidents of the last day, from `/v1/incidents` of an agent or an aggregator."""

import asyncio
from collections.abc import Sequence

import aiohttp
import msgspec

from trntop.core.model import Incident, Time
from trntop.core.settings import Settings
from trntop.core.source_spec import Origin, Source
from trntop.core.text import clean

from . import agents, connection
from .finders import finder
from .target import FindError, Target

MAX_BYTES = 32 << 20
PATH = "/v1/incidents"
_STATUSES = {401: "user name and password, or a token, required (401)", 403: "access denied (403)"}


class IncidentReport(msgspec.Struct, frozen=True):
    """One response; the members are those of the document."""

    judge: str
    nodes: int
    incidents: tuple[Incident, ...]
    """Open ones first."""
    time: Time | None = None
    since: Time | None = None
    judged_from: Time | None = None
    behind_seconds: float | None = None
    simulated: bool = False
    problems: tuple[str, ...] = ()


_decoder = msgspec.json.Decoder(IncidentReport)


def decoded(body: bytes) -> IncidentReport:
    """A response, cleaned.

    Raises:
        ValueError: it is not one.
    """
    try:
        report = _decoder.decode(body)
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    problems = tuple(map(clean, report.problems))
    incidents = tuple(incident.cleaned() for incident in report.incidents)
    return msgspec.structs.replace(report, incidents=incidents, problems=problems)


async def fetch(source: Source, settings: Settings) -> list[tuple[str, IncidentReport]]:
    """The reports of all addresses of a source, each with the name of the address.

    Raises:
        FindError: an address cannot be read.
        TrntopError: the source is not valid.
    """
    fleet = settings.fleet
    targets: Sequence[Target]
    if source.origin is Origin.AGENT:
        targets = agents.targets(source.text, fleet)
    else:
        targets = await finder(source, settings).find()
    async with connection.session(fleet) as session:
        reports = [_get(session, target, fleet.connect) for target in targets]
        found = await asyncio.gather(*reports)
    return [(target.name, report) for target, report in zip(targets, found, strict=True)]


async def _get(session: aiohttp.ClientSession, target: Target, seconds: float) -> IncidentReport:
    if target.address.startswith("ssh:"):
        raise FindError(f"{clean(target.address)}: ssh has no past incidents; use an agent")
    url = f"{target.address}{PATH}"
    try:
        async with (
            asyncio.timeout(seconds),
            session.get(url, allow_redirects=False) as response,
        ):
            if response.status != 200:
                why = _STATUSES.get(
                    response.status, f"it does not serve {PATH} ({response.status})"
                )
                raise FindError(f"{clean(target.address)}: {why}")
            body = await response.content.read(MAX_BYTES)
            while not response.content.at_eof() and len(body) < MAX_BYTES:
                body += await response.content.read(MAX_BYTES - len(body))
        return decoded(body)
    except TimeoutError:
        why = f"no response within {seconds:g} s"
    except (aiohttp.ClientError, OSError) as error:
        why = connection.reason(error)
    except ValueError:
        why = f"its {PATH} is not from trntop"
    raise FindError(f"{clean(target.address)}: {why}")
