"""Every fault of `docs/reliability.md` has a test, and every such test a fault."""

import re

from tools import reliability


def test_each_fault_has_a_test() -> None:
    tests = reliability.tests_of_faults()
    numbers = range(1, len(reliability.faults()) + 1)
    assert [number for number in numbers if number not in tests] == []
    assert sorted(tests.keys() - set(numbers)) == []


def test_the_page_is_current() -> None:
    assert reliability.PAGE.read_text() == reliability.describe(), "run make docs"


def test_what_the_page_on_security_refers_to_exists() -> None:
    text = (reliability.ROOT / "docs" / "security.md").read_text()
    names = {
        name
        for path in (reliability.ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)", path.read_text())
    }
    cited = set(re.findall(r"`(test_\w+)`", text))
    assert cited
    assert cited - names == set()
    numbers = {
        int(number)
        for numbers in re.findall(r"faults? ((?:\d+(?:, | and )?)+)", text)
        for number in re.findall(r"\d+", numbers)
    }
    assert numbers
    assert numbers <= set(range(1, len(reliability.faults()) + 1))
