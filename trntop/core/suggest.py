"""Suggestions for misspelled commands, options, settings, fields and scenarios."""

import textwrap
from collections.abc import Callable, Collection

from trntop.core.text import clean

CUTOFF = 0.7
"""Similarity from which a name is suggested: `snapsho` for `snapshot`, not `foo` for `efa-down`."""
MAX_WORD = 80
"""Characters of a misspelled word that are compared."""
MAX_SHOWN = 40
"""Characters of it that are shown."""
MAX_LISTED = 80
"""Characters of the list of known names."""


def closest(word: str, known: Collection[str], key: Callable[[str], str] = str.lower) -> str | None:
    """The known name most similar to `word`, comparing what `key` makes of both."""
    names = {key(name): name for name in known}
    import difflib  # only wrong input needs it

    near = difflib.get_close_matches(key(word[:MAX_WORD]), names, n=1, cutoff=CUTOFF)
    return names[near[0]] if near else None


def unknown(
    what: str, word: str, known: Collection[str], key: Callable[[str], str] = str.lower
) -> str:
    """`unknown WHAT WORD; did you mean NAME?`, or the first known names if none is similar."""
    near = closest(word, known, key)
    listed = textwrap.shorten(
        ", ".join(known), MAX_LISTED, placeholder=" …", break_on_hyphens=False
    )
    hint = f"did you mean {near}?" if near else f"known: {listed}"
    return f"unknown {what} {clean(word, MAX_SHOWN)}; {hint}"
