"""Open files: as many as are needed, where the system allows it."""

import resource

OWN = 256
"""Files that are open besides connections, at most."""


_allowed = 0
"""Connections that were asked for so far; the limit is the process's."""


def allow(connections: int) -> str:
    """Raises the soft limit of open files for so many more connections; the usual one is 1024.

    Returns:
        One sentence where the hard limit does not allow it, else nothing.
    """
    global _allowed
    _allowed += connections
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _allowed + OWN
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return ""
    possible = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if possible > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (possible, hard))
    if possible == wanted:
        return ""
    return (
        f"{_allowed:,} connections need {wanted:,} open files, and {possible:,} are allowed:"
        " raise the limit (ulimit -Hn, LimitNOFILE=)"
    )
