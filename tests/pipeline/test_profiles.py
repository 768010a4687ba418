import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trntop.core.errors import DecodeError, SettingsError, UsageError
from trntop.core.model import Neff, NeffProfile
from trntop.core.settings import Collect
from trntop.pipeline.profiles import add, default_path, find, load, path_of, read_summary, remove
from trntop.sources.profiles import MAX_PROFILES

GIB = 1 << 30
GOLDEN = {
    "hbm_read_bytes": 3.995 * GIB,
    "hbm_write_bytes": 2.702 * GIB,
    "total_time": 0.05482,
    "cc_op_active_time": 0.0147,
    "mbu_estimated_percent": 31.99,
    "mfu_estimated_percent": 10.45,
}
"""A public summary of a profile taken on a trn1.2xlarge, as far as it is used."""


def profile(name: str = "a.neff", uuid: str = "", read: float = 1.0) -> NeffProfile:
    return NeffProfile(name, uuid, read, 2.0)


# The file that keeps them


def test_what_is_added_is_found_and_what_is_removed_is_not(tmp_path: Path) -> None:
    path = tmp_path / "profiles.json"
    assert load(path) == ()
    first, two = profile("a.neff", "u1"), profile("b.neff")
    assert add(path, first) is None
    assert add(path, two) is None
    assert load(path) == (first, two)
    assert remove(path, "u1") == first
    assert remove(path, "b.neff") == two
    assert load(path) == ()


def test_the_file_is_private_whole_and_readable(tmp_path: Path) -> None:
    path = tmp_path / "profiles.json"
    add(path, profile())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]
    assert json.loads(path.read_text())["profiles"][0]["name"] == "a.neff"


def test_a_profile_replaces_one_of_the_same_program(tmp_path: Path) -> None:
    path = tmp_path / "profiles.json"
    first = profile("a.neff", "u1")
    add(path, first)
    assert add(path, profile("renamed.neff", "u1", 5.0)) == first
    assert add(path, profile("renamed.neff", "u2")) is None, "compiled again: another program"
    assert add(path, profile("renamed.neff")) is not None
    assert len(load(path)) == 2


def test_only_the_default_folder_is_created(tmp_path: Path) -> None:
    path = tmp_path / "share" / "trntop" / "profiles.json"
    with pytest.raises(SettingsError, match=r"profiles\.json: directory .*trntop does not exist"):
        add(path, profile())
    assert list(tmp_path.iterdir()) == []
    add(path, profile(), make_folder=True)
    assert load(path) == (profile(),)


def test_the_number_of_profiles_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "profiles.json"
    entries = [
        {"name": f"{n}", "hbm_read_bytes": 1, "hbm_write_bytes": 1} for n in range(MAX_PROFILES)
    ]
    path.write_text(json.dumps({"profiles": entries}))
    with pytest.raises(SettingsError, match=r"holds 1,024 profiles; remove some first"):
        add(path, profile())
    add(path, profile("7"))
    assert len(load(path)) == MAX_PROFILES


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON"),
        ("[]", "Expected `object`"),
        ('{"profiles": [{"name": "a"}]}', "a: no usable `hbm_read_bytes`"),
        ('{"profiles": [{"name": 3}]}', r"profiles\[0\]\.name"),
        ("{}", "not a file of profiles: no `profiles` in it"),
        ('{"compilerOptions": {"strict": true, "x": NaN}}', "not a file of profiles"),
    ],
)
def test_a_broken_file_is_named_and_left_alone(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "profiles.json"
    path.write_text(text)
    with pytest.raises(SettingsError, match=rf"profiles\.json: .*{reason}"):
        add(path, profile())
    assert path.read_text() == text


def test_what_cannot_be_read_or_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="not a regular file"):
        load(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match="Not a directory"):
        load(tmp_path / "file" / "profiles.json")
    full = tmp_path / "profiles.json"
    full.write_bytes(b" " * (5 << 20))
    with pytest.raises(SettingsError, match="larger than 4 MiB"):
        load(full)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(SettingsError, match="cannot be written: Permission denied"):
        add(tmp_path / "profiles.json", profile())


def test_what_is_not_there_cannot_be_removed(tmp_path: Path) -> None:
    path = tmp_path / "profiles.json"
    with pytest.raises(UsageError, match="no profile of x; it holds none"):
        remove(path, "x")
    add(path, profile())
    with pytest.raises(UsageError, match=r"no profile of x; it holds a\.neff"):
        remove(path, "x")
    with pytest.raises(UsageError):
        remove(path, "")


@pytest.mark.parametrize(
    ("environ", "path"),
    [
        ({"XDG_DATA_HOME": "/data", "HOME": "/home/u"}, "/data/trntop/profiles.json"),
        ({"XDG_DATA_HOME": "data", "HOME": "/home/u"}, "/home/u/.local/share/trntop/profiles.json"),
        ({}, "/var/lib/trntop/profiles.json"),
    ],
)
def test_where_it_is(environ: dict[str, str], path: str) -> None:
    assert default_path(environ) == Path(path)
    assert path_of(Collect(), environ) == Path(path)
    assert path_of(Collect(profiles="/else/where.json"), environ) == Path("/else/where.json")


@pytest.mark.parametrize(
    ("neff", "found"),
    [
        (Neff("a.neff", "u2"), "u2"),
        (Neff("a.neff", "unknown"), None),
        (Neff("a.neff"), "u1"),
        (Neff("d.neff", "unknown"), ""),
        (Neff("b.neff"), "u2"),
        (Neff("c.neff", "unknown"), None),
        (Neff("", ""), None),
    ],
)
def test_the_uuid_counts_before_the_name(neff: Neff, found: str | None) -> None:
    names = (("a.neff", "u1"), ("b.neff", "u2"), ("", "u3"), ("d.neff", ""))
    profiles = tuple(profile(*name) for name in names)
    match = find(profiles, neff)
    assert (match and match.uuid) == found


# Summaries


def summary(path: Path, document: Any) -> Path:
    path.write_text(json.dumps(document))
    return path


def test_the_golden_summary(tmp_path: Path) -> None:
    read = read_summary(summary(tmp_path / "train_step.neff.json", GOLDEN))
    assert read.profile == NeffProfile(
        "train_step.neff", "", 3.995 * GIB, 2.702 * GIB, 0.05482, 0.0147
    )
    assert not read.named


@pytest.mark.parametrize(
    "document",
    [
        GOLDEN,
        {"summary": GOLDEN},
        {"summary": [GOLDEN]},
        [GOLDEN],
        {"n_4f1c": GOLDEN},
        {"summary": {"n_4f1c": GOLDEN}},
        {key: str(value) for key, value in GOLDEN.items()},
    ],
)
def test_the_summary_at_any_position(tmp_path: Path, document: Any) -> None:
    read = read_summary(summary(tmp_path / "s.json", document))
    assert read.profile.hbm_read_bytes == pytest.approx(3.995 * GIB)
    assert read.cores == 1


def test_of_several_cores_the_mean_is_taken(tmp_path: Path) -> None:
    other = GOLDEN | {"hbm_read_bytes": 1.995 * GIB}
    read = read_summary(summary(tmp_path / "s.json", {"n_0": GOLDEN, "n_1": other}))
    assert read.cores == 2
    assert read.profile.hbm_read_bytes == pytest.approx(2.995 * GIB)


@pytest.mark.parametrize(
    ("members", "environment", "name", "uuid", "named"),
    [
        ({}, {}, "s", "", False),
        ({"neff": "/home/u/step.neff"}, {}, "step.neff", "", True),
        ({"neff_name": "step.neff", "uuid": "u1"}, {}, "step.neff", "u1", True),
        ({"neff_uuid": "u1"}, {}, "", "u1", True),
        ({"neff": 3, "uuid": None}, {}, "s", "", False),
        ({"neff": "x.neff", "uuid": "u1"}, {"name": "y.neff", "uuid": "u2"}, "y.neff", "u2", True),
    ],
)
def test_which_neff_it_is_of(
    tmp_path: Path,
    members: dict[str, Any],
    environment: dict[str, str],
    name: str,
    uuid: str,
    named: bool,
) -> None:
    for document in (GOLDEN | members, {"summary": GOLDEN} | members):
        read = read_summary(summary(tmp_path / "s.json", document), **environment)
        assert (read.profile.name, read.profile.uuid, read.named) == (name, uuid, named)


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({}, "no summary of a profile: no `hbm_read_bytes` in it"),
        ([[[[GOLDEN]]]], "no summary of a profile: no `hbm_read_bytes` in it"),
        ({"hbm_read_bytes": 1}, "missing required field `hbm_write_bytes`"),
        (GOLDEN | {"hbm_read_bytes": "3.995 GiB"}, "hbm_read_bytes"),
        (GOLDEN | {"hbm_read_bytes": -1}, "hbm_read_bytes: -1 is not a number of bytes"),
        (
            GOLDEN | {"total_time": 54820},
            "total_time: 54820 is not the time of one execution",
        ),
        (GOLDEN | {"total_time": 0}, "total_time: 0 is not the time of one execution in seconds"),
        (GOLDEN | {"cc_op_active_time": 14.7}, "cc_op_active_time: 14.7 s is not within total"),
    ],
)
def test_a_refusal_names_file_and_field(tmp_path: Path, document: Any, reason: str) -> None:
    with pytest.raises(DecodeError) as caught:
        read_summary(summary(tmp_path / "s.json", document))
    assert str(caught.value).startswith(f"{tmp_path / 's.json'}: ")
    assert reason in str(caught.value)


def test_files_that_are_no_summary(tmp_path: Path) -> None:
    text = tmp_path / "s.txt"
    text.write_text("hbm_read_bytes 3.995 GiB")
    with pytest.raises(DecodeError, match=r"s\.txt: not JSON"):
        read_summary(text)
    with pytest.raises(DecodeError, match=r"none\.json: No such file or directory"):
        read_summary(tmp_path / "none.json")


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_bytes_are_a_summary_or_one_sentence(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_bytes(data)
    with pytest.raises(DecodeError, match=r"any\.json: "):
        read_summary(path)
