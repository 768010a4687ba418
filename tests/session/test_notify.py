from tests.builders import NOON, make_incident, make_node, view_of
from trntop.core.model import Incident, Severity
from trntop.core.settings import Notify
from trntop.session.notify import Changes

WARNING = Severity.WARNING


def told(changes: Changes, *incidents: Incident) -> list[tuple[str, str]]:
    view = view_of(make_node(0), incidents=incidents)
    return [(event.what, event.incident.kind) for event in changes(view)]


def test_an_incident_is_told_once() -> None:
    changes = Changes(Notify())
    one, two = make_incident(kind="1", severity=WARNING), make_incident(kind="2", severity=WARNING)
    assert told(changes, one) == [("opened", "1")]
    assert told(changes, one) == []
    assert told(changes, one, two) == [("opened", "2")]
    assert told(changes) == []


def test_less_than_asked_for_is_not_told_until_it_gets_worse() -> None:
    changes = Changes(Notify(severity="critical"))
    assert told(changes, make_incident(kind="1", severity=WARNING)) == []
    assert told(changes, make_incident(kind="1", severity=Severity.CRITICAL)) == [("opened", "1")]
    assert told(changes, make_incident(kind="1", severity=WARNING)) == []


def test_its_end_is_told_if_asked_for_and_then_its_return() -> None:
    over = make_incident(kind="1", severity=WARNING, closed_at=NOON)
    lasting = make_incident(kind="1", severity=WARNING)
    quiet, chatty = Changes(Notify()), Changes(Notify(closed=True))
    assert told(quiet, lasting) == told(chatty, lasting) == [("opened", "1")]
    assert told(quiet, over) == []
    assert told(chatty, over) == [("closed", "1")]
    assert told(chatty, over) == []
    assert told(quiet, lasting) == []
    assert told(chatty, lasting) == [("opened", "1")]


def test_what_was_over_before_is_not_told() -> None:
    changes = Changes(Notify(closed=True))
    assert told(changes, make_incident(kind="1", severity=WARNING, closed_at=NOON)) == []
