"""What to do about a node: sentences with the commands that do it, which are never run."""

import shlex

from trntop.core.text import clean

MAX_REASON = 100


def drain(node: str, reason: str, then: str) -> str:
    """How to take a node out of service, and what comes after that.

    Args:
        node: its name.
        reason: in a few words, for the scheduler.
        then: what to do with it, a sentence.
    """
    # Backquotes enclose the commands.
    name = shlex.quote(node.replace("`", "'"))
    why = shlex.quote(f"trntop check: {clean(reason, MAX_REASON)}".replace("`", "'"))
    return (
        f"Drain it: `scontrol update nodename={name} state=drain reason={why}`"
        f" or `kubectl cordon {name}`. {then}"
    )
