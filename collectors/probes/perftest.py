"""perftest's ib_send_lat over SRD: latency with percentiles.

https://github.com/linux-rdma/perftest. It prints one table, whose columns are found by their names;
the output of `--out_json` is not JSON (its keys have no quotes). On EFA it needs `-c SRD`, and
`-x 0`, without which the server side receives nothing.
"""

import re
from collections.abc import Mapping

from trntop.check.model import ProbeError, ProbeSpec
from trntop.core.text import clean

from ..child import obituary
from .process import Ended
from .tool import Failure, Run

COLUMNS = {
    "t_typical[usec]": "p50",
    "t_avg[usec]": "mean",
    "t_min[usec]": "min",
    "t_max[usec]": "max",
    "99% percentile[usec]": "p99",
}
"""Column → statistic."""
_NAME = re.compile(r"\S+% percentile\[usec\]|\S+")
_REFUSED = "Couldn't connect to"
_NO_DEVICE = ("Did not detect devices", "IB device", "Unable to find the Infini")
_ERRORS = ("Couldn't", "Unable", "Failed", "SRD connection")


def row(out: str) -> Mapping[str, float]:
    """The numbers of the table's last row by column; empty without a table.

    Raises:
        ProbeError: a row has another form.
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
                row = clean(line.strip(), 80)
                raise ProbeError(f"ib_send_lat: {row} is not a row of its table") from error
    return found


class IbSendLat:
    program = "ib_send_lat"
    listens = "Waiting for client to connect"

    def server(self, spec: ProbeSpec, port: int, messages: int) -> list[str]:
        return self._command(spec, spec.peer_card, port, messages)

    def client(self, spec: ProbeSpec, address: str, port: int, messages: int) -> list[str]:
        return [*self._command(spec, spec.card, port, messages), address]

    def _command(self, spec: ProbeSpec, card: str, port: int, messages: int) -> list[str]:
        # Without stdbuf, a pipe would get the line that it listens only at the end.
        command = ["stdbuf", "--output=L", self.program, "-c", "SRD", "-x", "0", "-F"]
        command += ["-s", str(spec.size_bytes), "-n", str(messages), "-p", str(port)]
        return [*command, "-d", card] if card else command

    def port_is_taken(self, ended: Ended) -> bool:
        return "Couldn't listen to port" in ended.errors

    def is_refused(self, ended: Ended) -> bool:
        """It reports that it waits a moment before it listens."""
        return ended.code not in (0, None) and _REFUSED in ended.errors

    def read(self, spec: ProbeSpec, ended: Ended, messages: int, where: str) -> Run | Failure:
        if ended.code is None:
            return Failure(f"{self.program} to {where} did not finish in {ended.seconds:.0f} s")
        if ended.code != 0:
            if _REFUSED in ended.errors:
                return Failure(f"no probe server listens on {where}", "server")
            return Failure(self._error(ended), "client")
        try:
            values = row(ended.out)
        except ProbeError as error:
            return Failure(str(error), "client")
        seconds = {
            statistic: values[name] * 1e-6
            for name, statistic in COLUMNS.items()
            if 0 < values.get(name, 0) * 1e-6 < spec.seconds
        }
        if "mean" not in seconds:
            return Failure(f"{self.program} measured nothing", "client")
        return Run(seconds, messages)

    def server_error(self, spec: ProbeSpec, ended: Ended) -> str:
        if ended.code == 0:
            return ""
        if ended.code is None:
            return f"did not finish in {ended.seconds:.0f} s"
        return self._error(ended)

    def _error(self, ended: Ended) -> str:
        if ended.code == 127:
            return f"{self.program} is not installed; the package perftest has it"
        lines = [line.strip() for line in f"{ended.out}\n{ended.errors}".splitlines()]
        if found := next((line for line in lines if line.startswith(_NO_DEVICE)), ""):
            return f"{self.program} finds no such EFA device ({clean(found, 80)})"
        if found := next((line for line in lines if line.startswith(_ERRORS)), ""):
            return f"{self.program}: {clean(found, 120)}"
        return f"{self.program} {obituary(ended.code or 0)}"
