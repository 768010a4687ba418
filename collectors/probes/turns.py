"""One probe at a time on a machine: each keeps a core busy, and would disturb the other."""

import threading
import time

from trntop.check.model import BusyError


class Turns:
    """The probe sides that run on this machine; shared by all probers on it, on any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._until: dict[str, float] = {}

    def acquire(self, name: str, seconds: float, partner: str = "") -> None:
        """Begins a side of a probe.

        Args:
            name: of this side.
            seconds: that it may take.
            partner: name of the other side of the same probe, which may run here too.

        Raises:
            BusyError: another probe is under way.
        """
        now = time.monotonic()
        with self._lock:
            others = [until for other, until in self._until.items() if other != partner]
            if others:
                left = max(*others, now) - now
                raise BusyError(f"busy: another probe is under way, for {left:.0f} s at most")
            self._until[name] = now + seconds

    def release(self, name: str) -> None:
        """Ends a side; nothing if it has ended before."""
        with self._lock:
            self._until.pop(name, None)
