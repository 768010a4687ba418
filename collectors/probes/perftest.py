"""perftest's ib_send_lat and ib_write_bw over SRD: latency with percentiles, and bandwidth.

https://github.com/linux-rdma/perftest. Both print one table, whose columns are found by their
names; what `--out_json` writes is no JSON (its keys have no quotes). On EFA they need `-c SRD`, and
`-x 0`, without which the server side receives nothing.
"""

import re
from collections.abc import Mapping, Sequence
from statistics import fmean, harmonic_mean
from typing import Literal

from trntop.check.model import ProbeError, ProbeResult, ProbeSpec
from trntop.core.text import clean

from ..child import obituary
from .process import Ended
from .tool import Failure, Run

WARM_UP = 100
"""Messages of the run that is thrown away."""
COLUMNS = {
    "t_typical[usec]": "p50",
    "t_avg[usec]": "mean",
    "t_min[usec]": "min",
    "t_max[usec]": "max",
    "99% percentile[usec]": "p99",
}
"""The latencies that are taken, and what they are."""
RATE = "BW average[Gb/sec]"
_NAME = re.compile(r"\S+% percentile\[usec\]|BW \w+\[[^\]]+\]|\S+")
_REFUSED = "Couldn't connect to"


def row(out: str) -> Mapping[str, float]:
    """The numbers of the table's last row, by the names of its columns; empty without a table.

    Raises:
        ProbeError: a row is not as these tools write it.
    """
    names: list[str] = []
    found: Mapping[str, float] = {}
    for line in out.splitlines():
        if line.lstrip().startswith("#bytes"):
            names = _NAME.findall(line)
        elif names and line.lstrip()[:1].isdigit():
            try:
                found = dict(zip(names, map(float, line.split()), strict=True))
            except ValueError as error:
                said = clean(line.strip(), 80)
                raise ProbeError(f"perftest prints what is no row: {said}") from error
    return found


class Perftest:
    """One of the tools.

    Args:
        program: which.
    """

    listens = "Waiting for client to connect"

    def __init__(self, program: Literal["ib_send_lat", "ib_write_bw"]) -> None:
        self._program = program

    def runs(self, spec: ProbeSpec) -> tuple[int, ...]:
        """A warm-up, then as many as are asked for."""
        return (min(WARM_UP, spec.iterations), *[spec.iterations] * spec.repeats)

    def server(self, spec: ProbeSpec, port: int, messages: int) -> list[str]:
        """The command of the server side."""
        return self._command(spec, spec.peer_card, port, messages)

    def client(self, spec: ProbeSpec, address: str, port: int, messages: int) -> list[str]:
        """The command of the client side."""
        return [*self._command(spec, spec.card, port, messages), address]

    def _command(self, spec: ProbeSpec, card: str, port: int, messages: int) -> list[str]:
        # Into a pipe it would say that it waits only when it is through.
        command = ["stdbuf", "--output=L", self._program, "-c", "SRD", "-x", "0", "-F"]
        command += ["-s", str(spec.size_bytes), "-n", str(messages), "-p", str(port)]
        if card:
            command += ["-d", card]
        if self._program == "ib_write_bw":
            command.append("--report_gbits")
        return command

    def taken(self, ended: Ended) -> bool:
        """Whether nobody can listen there."""
        return "Couldn't listen to port" in ended.errors

    def refused(self, ended: Ended) -> bool:
        """Whether nobody listened; it says that it waits a moment before it does."""
        return ended.code not in (0, None) and _REFUSED in ended.errors

    def read(
        self, spec: ProbeSpec, ended: Ended, messages: int, where: str, *, gone: bool
    ) -> Run | Failure:
        """The figures of its row."""
        if ended.code is None:
            after = f"after {ended.seconds:.0f} s"
            if gone:
                return Failure(f"the server side on {where} is gone in the midst", "server")
            return Failure(f"{after}: {self._program} to {where} was not through")
        if ended.code != 0:
            if _REFUSED in ended.errors:
                return Failure(f"no probe server listens on {where}", "server")
            return Failure(self._told(ended), "client")
        try:
            values = row(ended.out)
        except ProbeError as error:
            return Failure(str(error), "client")
        seconds = {
            statistic: values[name] * 1e-6
            for name, statistic in COLUMNS.items()
            if 0 < values.get(name, 0) * 1e-6 < spec.seconds
        }
        rate = values.get(RATE, 0.0) * 1e9 / 8
        if not seconds and rate <= 0:
            return Failure(f"{self._program} measured nothing", "client")
        pace = 2 * seconds["mean"] if "mean" in seconds else spec.size_bytes / rate if rate else 0.0
        return Run(seconds, rate or None, messages, pace)

    def results(self, spec: ProbeSpec, peer: str, runs: Sequence[Run]) -> list[ProbeResult]:
        """Means of percentiles, the least and the largest of all; of bandwidth, the mean."""
        merged = {"min": min, "max": max}
        figures: dict[str, float | None] = {
            statistic: merged.get(statistic, fmean)([run.seconds[statistic] for run in runs])
            for statistic in runs[0].seconds
            if all(statistic in run.seconds for run in runs)
        }
        rates = [run.bytes_per_second for run in runs if run.bytes_per_second]
        return [
            ProbeResult(
                tool=self._program,
                peer=peer,
                provider="efa",
                card=spec.card,
                peer_card=spec.peer_card,
                size_bytes=spec.size_bytes,
                statistic=statistic,
                seconds=seconds,
                bytes_per_second=harmonic_mean(rates) if rates and statistic == "mean" else None,
                iterations=sum(run.messages for run in runs),
            )
            for statistic, seconds in (figures or {"mean": None}).items()
        ]

    def complaint(self, spec: ProbeSpec, ended: Ended) -> str:
        """What its server side says, in a sentence."""
        if ended.code == 0:
            return ""
        if ended.code is None:
            return f"was not through after {ended.seconds:.0f} s"
        return self._told(ended)

    def _told(self, ended: Ended) -> str:
        if ended.code == 127:
            return f"{self._program} is not installed; perftest has it"
        said = [line.strip() for line in f"{ended.out}\n{ended.errors}".splitlines()]
        for line in said:
            if line.startswith(
                ("Did not detect devices", "IB device", "Unable to find the Infini")
            ):
                return f"{self._program} finds no such EFA card ({clean(line, 80)})"
        # Versions before EFA had RDMA writes: "SRD connection only possible in SEND/READ verbs".
        marks = ("Couldn't", "Unable", "Failed", "SRD connection")
        if wrong := [line for line in said if line.startswith(marks)]:
            return f"{self._program}: {clean(wrong[0], 120)}"
        return f"{self._program} {obituary(ended.code or 0)}"
