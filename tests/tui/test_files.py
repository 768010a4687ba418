"""What keys write to files, and their errors; and the bell."""

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import msgspec
import pytest

from tests.builders import NOON, make_incident, make_view, view_of
from tests.reports import monitor_reading, report, runtime
from tests.tui.sample_run import SETTINGS, FakeSession, node, view
from tests.tui.test_app import press, running
from trntop.core.model import View
from trntop.core.settings import Blackbox, Notify, Settings
from trntop.recording.blackbox import BlackBox
from trntop.recording.reader import open_recording
from trntop.session.runner import Playback, Session
from trntop.tui.app import TrntopApp
from trntop.tui.files import Watched


def settings_of(folder: Path, **notify: object) -> Settings:
    return msgspec.structs.replace(
        SETTINGS,
        blackbox=Blackbox(folder=str(folder)),
        notify=msgspec.convert(notify, Notify),
    )


def make_report(first: View, last: View, seconds: float, acknowledged: Mapping[str, float]) -> str:
    span = f"from {first.time - NOON:.0f} to {last.time - NOON:.0f}, {seconds:.0f} s seen"
    return f"{span}{', acknowledged: ' if acknowledged else ''}{', '.join(acknowledged)}\n"


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def app_of(session: FakeSession, settings: Settings) -> TrntopApp:
    return TrntopApp(cast(Session, session), settings=settings, report=make_report, utc=True)


def filled() -> BlackBox:
    box = BlackBox(900, 1 << 30)
    for second in range(61):
        box.append(monitor_reading(report(runtime()), NOON - 60 + second, "trn-007"))
    return box


async def message_after(app: TrntopApp, key: str) -> list[str]:
    async with running(app) as pilot:
        await press(pilot, key)
        app._files.wait()
        await pilot.pause()
        return [notification.message for notification in app._notifications]


async def test_w_writes_the_black_box(tmp_path: Path) -> None:
    session = FakeSession(make_view())
    session.black_box = filled()
    (message,) = await message_after(app_of(session, settings_of(tmp_path)), "w")
    (file,) = files(tmp_path)
    assert message.startswith("saved the last 1 min (61 readings, ")
    assert message.endswith(f"to {file}")
    assert len(list(open_recording(file))) == 61


async def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    session = FakeSession(make_view())
    session.black_box = filled()
    (message,) = await message_after(app_of(session, settings_of(tmp_path / "missing")), "w")
    assert message.startswith("not written: ")
    assert "does not exist" in message


@pytest.mark.parametrize(
    ("shown", "playback", "reason"),
    [
        (make_view(), None, "blackbox.seconds is 0"),
        (make_view(), Playback(), "this is already a recording: fake"),
        (make_view(simulated=True), Playback(), "use trntop record fake"),
    ],
)
async def test_without_a_black_box_the_reason_is_shown(
    tmp_path: Path, shown: View, playback: Playback | None, reason: str
) -> None:
    session = FakeSession(shown, playback=playback)
    (message,) = await message_after(app_of(session, settings_of(tmp_path)), "w")
    assert reason in message
    assert not files(tmp_path)


async def test_r_writes_the_report(tmp_path: Path) -> None:
    session = FakeSession(view(time=NOON - 10))
    app = app_of(session, settings_of(tmp_path))
    async with running(app) as pilot:
        for second in (-9, -8, 400, 401):
            session.publish(view(time=NOON + second))
            await pilot.pause()
        await press(pilot, "r")
        app._files.wait()
        await press(pilot, "r")
        app._files.wait()
        await pilot.pause()
        first, second = (notification.message for notification in app._notifications)
    assert first == f"saved the report of 3 s to {tmp_path}/trntop-report-20251120T120641Z.md"
    assert second.endswith("-2.md")
    assert {file.read_text() for file in files(tmp_path)} == {"from -10 to 401, 3 s seen\n"}


async def test_the_report_has_what_was_acknowledged(tmp_path: Path) -> None:
    app = app_of(FakeSession(view(trouble=True)), settings_of(tmp_path))
    async with running(app) as pilot:
        await press(pilot, "a", "r")
        app._files.wait()
    (file,) = files(tmp_path)
    assert file.read_text().endswith(", acknowledged: efa-1\n")


async def test_screenshots_are_with_the_pictures_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_PICTURES_DIR", str(tmp_path))
    app = app_of(FakeSession(make_view()), SETTINGS)
    async with running(app) as pilot:
        await press(pilot, "x")
        app._files.wait()
    (file,) = files(tmp_path / "trntop")
    assert file.suffix == ".svg"


async def test_a_word_from_the_collection_is_shown_as_it_is(tmp_path: Path) -> None:
    session = FakeSession(make_view())
    app = app_of(session, settings_of(tmp_path))
    async with running(app) as pilot:
        session.warn("black box: [/red]")
        await pilot.pause()
        (notification,) = app._notifications
        assert (notification.message, notification.severity) == ("black box: [/red]", "warning")
        assert not notification.markup


async def test_the_bell_rings_once_for_an_incident(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rung: list[bool] = []
    monkeypatch.setattr(TrntopApp, "bell", lambda _: rung.append(True))
    for bell, times in ((True, 1), (False, 0)):
        rung.clear()
        session = FakeSession(make_view(incidents=()))
        async with running(app_of(session, settings_of(tmp_path, bell=bell))) as pilot:
            for _ in range(2):
                session.publish(view_of(node(0), incidents=(make_incident(),)))
                await pilot.pause()
        assert len(rung) == times


def test_a_gap_is_not_visible() -> None:
    watched = Watched()
    for second in (0, 1, 2, 500, 501, 400, 401):
        watched.append(view_of(time=NOON + second))
    assert watched.seconds == 4
    assert watched.first is not None
    assert watched.first.time == NOON
