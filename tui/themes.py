"""The colour themes. Colours stand here and nowhere else.

A busy core is no alarm, so the scale of levels runs through calm blues and greens; warning and
error are kept for what needs a person. `trntop-deuteranopia` differs in blue and orange only.
"""

from textual.theme import Theme

DARK = Theme(
    name="trntop-dark",
    dark=True,
    background="#0c1117",
    surface="#131a22",
    panel="#1b2530",
    foreground="#d6dee6",
    primary="#5fa8c4",
    secondary="#86a5b8",
    accent="#7fd4c8",
    success="#7cc08a",
    warning="#f0b357",
    error="#ff6b6b",
    variables={
        "level-low": "#14222d",
        "level-mid": "#20566b",
        "level-high": "#4fa9a8",
        "footer-background": "#0c1117",
        "footer-key-foreground": "#7fd4c8",
        "footer-description-foreground": "#8c98a4",
        "border": "#2a3744",
        "border-blurred": "#22303c",
    },
)

DEUTERANOPIA = Theme(
    name="trntop-deuteranopia",
    dark=True,
    background="#0b0f16",
    surface="#121823",
    panel="#1a2332",
    foreground="#dfe5ee",
    primary="#56b4e9",
    secondary="#8fb3cc",
    accent="#9fd3f5",
    success="#56b4e9",
    warning="#f0e442",
    error="#ff8a3c",
    variables={
        "level-low": "#111c2c",
        "level-mid": "#1b4a7a",
        "level-high": "#4f9ddb",
        "footer-background": "#0b0f16",
        "footer-key-foreground": "#9fd3f5",
        "footer-description-foreground": "#8d98a8",
        "border": "#293548",
        "border-blurred": "#212c3d",
    },
)

LIGHT = Theme(
    name="trntop-light",
    dark=False,
    background="#fafbfc",
    surface="#f0f3f6",
    panel="#e4e9ee",
    foreground="#1e2933",
    primary="#2b7a96",
    secondary="#5b7486",
    accent="#0b7a6f",
    success="#2c7a3f",
    warning="#a65f00",
    error="#c42b2b",
    variables={
        "level-low": "#dfe8ec",
        "level-mid": "#8cc0cc",
        "level-high": "#2d8793",
        "footer-background": "#fafbfc",
        "footer-key-foreground": "#0b7a6f",
        "footer-description-foreground": "#5d6974",
        "border": "#c7d0d8",
        "border-blurred": "#d4dbe2",
    },
)

THEMES = (DARK, DEUTERANOPIA, LIGHT)
"""Our own, in the order of the key that changes them."""
