"""The color themes; no other module has colors.

The scale of levels is how far a value is from its peers: quiet for equal, bright for far off.
Warning and error are for what needs attention, and error has the higher contrast.
`trntop-deuteranopia` uses blue and orange only, `trntop-contrast` the highest contrast.
"""

from dataclasses import replace

from textual.theme import BUILTIN_THEMES, Theme

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
    warning="#d49a45",
    error="#ff8080",
    variables={
        "level-low": "#1d3b48",
        "level-mid": "#3d8a92",
        "level-high": "#d9f5f0",
        "border": "#2a3744",
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
    warning="#b39b00",
    error="#ffb070",
    variables={
        "level-low": "#1a3350",
        "level-mid": "#3f7fc0",
        "level-high": "#e6f3ff",
        "border": "#293548",
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
    secondary="#546c7d",
    accent="#0b7a6f",
    success="#2c7a3f",
    warning="#9f5b00",
    error="#c42b2b",
    variables={
        "level-low": "#cfdde3",
        "level-mid": "#6fa9b5",
        "level-high": "#0d3f49",
        "border": "#c7d0d8",
    },
)

CONTRAST = Theme(
    name="trntop-contrast",
    dark=True,
    background="#000000",
    surface="#000000",
    panel="#1c1c1c",
    foreground="#ffffff",
    primary="#5fd7ff",
    secondary="#afd7ff",
    accent="#87ffff",
    success="#87ff87",
    warning="#d7a520",
    error="#ff9c9c",
    variables={
        "level-low": "#444444",
        "level-mid": "#0087af",
        "level-high": "#ffffff",
        "muted-contrast": "12",
        "faint-contrast": "9",
        "border": "#b2b2b2",
    },
)

ANSI = replace(
    BUILTIN_THEMES["ansi-dark"],
    name="trntop-ansi",
    primary="ansi_cyan",
    accent="ansi_bright_cyan",
    error="ansi_bright_red",
    variables={
        **BUILTIN_THEMES["ansi-dark"].variables,
        "level-low": "ansi_blue",
        "level-mid": "ansi_cyan",
        "level-high": "ansi_bright_white",
        "border": "ansi_bright_black",
    },
)
"""The 16 colors of the terminal."""

THEMES = (DARK, DEUTERANOPIA, LIGHT, CONTRAST, ANSI)
"""In the order of the key that changes them."""

AUTO = "auto"
"""The setting that depends on the terminal."""
