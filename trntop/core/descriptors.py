"""Open files: as many as are needed, where the system allows it."""

import resource

OWN = 256
"""Files that are open besides connections, at most."""


_asked_for = 0
"""Connections that may be open now; the limit is the process's."""


def allow(connections: int) -> str:
    """Raises the soft limit of open files for so many more connections; the usual one is 1024.

    Whoever asked gives them back when they are closed for good.

    Returns:
        One sentence where the hard limit does not allow it, else nothing.
    """
    global _asked_for
    _asked_for += connections
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _asked_for + OWN
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return ""
    possible = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if possible > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (possible, hard))
    if possible == wanted:
        return ""
    return (
        f"{_asked_for:,} connections need {wanted:,} open files, and {possible:,} are allowed:"
        " raise the limit (ulimit -Hn, LimitNOFILE=)"
    )


def give_back(connections: int) -> None:
    """So many connections are not needed any more; the limit stays as it was raised."""
    global _asked_for
    _asked_for -= connections
