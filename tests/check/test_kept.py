"""Results that are kept: what is in them, how many, and which one is compared with."""

from pathlib import Path

import msgspec
import pytest

from tests.check.fleet import LATENCY, NOW, Fleet
from trntop.check import kept
from trntop.check.model import ProbeSpec
from trntop.check.plan import Plan
from trntop.check.result import Check
from trntop.core.errors import UsageError


def later(check: Check, hours: float) -> Check:
    return msgspec.structs.replace(check, started=NOW + 3600 * hours)


def test_what_is_kept_can_be_read_and_lacks_counters(tmp_path: Path) -> None:
    check = Fleet(4).run()
    path = kept.keep(check, tmp_path / "checks", 5)
    found = kept.read(path)
    assert (found.places, found.findings, found.trials) == (
        check.places, check.findings, check.trials
    )  # fmt: skip
    assert b"retrans_pkts" not in path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_the_oldest_give_way(tmp_path: Path) -> None:
    check = Fleet(2).run()
    for hour in range(5):
        kept.keep(later(check, hour), tmp_path, 3)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"check-20251120T{hour}4640Z.json" for hour in (16, 17, 18)
    ]


def test_the_baseline_is_the_newest_that_passed_and_measured_the_same(tmp_path: Path) -> None:
    names = Fleet(4).names
    plan = Plan()
    assert kept.baseline(tmp_path, plan, names) is None
    bad = Fleet(4, lambda one, two, card: LATENCY * (9 if "trn-002" in (one, two) else 1)).run()
    kept.keep(later(bad, 1), tmp_path, 9)
    assert _hour(kept.baseline(tmp_path, plan, names)) == 1
    kept.keep(later(Fleet(4).run(), 2), tmp_path, 9)
    kept.keep(later(bad, 3), tmp_path, 9)
    kept.keep(later(Fleet(4).run(Plan(spec=ProbeSpec(provider="tcp"))), 4), tmp_path, 9)
    (tmp_path / "check-20291120T164640Z.json").write_text("{")
    assert _hour(kept.baseline(tmp_path, plan, names)) == 2
    assert kept.baseline(tmp_path, plan, ["other-1", "other-2"]) is None


def _hour(check: Check | None) -> float:
    assert check is not None
    return (check.started - NOW) / 3600


@pytest.mark.parametrize(
    ("content", "reason"),
    [("{", "is not a result of trntop check"), ("[]", "is not a result of trntop check")],
)
def test_what_is_no_result(tmp_path: Path, content: str, reason: str) -> None:
    file = tmp_path / "x.json"
    file.write_text(content)
    with pytest.raises(UsageError, match=reason):
        kept.read(file)


def test_what_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        kept.read(tmp_path / "none")
    with pytest.raises(UsageError, match="directory"):
        kept.read(tmp_path)
    other = msgspec.structs.replace(Fleet(2).run(), schema=2)
    (tmp_path / "x").write_bytes(kept.encode(other))
    with pytest.raises(UsageError, match="has schema 2"):
        kept.read(tmp_path / "x")


def test_where_they_are() -> None:
    assert kept.folder_of({"XDG_STATE_HOME": "/s"}) == Path("/s/trntop/checks")
    assert kept.folder_of({"HOME": "/h"}) == Path("/h/.local/state/trntop/checks")
    assert kept.folder_of({}) is None
