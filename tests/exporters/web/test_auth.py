import asyncio
import base64
import threading
from collections.abc import AsyncIterator

import bcrypt
import pytest
import pytest_asyncio

from trntop.exporters.web import auth
from trntop.exporters.web.auth import MAX_KNOWN, MAX_WAITING, BusyError, Verifier, parse_basic

HASHES = {
    name: bcrypt.hashpw(password, bcrypt.gensalt(4))
    for name, password in ((b"alice", b"wonder"), (b"bob", b"builder"))
}


def basic(name: bytes, password: bytes) -> str:
    return f"Basic {base64.b64encode(name + b':' + password).decode()}"


@pytest_asyncio.fixture
async def verifier() -> AsyncIterator[Verifier]:
    one = Verifier()
    yield one
    one.close()


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bytes, bytes]]:
    """The passwords and hashes that are checked."""
    seen = []
    check = auth._matches

    def checking(password: bytes, hashed: bytes) -> bool:
        seen.append((password, hashed))
        return check(password, hashed)

    monkeypatch.setattr(auth, "_matches", checking)
    return seen


async def test_the_right_ones_only(verifier: Verifier) -> None:
    assert await verifier.allows(HASHES, basic(b"alice", b"wonder"))
    assert await verifier.allows(HASHES, basic(b"bob", b"builder"))
    for name, password in (
        (b"alice", b"builder"),
        (b"bob", b"wonder"),
        (b"alice", b""),
        (b"", b"wonder"),
        (b"carol", b"wonder"),
        (b"ALICE", b"wonder"),
        (b"alice", b"wonder\0"),
        (b"alice", b"wonder" * 100),
        (b"\xff", b"\xff"),
    ):
        assert not await verifier.allows(HASHES, basic(name, password)), (name, password)


@pytest.mark.parametrize("known", [False, True])
async def test_a_hash_is_no_password(verifier: Verifier, known: bool) -> None:
    """Nor is anything put together from what the memory of good credentials holds."""
    if known:
        assert await verifier.allows(HASHES, basic(b"alice", b"wonder"))
    hashed = HASHES[b"alice"]
    for name, password in (
        (b"alice", hashed),
        (b"alice", hashed + b":wonder"),
        (b"alice:" + hashed, b"wonder"),
        (b"alice" + hashed, b"wonder"),
        (b"", b"alice" + hashed + b"wonder"),
    ):
        assert not await verifier.allows(HASHES, basic(name, password))


async def test_a_wrong_name_costs_what_a_wrong_password_costs(
    verifier: Verifier, checks: list[tuple[bytes, bytes]]
) -> None:
    for name in (b"alice", b"nobody", b"nobody", b"alice"):
        assert not await verifier.allows(HASHES, basic(name, b"x"))
    assert [hashed in HASHES.values() for _, hashed in checks] == [True] * 4
    assert checks[1] == checks[2], "always the same one for a name"


async def test_a_name_without_a_user_is_refused_even_with_a_password_that_fits(
    verifier: Verifier, checks: list[tuple[bytes, bytes]]
) -> None:
    users = {b"alice": HASHES[b"alice"]}
    for _ in range(2):
        assert not await verifier.allows(users, basic(b"nobody", b"wonder"))
    assert checks == [(b"wonder", HASHES[b"alice"])] * 2


async def test_good_ones_are_checked_once_and_bad_ones_each_time(
    verifier: Verifier, checks: list[tuple[bytes, bytes]]
) -> None:
    for _ in range(3):
        assert await verifier.allows(HASHES, basic(b"alice", b"wonder"))
        assert not await verifier.allows(HASHES, basic(b"alice", b"x"))
    assert [password for password, _ in checks] == [b"wonder", b"x", b"x", b"x"]


async def test_a_changed_hash_is_asked_again(verifier: Verifier) -> None:
    assert await verifier.allows(HASHES, basic(b"alice", b"wonder"))
    changed = {b"alice": bcrypt.hashpw(b"land", bcrypt.gensalt(4))}
    assert not await verifier.allows(changed, basic(b"alice", b"wonder"))
    assert await verifier.allows(changed, basic(b"alice", b"land"))
    assert not await verifier.allows({b"bob": HASHES[b"bob"]}, basic(b"alice", b"land"))


async def test_what_is_remembered_is_bounded(
    verifier: Verifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "_matches", lambda *_: True)
    for number in range(MAX_KNOWN + 10):
        assert await verifier.allows(HASHES, basic(b"alice", str(number).encode()))
    assert len(verifier._known) == MAX_KNOWN


async def test_many_at_once(verifier: Verifier, monkeypatch: pytest.MonkeyPatch) -> None:
    """One is checked at a time, equal ones once, and beyond a number nobody waits."""
    go = threading.Event()
    checked = []

    def slow(password: bytes, _: bytes) -> bool:
        go.wait(10)
        checked.append(password)
        return password == b"wonder"

    monkeypatch.setattr(auth, "_matches", slow)
    same = [
        asyncio.ensure_future(verifier.allows(HASHES, basic(b"alice", b"wonder"))) for _ in range(9)
    ]
    others = [
        asyncio.ensure_future(verifier.allows(HASHES, basic(b"alice", str(n).encode())))
        for n in range(MAX_WAITING)
    ]
    await asyncio.sleep(0)
    with pytest.raises(BusyError):
        await verifier.allows(HASHES, basic(b"alice", b"late"))
    go.set()
    assert await asyncio.gather(*same) == [True] * 9
    assert await asyncio.gather(*others) == [False] * MAX_WAITING
    assert checked.count(b"wonder") == 1
    assert await verifier.allows(HASHES, basic(b"alice", b"wonder"))


async def test_bcrypt_s_own_limits(verifier: Verifier) -> None:
    long = b"x" * 100
    users = {b"a": bcrypt.hashpw(long[:72], bcrypt.gensalt(4))}
    assert await verifier.allows(users, basic(b"a", long)), "as every bcrypt does"
    broken = {b"a": b"$2y$04$" + b"." * 53}
    assert not await verifier.allows(broken, basic(b"a", b"x"))


@pytest.mark.parametrize(
    ("header", "credentials"),
    [
        ("Basic YTpi", (b"a", b"b")),
        ("basic  YTpiOmM= ", (b"a", b"b:c")),
        ("Basic Og==", (b"", b"")),
        ("", None),
        ("Basic", None),
        ("Basic YQ==", None),
        ("Basic ???", None),
        ("Basic YTp", None),
        ("Bearer YTpi", None),
        ("Basic Ä", None),
    ],
)
def test_headers(header: str, credentials: tuple[bytes, bytes] | None) -> None:
    assert parse_basic(header) == credentials
