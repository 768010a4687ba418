"""Messages between the collection thread, the app and its screens."""

from textual.message import Message

from trntop.core.model import View


class ViewChanged(Message, bubble=False):
    """A new tick; a newer one replaces it in the queue."""

    def __init__(self, view: View) -> None:
        super().__init__()
        self.view = view

    def can_replace(self, message: Message) -> bool:
        """Whether it replaces a pending message."""
        return isinstance(message, ViewChanged)


class Notice(Message, bubble=False):
    """A notification, from any thread; `good` is whether an action succeeded."""

    def __init__(self, text: str, good: bool) -> None:
        super().__init__()
        self.text = text
        self.good = good


class SubjectChanged(Message):
    """The user selected another node."""


class NodeRequested(Message):
    """The user opens a node."""

    def __init__(self, node: str, part: str | None = None) -> None:
        super().__init__()
        self.node = node
        self.part = part
        """A component, in the form of `Incident.component`."""
