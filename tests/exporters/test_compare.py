"""The two runs of a comparison, as they are printed."""

from trntop.analysis.compare import COST, Comparison, Figure, Side, compare
from trntop.catalog import Provenance
from trntop.core.model import Incident, Severity
from trntop.exporters import compare as exported
from trntop.exporters import document

NOON = 1763640000.0
MEASURED, REPORTED, DERIVED = Provenance.MEASURED, Provenance.REPORTED, Provenance.DERIVED
INCIDENT = Incident(
    "efa-1", "efa_degraded", Severity.CRITICAL, "one device is slow", NOON + 9, node="trn-001"
)

TEXT = """\
A  before.jsonl.zst (SIMULATED)
B  gpu|run.jsonl

                                     A             B  B / A  B is
nodes              4 × trn2.48xlarge       8 nodes
job                     pretrain-13b      bake-off
seen                          10 min    1 min 30 s
step time, median             4.28 s r      5.20 s r  1.21×  worse
step time, p95                4.41 s r      5.25 s r  1.19×  worse
tokens/s                       979 k r       985 k r  1.01×  similar
cost per M tokens             $0.050 d      $0.028 d  0.56×  better
utilization                     98 % d           –
incidents                          1             0           better
  efa_degraded                     1             0           better

r reported, d derived, ~ estimated; – unknown in this run; similar: within 2 %"""

MARKDOWN = """\
# trntop compare

- A: before.jsonl.zst (SIMULATED), from 2025-11-20 12:00:00 UTC
- B: gpu\\|run.jsonl, from 2025-11-20 12:00:00 UTC
"""


def a_side() -> Side:
    return Side(
        "before.jsonl.zst", True, NOON, NOON + 600, 600.0, 4, ("trn2.48xlarge",), "pretrain-13b",
        4,
        {
            "step_seconds_median": Figure(4.28, REPORTED),
            "step_seconds_p95": Figure(4.41, REPORTED),
            "tokens_per_second": Figure(979e3, REPORTED),
            COST: Figure(0.05, DERIVED),
            "utilization": Figure(0.98, DERIVED),
        },
        (INCIDENT,),
        44.0,
    )  # fmt: skip


def b_side() -> Side:
    return Side(
        "gpu|run.jsonl", False, NOON, NOON + 90, 90.0, 8, (), "bake-off", 8,
        {
            "step_seconds_median": Figure(5.20, REPORTED),
            "step_seconds_p95": Figure(5.25, REPORTED),
            "tokens_per_second": Figure(985e3, REPORTED),
            COST: Figure(0.028, DERIVED),
        },
        (),
    )  # fmt: skip


def found() -> Comparison:
    return compare(a_side(), b_side())


def test_text() -> None:
    assert exported.text(found(), 80) == TEXT


def test_a_narrow_terminal_loses_the_ratio_before_the_verdict() -> None:
    shown = exported.text(found(), 62)
    assert "B / A" not in shown.partition("not shown")[0]
    assert "worse" in shown
    assert all(len(line) <= 62 for line in shown.splitlines()[3:-1])


def test_json() -> None:
    shown = exported.document(found())
    assert document.encode(shown)
    figures = {figure["name"]: figure for figure in shown["figures"]}
    assert figures["utilization"] == {
        "name": "utilization",
        "a": {"value": 0.98, "provenance": "simulated"},
        "b": None,
        "ratio": None,
        "b_is": None,
    }
    assert figures[COST]["b"]["provenance"] == "derived"
    assert shown["a"]["incidents"][0]["kind"] == "efa_degraded"
    assert (shown["a"]["price_per_node_hour"], shown["b"]["price_per_node_hour"]) == (44.0, None)
