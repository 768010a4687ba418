from pathlib import Path

import pytest

from trntop.collectors.hosts import hosts_of
from trntop.collectors.hosts.agent import AgentHost
from trntop.collectors.hosts.node import LocalHost, SshHost
from trntop.core.errors import UsageError
from trntop.core.settings import Fleet, Settings
from trntop.core.source_spec import Origin, Source, parse_all


def names(*texts: str, settings: Settings | None = None) -> list[tuple[str, type[object]]]:
    hosts = hosts_of(parse_all(list(texts)), settings or Settings())
    return [(host.name, type(host)) for host in hosts]


def test_each_kind_of_source() -> None:
    assert names("trn-[001-002]", "ssh://ec2-user@trn-003.example:2222") == [
        ("trn-001", AgentHost),
        ("trn-002", AgentHost),
        ("trn-003", SshHost),
    ]
    ((_, kind),) = names("local")
    assert kind is LocalHost


def test_a_file_of_nodes(tmp_path: Path) -> None:
    file = tmp_path / "nodes"
    file.write_text("trn-[001-002]\n")
    assert names(f"@{file}") == [("trn-001", AgentHost), ("trn-002", AgentHost)]
    over_ssh = Settings(fleet=Fleet(via="ssh"))
    assert names(f"@{file}", settings=over_ssh) == [
        ("trn-001", SshHost),
        ("trn-002", SshHost),
    ]


@pytest.mark.parametrize(
    "origin",
    [Origin.SIMULATION, Origin.STDIN, Origin.RECORDING, Origin.PROMETHEUS, Origin.CLOUDWATCH],
)
def test_what_names_no_nodes_is_refused(origin: Origin) -> None:
    with pytest.raises(UsageError, match="some: a check takes nodes such as"):
        hosts_of([Source(origin, "some")], Settings())


def test_a_node_that_is_named_twice() -> None:
    with pytest.raises(UsageError, match="trn-001 is named twice"):
        names("trn-001:10042", "ssh://trn-001")
