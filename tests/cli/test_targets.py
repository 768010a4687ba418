import json
from argparse import Namespace
from pathlib import Path

import pytest

from trntop.cli.targets import targets
from trntop.core.errors import TrntopError, UsageError


def arguments(**options: object) -> Namespace:
    usual = {"nodes": [], "port": 10042, "labels": []}
    return Namespace(**(usual | options))


def test_prints_what_file_sd_reads(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    args = arguments(nodes=["trn-[001-002]", "gpu,trn-002"], port=9, labels=["cluster=a", "rack="])
    assert targets(args) == 0
    assert json.loads(capfdbinary.readouterr().out) == [
        {
            "targets": ["trn-001:9", "trn-002:9", "gpu:9"],
            "labels": {"cluster": "a", "rack": ""},
        }
    ]


def test_a_file_of_nodes(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    file = tmp_path / "nodes"
    file.write_text("# the run\ntrn-[1-2]  # first rack\n\ntrn-3,trn-4\n")
    assert targets(arguments(nodes=["head", f"@{file}"], port=1)) == 0
    (group,) = json.loads(capfdbinary.readouterr().out)
    assert group["targets"] == ["head:1", "trn-1:1", "trn-2:1", "trn-3:1", "trn-4:1"]


def test_no_node_is_an_empty_list(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    file = tmp_path / "nodes"
    file.write_text("# nobody\n")
    assert targets(arguments(nodes=[f"@{file}"])) == 0
    assert json.loads(capfdbinary.readouterr().out) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nodes": ["trn-[1"]}, "bracket"),
        (
            {"nodes": ["trn"], "labels": ["cluster"]},
            "cluster is not a valid --label; use NAME=VALUE",
        ),
        ({"nodes": ["trn"], "labels": ["a-b=c"]}, "a-b=c is not a valid --label"),
        ({"nodes": ["trn"], "labels": ["ä=c"]}, "--label"),
    ],
)
def test_bad_use(options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        targets(arguments(**options))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    file = tmp_path / "nodes"
    with pytest.raises(TrntopError, match="No such file"):
        targets(arguments(nodes=[f"@{file}"]))
    file.write_bytes(b"trn-1\n\xff")
    with pytest.raises(TrntopError, match="not UTF-8 at byte 6"):
        targets(arguments(nodes=[f"@{file}"]))
    file.write_bytes(b"a," * (3 << 20))
    with pytest.raises(TrntopError, match="larger than 4 MiB"):
        targets(arguments(nodes=[f"@{file}"]))
