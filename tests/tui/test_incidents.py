"""The screen of incidents: what is listed, and the ways to location and time."""

from dataclasses import replace
from typing import cast

from textual.pilot import Pilot

from tests.builders import NOON, make_incident
from tests.tui.sample_run import EFA_INCIDENT, VICTIM, FakeSession, app_of, make_app, view
from tests.tui.test_app import picture, press, running
from trntop.core.model import View
from trntop.tui.screens.comm import CommScreen
from trntop.tui.screens.incidents import IncidentsScreen
from trntop.tui.screens.node import NodeScreen
from trntop.tui.screens.run import RunScreen
from trntop.tui.widgets.overview import AlertLine


def of(app: object) -> IncidentsScreen:
    return cast(IncidentsScreen, app.screen)  # type: ignore[attr-defined]


async def keys_pressed(pilot: Pilot[int], *keys: str) -> None:
    """Presses keys and waits until what they set off has come through all widgets."""
    await press(pilot, *keys)
    for _ in range(4):
        await pilot.pause()


def with_incidents(*kinds: str, time: float = NOON, job: str | None = None) -> View:
    """A view with incidents of the whole cluster, or of a job."""
    made = view(time=time)
    found = tuple(
        make_incident(kind, node=None, component=None, job=job, opened_at=NOON) for kind in kinds
    )
    return View(int(time), time, made.cluster, found)


async def test_the_detail_is_of_the_row_under_the_cursor() -> None:
    app = make_app(trouble=True)
    async with running(app) as pilot:
        await keys_pressed(pilot, "5")
        assert of(app).detail.subject == "efa-1"
        await keys_pressed(pilot, "down")
        assert of(app).detail.subject == "comm-1"
        assert "of each step in communication" in picture(app)
        assert of(app).subject is None


async def test_the_detail_follows_a_first_row_that_changes() -> None:
    session = FakeSession(view())
    app = app_of(session)
    async with running(app) as pilot:
        await keys_pressed(pilot, "5")
        assert "no incident" in picture(app)
        session.publish(view(trouble=True))
        await keys_pressed(pilot)
        assert of(app).detail.subject == "efa-1"
        assert "evidence" in picture(app)


async def test_only_some_are_listed() -> None:
    app = make_app(trouble=True)
    async with running(app) as pilot:
        await keys_pressed(pilot, "5")
        table = of(app).table

        def listed() -> list[str]:
            return [row.id for row in table.rows]

        assert listed() == ["efa-1", "comm-1", "memory-1"]
        assert table.border_title == "incidents · open first"
        await keys_pressed(pilot, "f")
        assert listed() == ["efa-1", "comm-1"]
        assert table.border_title == "incidents · open only · 2 of 3"
        await keys_pressed(pilot, "f")
        assert listed() == ["memory-1"]
        assert of(app).detail.subject == "memory-1"
        await keys_pressed(pilot, "f")
        assert len(listed()) == 3


async def test_the_evidence_and_the_runbook_scroll() -> None:
    app = make_app(trouble=True)
    async with running(app, (80, 24)) as pilot:
        await keys_pressed(pilot, "5", "J", "J")
        assert of(app).evidence.scroll_y == 6
        await keys_pressed(pilot, "K")
        assert of(app).evidence.scroll_y == 3
        await keys_pressed(pilot, "down")
        assert of(app).evidence.scroll_y == 0


async def test_an_acknowledged_incident_is_quiet_until_it_changes() -> None:
    session = FakeSession(view(trouble=True))
    app = app_of(session)
    async with running(app) as pilot:
        alert = app.screen.query_one(AlertLine)
        assert alert.has_class("-critical")
        assert "● CRITICAL" in picture(app)
        await keys_pressed(pilot, "a")
        assert "▲ WARNING" in picture(app)
        assert "● CRITICAL" not in picture(app)
        await keys_pressed(pilot, "a")
        assert not alert.has_class("-warning", "-critical")
        assert "● acked" in picture(app)
        await keys_pressed(pilot, "5")
        rows = [row for row in picture(app).splitlines() if EFA_INCIDENT.summary in row]
        assert "● acked" in rows[-2]
        assert "acked     at 12:00:00" in picture(app)

        # The next tick is no change, another device is.
        session.publish(view(trouble=True, time=NOON + 1))
        await keys_pressed(pilot)
        assert "● CRITICAL" not in picture(app)
        later = view(trouble=True, time=NOON + 2)
        moved = replace(EFA_INCIDENT, component="efa:rdmap16s27")
        others = tuple(i for i in later.incidents if i.id != moved.id)
        session.publish(replace(later, incidents=(moved, *others)))
        await keys_pressed(pilot)
        assert "● CRITICAL" in picture(app)


async def test_an_incident_can_be_unacknowledged() -> None:
    app = make_app(trouble=True)
    async with running(app) as pilot:
        await keys_pressed(pilot, "5", "a", "a")
        assert "● CRITICAL" in picture(app)


async def test_enter_goes_to_the_location() -> None:
    session = FakeSession(view(trouble=True))
    app = app_of(session)
    async with running(app) as pilot:
        await keys_pressed(pilot, "5", "enter")
        assert isinstance(app.screen, NodeScreen)
        assert app.screen.node == VICTIM
        session.publish(with_incidents("comm_bound", job="pretrain-13b"))
        await keys_pressed(pilot, "5", "enter")
        assert isinstance(app.screen, CommScreen)
        session.publish(with_incidents("hang", job="pretrain-13b"))
        await keys_pressed(pilot, "5", "enter")
        assert isinstance(app.screen, RunScreen)


async def test_the_onset_keeps_the_incident_in_sight() -> None:
    session = FakeSession(view(time=NOON - 60))
    app = app_of(session)
    async with running(app) as pilot:
        session.publish(view(time=EFA_INCIDENT.opened_at))
        await pilot.pause()
        session.publish(view(trouble=True))
        await keys_pressed(pilot, "5", "o")
        screen = of(app)
        assert screen.view_model is not None
        assert screen.view_model.view.time == EFA_INCIDENT.opened_at
        assert screen.incident == EFA_INCIDENT
        assert "● later" in picture(app)
        assert "not detected yet at this time" in picture(app)
        await keys_pressed(pilot, "l")
        assert "● critical" in picture(app)
        assert screen.incident == EFA_INCIDENT
