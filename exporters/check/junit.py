"""A check as JUnit XML, which continuous integration shows: a test case for each node.

A node that fails is a failure, an inconclusive one is skipped, and warnings are in its output.
Findings that concern all nodes are a case named `all`. The elements are those of the schema
that Jenkins and GitLab read.
"""

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from trntop.check.model import Finding, Outcome
from trntop.check.result import Check

from .groups import titled

_FORBIDDEN = re.compile("[^\\t\\n\\r -\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")
"""What XML 1.0 cannot hold, not even escaped."""


def junit(check: Check) -> bytes:
    """The document, in UTF-8."""
    names = [place.node for place in check.places]
    if any(not one.node for one in check.findings):
        names.append("")
    cases = [_case(name, [one for one in check.findings if one.node == name]) for name in names]
    suite = ElementTree.Element(
        "testsuite",
        name="trntop check",
        tests=str(len(cases)),
        failures=str(sum(case.find("failure") is not None for case in cases)),
        skipped=str(sum(case.find("skipped") is not None for case in cases)),
        errors="0",
        time=f"{check.seconds:.3f}",
    )
    suite.extend(cases)
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    data: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return data + b"\n"


def _case(name: str, findings: Sequence[Finding]) -> ElementTree.Element:
    case = ElementTree.Element("testcase", classname="trntop.check", name=_text(name or "all"))
    for outcome, tag in ((Outcome.FAIL, "failure"), (Outcome.UNKNOWN, "skipped")):
        own = [one for one in findings if one.outcome is outcome]
        # One of these is all that a case may have.
        if own and len(case) == 0:
            found = ElementTree.SubElement(case, tag, message=_text(own[0].sentence(name)))
            found.text = _text("\n".join(map(_line, own)))
    rest = [one for one in findings if one.outcome in (Outcome.WARN, Outcome.PASS)]
    if rest:
        ElementTree.SubElement(case, "system-out").text = _text("\n".join(map(_line, rest)))
    return case


def _line(finding: Finding) -> str:
    step = f" [{finding.next_step}]" if finding.next_step else ""
    return f"{finding.outcome}: {titled(finding.fault, finding.text)}{step}"


def _text(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
