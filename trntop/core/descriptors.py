"""The limit of open files of this process."""

import resource

OWN = 256
"""Maximum number of open files other than connections."""
LEAST = 16
"""Connections that may be open in any case."""

_reserved = 0
"""Number of connections that may be open."""


def reserve(connections: int) -> str:
    """Raises the soft limit of open files, usually 1024, for a number of additional connections.

    Call `release` when they are no longer needed.

    Returns:
        A warning if the hard limit does not allow it; empty otherwise.
    """
    global _reserved
    _reserved += connections
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _reserved + OWN
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return ""
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if allowed > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed == wanted:
        return ""
    return (
        f"{_reserved:,} connections need {wanted:,} open files, and {allowed:,} are allowed:"
        " raise the limit (ulimit -Hn, LimitNOFILE=)"
    )


def release(connections: int) -> None:
    """Releases a number of connections; the limit is not lowered."""
    global _reserved
    _reserved -= connections


def possible(connections: int) -> int:
    """How many of so many reserved connections may be open within the limit of open files."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return connections
    return min(connections, max(LEAST, soft - OWN - (_reserved - connections)))
