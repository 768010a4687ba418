from pathlib import Path

import pytest

from trntop.core.errors import UsageError
from trntop.core.source_spec import Origin, Source, parse, parse_all


def test_what_a_source_can_be(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    file.touch()
    assert parse("local").origin is Origin.LOCAL
    assert parse("-").origin is Origin.STDIN
    assert parse("sim:demo").origin is Origin.SIMULATION
    assert parse(str(file)).origin is Origin.RECORDING
    assert [source.origin for source in parse_all([])] == [Origin.LOCAL]


@pytest.mark.parametrize(
    ("texts", "error"),
    [
        (["nothing.jsonl"], "file nothing.jsonl does not exist"),
        (["gopher://x"], "unknown source type gopher; known: "),
        (["local", "sim:demo"], "cannot be combined"),
        (["sim:demo", "sim:demo"], "given twice"),
        (["a\0b"], "NUL"),
    ],
)
def test_what_it_cannot(texts: list[str], error: str) -> None:
    with pytest.raises(UsageError, match=error):
        parse_all(texts)


def test_hosts_may_be_more_than_the_name_of_a_file() -> None:
    hosts = ",".join(f"trn-{number:03}" for number in range(60))
    assert parse(hosts) == Source(Origin.AGENT, hosts)
    with pytest.raises(UsageError, match="is not a file or a SOURCE"):
        parse("#" * 300)
