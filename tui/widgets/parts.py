"""Panels below one another, in a view that scrolls."""

from textual.containers import VerticalScroll


class Parts(VerticalScroll):
    """Scrolls down and up; the arrows to the sides are the app's."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Where nothing can scroll to a side, a key for that would hide the app's own."""
        if action in ("scroll_left", "scroll_right"):
            return False
        return super().check_action(action, parameters)
