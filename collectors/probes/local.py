"""This machine as a node under check."""

from trntop.check.model import Inspection
from trntop.core.settings import Settings

from ..inspection import Inspector
from .prober import Prober
from .turns import Turns


class LocalHost(Prober):
    """This machine: its probes, and what a look at it finds.

    Args:
        settings: where its files and programs are.
        name: what the node is called.
        turns: shared with whatever else probes on it.
        simulated: whether what it shows of itself is made up.
    """

    def __init__(
        self, settings: Settings, name: str, turns: Turns | None = None, *, simulated: bool = False
    ) -> None:
        super().__init__(name, turns=turns)
        self._inspector = Inspector(settings, name, self.path, simulated=simulated)

    async def inspect(self) -> Inspection:
        """Looks at this machine; what cannot be looked at is among the problems."""
        return await self._inspector.inspect()

    async def close(self) -> None:
        """Ends whatever is under way."""
        await super().close()
        self._inspector.close()
