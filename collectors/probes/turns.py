"""Never two probes on a machine at once: each keeps a core busy, and would disturb the other."""

import threading
import time

from trntop.check.model import BusyError


class Turns:
    """Who probes just now; shared by all that may probe on a machine, on any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[str, tuple[str, float]] = {}

    def take(self, name: str, what: str, seconds: float, beside: str = "") -> None:
        """Begins a side of a probe.

        Args:
            name: of this side.
            what: it does, for whoever is refused meanwhile.
            seconds: that it may take.
            beside: name of the other side of the same probe, if that is here too.

        Raises:
            BusyError: another probe is under way; the sentence says whose.
        """
        now = time.monotonic()
        with self._lock:
            for other, (does, until) in self._held.items():
                if other != beside:
                    left = max(until - now, 0)
                    raise BusyError(f"busy: it {does}, for {left:.0f} s at most")
            self._held[name] = (what, now + seconds)

    def give(self, name: str) -> None:
        """Ends a side; nothing if it has ended before."""
        with self._lock:
            self._held.pop(name, None)
