"""Panels one below the other, in a scrolling view."""

from textual.containers import VerticalScroll


class PanelStack(VerticalScroll):
    """Scrolls up and down; left and right are keys of the app."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("scroll_left", "scroll_right"):
            return False
        return super().check_action(action, parameters)
