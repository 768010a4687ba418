"""Reports of a check: worst first, nothing foreign becomes markup, each fits its place."""

import json
from xml.etree import ElementTree

import pytest

from tests.check.fleet import LATENCY, Answer, Fleet, failed, inspection
from trntop.check import kept
from trntop.check.model import ProbeResult, UnreachableError
from trntop.check.plan import Plan
from trntop.check.result import Check
from trntop.core.settings import Check as Limits
from trntop.exporters.check.groups import groups
from trntop.exporters.check.junit import junit
from trntop.exporters.check.markdown import markdown
from trntop.exporters.check.matrix import matrix
from trntop.exporters.check.text import MAX_ROWS, text
from trntop.exporters.grid import cells

LIMITS = Limits()
NASTY = "</td><b>*bold*</b> `x` [a](b) \x1b[31m\x00"


@pytest.fixture(scope="module")
def check() -> Check:
    def answer(one: str, two: str, card: str) -> Answer:
        if {one, two} == {"trn-001", "trn-002"}:
            return failed("no data within 10 s", "path")
        return LATENCY * (4 if "trn-006" in (one, two) else 1)

    fleet = Fleet(8, answer)
    for name in ("trn-003", "trn-004"):
        fleet.looks[name] = lambda _: inspection("", memlock_bytes=65536.0)
    return fleet.run()


def hostile() -> Check:
    fleet = Fleet(3)
    fleet.looks["trn-002"] = lambda _: inspection("", busy=[NASTY], problems=[NASTY])
    return fleet.run()


def test_text_keeps_to_its_width(check: Check) -> None:
    for width in (60, 80, 120):
        page = text(check, LIMITS, width)
        head, *_ = page.split("\n\n")
        assert "fi_pingpong over efa, 64 B" in head and "took" in head
        lines = page.splitlines()
        assert all(cells(line) <= width for line in lines[:-1]), width
    assert lines[-1] == check.verdict
    assert lines[lines.index("") + 2].split()[:2] == ["trn-006", "fail"]


def test_colour_is_only_where_it_is_asked_for(check: Check) -> None:
    assert "\x1b[31mSLOW NETWORK\x1b[0m  trn-006: with trn-002" in text(
        check, LIMITS, 100, color=True
    )
    assert "\x1b" not in text(check, LIMITS, 100)


def test_the_same_words_of_several_nodes_are_said_once(check: Check) -> None:
    (memlock,) = [one for one in groups(check.findings) if one.check == "memlock"]
    assert memlock.where == "trn-003, trn-004"
    assert text(check, LIMITS, 100).count("MEMLOCK TOO LOW  trn-003, trn-004: 64.0 KiB") == 1


def test_the_matrix(check: Check) -> None:
    rows = matrix(check, LIMITS)
    assert rows[0] == ["", *"12345678"]
    assert rows[1][:3] == ["trn-001", "", "failed"]
    assert rows[6][2] == "80.0!!" == rows[2][6]
    assert rows[8][1] == "·"
    assert matrix(Fleet(2).run(), LIMITS) == [], "one pair needs none"
    assert matrix(Fleet(40).run(), LIMITS) == [], "nobody reads that"


def test_rates_in_the_matrix() -> None:
    result = ProbeResult(tool="ib_write_bw", peer="", size_bytes=1 << 20, bytes_per_second=11e9)
    page = text(Fleet(3, lambda *_: result).run(), LIMITS, 100)
    assert "Each pair's best, Gb/s" in page and " 88 " in page


def test_a_large_fleet_lists_whom_it_concerns() -> None:
    fleet = Fleet(64, lambda one, two, card: LATENCY * (4 if "trn-050" in (one, two) else 1))
    page = text(fleet.run(), LIMITS, 100)
    assert f"and {64 - MAX_ROWS} more nodes that pass" in page
    assert page.splitlines()[3].startswith("trn-050")


def test_markdown_can_be_pasted(check: Check) -> None:
    page = markdown(check, LIMITS)
    assert page.startswith("# trntop check, 2025-11-20 14:46:40 UTC\n\n**FAIL: 5 of 8 nodes pass;")
    assert "### 1. FAIL: trn-006 slow network" in page
    assert "### 2. FAIL: trn-001–trn-002 path failed" in page
    assert "`scontrol update nodename=trn-006 state=drain reason=" in page
    assert "| trn-006 | fail    | 8 of 8      | 80.0 µs | 4.00" in page
    assert "## Pairs" in page and "## Versions" in page


def test_nothing_foreign_becomes_markup() -> None:
    page = markdown(hostile(), LIMITS)
    assert "\\*bold\\*" in page and "\\`x\\`" in page and "<b>" not in page.replace("\\<b\\>", "")


def test_junit_is_xml_whatever_was_said(check: Check) -> None:
    for found in (check, hostile()):
        suite = ElementTree.fromstring(junit(found)).find("testsuite")
        assert suite is not None
        cases = {case.get("name"): case for case in suite}
        assert set(cases) >= {place.node for place in found.places}
    assert cases["trn-002"].find("skipped") is not None
    suite = ElementTree.fromstring(junit(check)).find("testsuite")
    assert suite is not None
    cases = {case.get("name"): case for case in suite}
    assert cases["trn-006"].find("failure") is not None
    assert cases["trn-003"].findtext("system-out", "").startswith("warn: memlock too low: 64.0 KiB")
    assert len(cases["trn-005"]) == 0
    assert cases["all"].find("failure") is not None
    assert suite.get("failures") == "2"


def test_cards_of_a_pair_show_their_worst() -> None:
    fleet = Fleet(
        4,
        lambda one, two, card: (
            LATENCY * (4 if "trn-001" in (one, two) and card == "rdmap32s27" else 1)
        ),
    )
    rows = matrix(fleet.run(Plan(per_card=True, extent="full")), LIMITS)
    assert "80.0!!" in rows[1]


def test_each_report_names_the_fault_and_not_the_test() -> None:
    fleet = Fleet(2)
    fleet.broken = dict.fromkeys(fleet.names, UnreachableError("host name does not resolve"))
    found = fleet.run()
    page = text(found, LIMITS, 100)
    assert "UNREACHABLE  trn-001, trn-002: host name does not resolve\n  → Check DNS" in page
    assert page.splitlines()[3].endswith("  unreachable")
    pasted = markdown(found, LIMITS)
    assert "### 1. INCONCLUSIVE: trn-001, trn-002 unreachable\n\nhost name does not" in pasted
    skipped = ElementTree.fromstring(junit(found)).find(".//skipped")
    assert skipped is not None and skipped.get("message") == (
        "trn-001 unreachable: host name does not resolve. Check DNS or /etc/hosts."
    )
    document = json.loads(kept.encode(found))["findings"][0]
    assert (document["check"], document["fault"]) == ("reachable", "unreachable")
    assert document["outcome"] == "inconclusive"
