"""Starts, restarts and ends neuron-monitor, on this machine or a remote one."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path

from trntop.catalog import NEURON_MONITOR
from trntop.core.model import Reading, State, Status
from trntop.session.collector import Sink

from .backoff import Backoff
from .child import GRACE, Child, Process, exit_reason
from .executable import NotRunnableError, locate
from .intake import Intake
from .local_source import LocalSource
from .neuron_config import PATH, configuration_file
from .neuron_examination import examine
from .throttle import report_interval

RETRY_INTERVAL = 30.0
"""Seconds between attempts to run a missing program."""
MIN_SILENCE = 15.0
SILENT_PERIODS = 3
"""Seconds and periods; a process without a report for the longer of the two hangs."""
TERM_SECONDS = 2.0
"""Seconds between SIGTERM and SIGKILL for a process that hangs."""

Launch = Callable[[Callable[[bytes], None]], contextlib.AbstractAsyncContextManager[Process]]
"""Starts neuron-monitor and passes its output to the function. Raises NotRunnableError or OSError.
"""


class NeuronMonitor:
    """The collector that runs neuron-monitor and restarts it after a failure.

    Args:
        node: name of the machine.
        command: its name, path, or argument list.
        period: seconds between reports.
        silence: seconds without a report after which the process hangs.
        timeout: seconds between SIGTERM and SIGKILL for a process that hangs.
        retry_interval: seconds between attempts to run a missing program.
        backoff: the waits between restarts.
        launch: starts the process; by default on this machine.
    """

    source = NEURON_MONITOR

    def __init__(
        self,
        node: str,
        command: Sequence[str] | str = "neuron-monitor",
        period: float = 1.0,
        *,
        silence: float | None = None,
        timeout: float = TERM_SECONDS,
        retry_interval: float = RETRY_INTERVAL,
        backoff: Backoff | None = None,
        launch: Launch | None = None,
    ) -> None:
        self.node = node
        self._launch = launch or partial(_launched, command, period)
        self._period = period
        self._silence = silence or max(SILENT_PERIODS * period, MIN_SILENCE)
        self._timeout = timeout
        self._retry_interval = retry_interval
        self._backoff = backoff or Backoff()

    async def run(self, sink: Sink) -> None:
        """Keeps neuron-monitor running until cancelled, then ends its process group."""
        run = _Run(self.node, sink)
        while True:
            run.healthy = 0.0
            try:
                reason = await self._once(run)
                wait = self._backoff.wait(run.healthy)
                run.report(State.DOWN, f"{reason}; next start in {wait:.1f} s")
                run.counts["restarts"] += 1
                run.restarted = f"restarted: {reason}"
            except NotRunnableError as error:
                wait = self._retry_interval
                run.report(State.DOWN, str(error))
            except OSError as error:
                wait = self._retry_interval
                run.report(State.DOWN, f"cannot start neuron-monitor: {error.strerror or error}")
            await asyncio.sleep(wait)

    async def _once(self, run: "_Run") -> str:
        """Runs the process until it ends; returns the reason.

        Raises:
            NotRunnableError: it is not installed.
            OSError: it cannot be executed, or its configuration cannot be written.
        """
        async with self._launch(run.intake.feed) as child:
            run.report(State.STARTING, run.restarted or "starting neuron-monitor")
            run.counts["starts"] += 1
            child.ended.add_done_callback(lambda _: run.intake.arrived.set())
            try:
                code = await self._follow(child, run)
                reason = f"neuron-monitor {exit_reason(code)}"
            except TimeoutError:
                reason = f"neuron-monitor sent no report for {self._silence:g} s"
                run.report(State.DOWN, reason)
                await child.end(self._timeout)
            finally:
                await child.end(GRACE)
                run.intake.close()
                run.counts["stderr_lines"] += child.errors.lines
        error = child.errors.text()
        return f"{reason}: {error}" if error else reason

    async def _follow(self, child: Process, run: "_Run") -> int:
        """Passes on reports until the process ends; returns its exit code.

        Raises:
            TimeoutError: no report has arrived for too long.
        """
        loop = asyncio.get_running_loop()
        started = loop.time()
        async with asyncio.timeout(self._silence) as deadline:
            while True:
                while not run.healthy and not await run.intake.wait(self._period):
                    if run.intake.counts["skipped"]:
                        reason = "neuron-monitor writes lines that are not reports"
                        run.report(State.STARTING, reason)
                await run.intake.arrived.wait()
                run.intake.arrived.clear()
                ended = child.ended.done()
                if ended:
                    run.intake.close()
                passed = run.deliver()
                if ended:
                    return child.ended.result()
                if passed:
                    run.healthy = loop.time() - started
                    deadline.reschedule(loop.time() + self._silence)
                    await asyncio.sleep(report_interval(self._period))


@contextlib.asynccontextmanager
async def _launched(
    command: Sequence[str] | str, period: float, on_output: Callable[[bytes], None]
) -> AsyncIterator[Child]:
    """neuron-monitor as a child of this process."""
    argv = locate(command)
    with configuration_file(period) as config:
        yield await Child.start([*argv, "-c", PATH], on_output, config)


class _Run:
    """State that is kept across restarts of the process."""

    def __init__(self, node: str, sink: Sink) -> None:
        self.intake = Intake(sink.now)
        self.counts = Counter(starts=0, restarts=0, stderr_lines=0)
        self.healthy = 0.0
        """Seconds from the start of the process to its newest report."""
        self.restarted = ""
        """Reason for the last restart; empty at first."""
        self._node = node
        self._sink = sink

    def report(self, state: State, reason: str = "") -> None:
        counts = {**self.counts, **self.intake.counts}
        self._sink.status(Status(self._node, NEURON_MONITOR, state, reason, counts))

    def deliver(self) -> bool:
        """Passes on the newest report; returns whether there was one."""
        newest = self.intake.pop_newest()
        if newest is None:
            return False
        time, data = newest
        self._sink.reading(Reading(self._node, NEURON_MONITOR, time, data))
        self.report(State.FRESH)
        return True


LOCAL = LocalSource(
    lambda context: NeuronMonitor(
        context.node, context.settings.neuron_monitor, context.settings.period
    ),
    lambda settings: examine(settings.neuron_monitor, root=Path(settings.root)),
)
