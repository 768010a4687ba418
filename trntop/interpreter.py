"""Settings of the interpreter for a process that collects from many nodes while it paints."""

import gc
import sys

SWITCH_SECONDS = 5e-4
"""How long a thread that computes keeps another waiting that comes back from the kernel. With the
usual 5 ms a thread that reads a thousand sockets a second stands still while a screen is painted.
"""
COLLECT_AT = (20_000, 20, 100)
"""Objects, and rounds, after which cycles are looked for. Nearly all that a tick makes has none,
and to look through a thousand nodes takes a fifth of a second, in which nothing else runs.
"""


def prepare() -> None:
    """Puts them in force."""
    sys.setswitchinterval(min(SWITCH_SECONDS, sys.getswitchinterval()))
    gc.set_threshold(*COLLECT_AT)
