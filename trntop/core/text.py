"""Foreign text: cleaned once, at the edge.

Host, job, process and NEFF names and error strings come from outside. Textual passes
escape sequences through to the terminal and an exposition breaks on control characters,
so every decoder and collector calls `clean` on its input, and no other code does.
"""

import re
import unicodedata

MAX_LENGTH = 256
"""Characters kept of one foreign string."""

_PLAIN = re.compile(r"[ -~]*")
_BANNED = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
_MAX_MARKS = 4


def clean(text: str, limit: int = MAX_LENGTH) -> str:
    """`text` without control, format, surrogate, private or unassigned characters.

    They become U+FFFD; white space becomes a blank; runs of combining marks are cut at four,
    the whole at `limit` characters (with an ellipsis).
    """
    if len(text) <= limit and _PLAIN.fullmatch(text):
        return text
    # Decomposed text may shrink under NFC, hence the margin before the cut.
    text = unicodedata.normalize("NFC", text[: 4 * limit])
    kept: list[str] = []
    marks = 0
    for char in text:
        category = unicodedata.category(char)
        if category[0] == "M":
            marks += 1
            if marks > _MAX_MARKS:
                continue
        else:
            marks = 0
        if char in "\t\n\r" or category[0] == "Z":
            kept.append(" ")
        elif category in _BANNED:
            kept.append("\ufffd")
        else:
            kept.append(char)
    if len(kept) > limit:
        return "".join(kept[: limit - 1]) + "…"
    return "".join(kept)
