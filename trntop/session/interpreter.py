"""The interpreter of a process that collects from many nodes while it paints."""

import ctypes
import gc
import sys
import time

from trntop.core.model import View

SWITCH_SECONDS = 5e-4
"""How long a thread that computes keeps another waiting that comes back from the kernel. With the
usual 5 ms a thread that reads a thousand sockets a second stalls while a screen is painted.
"""
COLLECT_AT = (100_000, 2, 2)
"""Objects, and rounds, after which cycles are looked for. Nearly all that a tick makes has none,
and to look through what a thousand nodes have sent since takes 70 ms, in which nothing else runs.
But each line that Textual paints is one (`Strip.crop_extend` puts the strip into its own cache):
after many rounds, those that outlast one would add 1 MiB an hour for days.
"""
TRIM_SECONDS = 1.0
"""How often free memory is given back."""


def prepare() -> None:
    """Settings for it; what was imported so far stays, and is not looked through any more."""
    gc.freeze()
    sys.setswitchinterval(min(SWITCH_SECONDS, sys.getswitchinterval()))
    gc.set_threshold(*COLLECT_AT)


class Trimmer:
    """Gives free memory back to the system, as a subscriber of views.

    Data of many nodes comes and goes each second, in pieces of all sizes; between those that stay
    glibc keeps a third more than is in use (malloc_trim(3)). Elsewhere it does nothing.
    """

    def __init__(self) -> None:
        self._trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        self._at = 0.0

    def __call__(self, _: View) -> None:
        """Takes note that time has passed; not that of the views: a past is played quickly."""
        now = time.monotonic()
        if self._trim is not None and now - self._at >= TRIM_SECONDS:
            self._at = now
            self._trim(0)  # other threads run meanwhile
