"""Keys of trntop, as bindings of Textual."""

from textual.binding import Binding

PREFIX = "trntop."
"""Of the ids of these bindings; Textual's own bindings have other ids."""


def key(keys: str, action: str, label: str, tooltip: str, *, show: bool = True) -> Binding:
    """A key in the help and, if shown, at the foot of the screen."""
    return Binding(keys, action, label, show, tooltip=tooltip, id=f"{PREFIX}{action}")


def hidden_key(keys: str, action: str, label: str, tooltip: str) -> Binding:
    """A key in the help only."""
    return key(keys, action, label, tooltip, show=False)
