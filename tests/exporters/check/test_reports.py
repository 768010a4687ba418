"""Reports of a check: worst first, nothing foreign becomes markup, each fits its width."""

import json

import msgspec
import pytest
from rich.cells import cell_len

from tests.check.fleet import LATENCY, Answer, Fleet, failed, inspection
from trntop.check.model import UnreachableError
from trntop.check.result import Check
from trntop.exporters.check.groups import groups
from trntop.exporters.check.markdown import markdown
from trntop.exporters.check.text import MAX_ROWS, text

NASTY = "</td><b>*bold*</b> `x` [a](b) \x1b[31m\x00"


@pytest.fixture(scope="module")
def check() -> Check:
    def answer(client: str, server: str, efa_device: str) -> Answer:
        if {client, server} == {"trn-001", "trn-002"}:
            return failed("no data within 10 s", "path")
        return LATENCY * (4 if "trn-006" in (client, server) else 1)

    fleet = Fleet(8, answer)
    for name in ("trn-003", "trn-004"):
        fleet.inspections[name] = lambda _: inspection("", memlock_bytes=65536.0)
    return fleet.run()


def hostile() -> Check:
    fleet = Fleet(3)
    fleet.inspections["trn-002"] = lambda _: inspection("", busy=[NASTY], problems=[NASTY])
    return fleet.run()


def test_text_keeps_to_its_width(check: Check) -> None:
    for width in (60, 80, 120):
        page = text(check, width)
        head, *_ = page.split("\n\n")
        assert "fi_pingpong over efa, 64 B" in head and "took" in head
        lines = page.splitlines()
        assert all(cell_len(line) <= width for line in lines[:-1]), width
    assert lines[-1] == check.verdict
    assert lines[lines.index("") + 2].split()[:2] == ["trn-006", "fail"]


def test_colour_is_only_where_it_is_reserved(check: Check) -> None:
    assert "\x1b[31mSLOW NETWORK\x1b[0m  trn-006: with trn-002" in text(check, 100, color=True)
    assert "\x1b" not in text(check, 100)


def test_the_same_text_of_several_nodes_is_shown_once(check: Check) -> None:
    (memlock,) = [group for group in groups(check.findings) if group.check == "memlock"]
    assert memlock.where == "trn-003, trn-004"
    assert text(check, 100).count("MEMLOCK TOO LOW  trn-003, trn-004: 64.0 KiB") == 1


def test_a_large_fleet_lists_the_affected_nodes() -> None:
    fleet = Fleet(
        64, lambda client, server, efa_device: LATENCY * (4 if "trn-050" in (client, server) else 1)
    )
    page = text(fleet.run(), 100)
    assert f"and {64 - MAX_ROWS} more nodes that pass" in page
    assert page.splitlines()[3].startswith("trn-050")


def test_markdown_can_be_pasted(check: Check) -> None:
    page = markdown(check)
    assert page.startswith("# trntop check, 2025-11-20 14:46:40 UTC\n\n**FAIL: 5 of 8 nodes pass;")
    assert "### 1. FAIL: trn-006 slow network" in page
    assert "### 2. FAIL: trn-001–trn-002 path failed" in page
    assert "`scontrol update nodename=trn-006 state=drain reason=" in page
    assert "| trn-006 | fail    | 8 of 8      | 80.0 µs | 4.00" in page


def test_nothing_foreign_becomes_markup() -> None:
    page = markdown(hostile())
    assert "\\*bold\\*" in page and "\\`x\\`" in page and "<b>" not in page.replace("\\<b\\>", "")


def test_each_report_names_the_fault_and_not_the_test() -> None:
    fleet = Fleet(2)
    fleet.broken = dict.fromkeys(fleet.names, UnreachableError("host name does not resolve"))
    found = fleet.run()
    page = text(found, 100)
    assert "UNREACHABLE  trn-001, trn-002: host name does not resolve\n  → Check DNS" in page
    assert page.splitlines()[3].endswith("  unreachable")
    pasted = markdown(found)
    assert "### 1. INCONCLUSIVE: trn-001, trn-002 unreachable\n\nhost name does not" in pasted
    document = json.loads(msgspec.json.encode(found))["findings"][0]
    assert (document["check"], document["fault"]) == ("reachable", "unreachable")
    assert document["outcome"] == "inconclusive"
