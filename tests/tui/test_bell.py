from tests.builders import NOON, make_incident, make_node, view_of
from trntop.core.model import Incident, Severity
from trntop.core.settings import Notify
from trntop.tui.bell import Bell

WARNING = Severity.WARNING


def rings(bell: Bell, *incidents: Incident) -> bool:
    return bell.rings(view_of(make_node(0), incidents=incidents))


def test_each_incident_rings_once() -> None:
    bell = Bell(Notify(bell=True))
    first, second = (make_incident(kind=kind, severity=WARNING) for kind in "12")
    assert rings(bell, first)
    assert not rings(bell, first)
    assert rings(bell, first, second)
    assert not rings(bell)


def test_it_rings_when_the_minimum_severity_is_reached() -> None:
    bell = Bell(Notify(bell=True, severity="critical"))
    assert not rings(bell, make_incident(kind="1", severity=WARNING))
    assert rings(bell, make_incident(kind="1", severity=Severity.CRITICAL))
    assert not rings(bell, make_incident(kind="1", severity=WARNING))
    assert not rings(bell, make_incident(kind="1", severity=Severity.CRITICAL))


def test_closed_incidents_do_not_ring() -> None:
    bell = Bell(Notify(bell=True))
    assert not rings(bell, make_incident(kind="1", severity=WARNING, closed_at=NOON))
    assert rings(bell, make_incident(kind="1", severity=WARNING))


def test_it_is_off_by_default() -> None:
    assert not rings(Bell(Notify()), make_incident(severity=Severity.CRITICAL))
