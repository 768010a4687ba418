"""Messages between the collection thread, the app and its screens."""

from textual.message import Message

from trntop.core.model import View


class ViewChanged(Message, bubble=False):
    """A new tick. A newer one replaces it in the queue: it carries the whole state."""

    def __init__(self, view: View) -> None:
        super().__init__()
        self.view = view

    def can_replace(self, message: Message) -> bool:
        """Whether it makes a pending `message` pointless."""
        return isinstance(message, ViewChanged)


class Notice(Message, bubble=False):
    """A word for the user, from whatever thread.

    Args:
        text: the words; foreign ones are shown as they are.
        good: whether it is good news.
    """

    def __init__(self, text: str, good: bool) -> None:
        super().__init__()
        self.text = text
        self.good = good


class SubjectChanged(Message):
    """The user looks at another node."""


class NodeAsked(Message):
    """The user wants to see a node."""

    def __init__(self, node: str, part: str | None = None) -> None:
        super().__init__()
        self.node = node
        self.part = part
        """A component, as an incident names it."""
