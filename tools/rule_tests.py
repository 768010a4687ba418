"""Writes the Prometheus rules and their unit tests: `python -m tools.rule_tests`.

https://prometheus.io/docs/prometheus/latest/configuration/unit_testing_rules/

For every alert there are cases in which all is healthy, it fires, the series end, the exporter
restarts, and there is no data.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote_plus

from trntop.catalog import METRIC_PREFIX, NEURON_MONITOR
from trntop.cli.rules import rule_groups
from trntop.core.settings import Settings
from trntop.exporters.metrics import exposition
from trntop.exporters.rules.model import HEAD, Alert, Group, Value, rule_file, yaml_text
from trntop.exporters.rules.recording import HELD

FOLDER = Path(__file__).resolve().parents[1] / "deploy" / "prometheus"
RULE_FILE = "trntop.rules.yml"
TEST_FILE = "trntop.tests.yml"
SINCE, LATER = 1_760_000_000, 1_760_000_600
"""Unix seconds at which the incidents of the tests opened."""
NODE = {"job": "trntop", "instance": "trn-001:10042"}
JOB = "pretrain-13b"

_WITH = re.compile(r"\{\{ with \$labels\.(\w+) \}\}(.*?)\{\{ end \}\}")
_LABEL = re.compile(r"\{\{ \$labels\.(\w+) \}\}")
_RANGE = re.compile(r"\{\{ range printf .*?\{\{ end \}\}")

Test = dict[str, Value]
Input = tuple[str, str]
"""A series, and its values in promtool's notation."""


def unit_tests(groups: Sequence[Group]) -> str:
    """The tests of these groups, whose rule file is `RULE_FILE` next to them."""
    alerts = {
        rule.alert: rule for group in groups for rule in group.rules if isinstance(rule, Alert)
    }
    kinds = {
        alerts[f"{name}NoData"].labels["kind"]: (alert, alerts[f"{name}NoData"])
        for name, alert in alerts.items()
        if HELD in alert.expr
    }
    tests = [*_of_incidents(kinds), *_of_watch(alerts), _of_recordings()]
    return HEAD.format("python -m tools.rule_tests") + yaml_text(
        {"rule_files": [RULE_FILE], "evaluation_interval": "1m", "tests": tests}
    )


def series(name: str, **labels: str) -> str:
    """A series by name and labels."""
    return name + exposition.labels(labels.items())


def expanded(template: str, labels: Mapping[str, str], value: str) -> str:
    """What Prometheus makes of the templates of `alerts.py`, and of no others."""
    template = _RANGE.sub("", template)  # the tests have no such series
    template = _WITH.sub(
        lambda found: (
            found[2]
            .replace("{{ . }}", labels[found[1]])
            .replace("{{ . | urlquery }}", quote_plus(labels[found[1]]))
            if labels.get(found[1])
            else ""
        ),
        template,
    )
    template = _LABEL.sub(lambda found: labels.get(found[1], ""), template)
    moment = _moment(value) if value.isdecimal() else value
    for form, made in (
        ("{{ $value }}", value),
        ("{{ $value | humanize }}", value),
        ("{{ $value | humanizeTimestamp }}", moment),
        ('{{ "{{" }}', "{{"),
    ):
        template = template.replace(form, made)
    return template


def _moment(seconds: str) -> str:
    """As `humanizeTimestamp` writes it."""
    return f"{datetime.fromtimestamp(int(seconds), UTC):%Y-%m-%d %H:%M:%S} +0000 UTC"


def _fires(alert: Alert, labels: Mapping[str, str], value: str) -> Value:
    stated = {name: expanded(text, labels, value) for name, text in alert.labels.items()}
    return {
        "exp_labels": {**labels, **stated},
        "exp_annotations": {
            name: expanded(text, {**labels, **stated}, value)
            for name, text in alert.annotations.items()
        },
    }


def _at(minute: int, alert: Alert, *firing: tuple[Mapping[str, str], str]) -> Value:
    """What is expected of an alert then: labels and value of each that fires."""
    return {
        "eval_time": f"{minute}m",
        "alertname": alert.alert,
        "exp_alerts": [_fires(alert, labels, value) for labels, value in firing],
    }


def _test(name: str, inputs: Sequence[Input], *expected: Value) -> Test:
    return {
        "name": name,
        "interval": "1m",
        "input_series": [{"series": series, "values": values} for series, values in inputs],
        "alert_rule_test": list(expected),
    }


def _run(*parts: tuple[object, int]) -> str:
    """Values in promtool's notation, each with the number of minutes it lasts."""
    return " ".join(
        f"_x{minutes}" if value == "_" else f"{value}x{minutes - 1}" if minutes > 1 else str(value)
        for value, minutes in parts
    )


def _exporter(up: str, gauges: str = "") -> list[Input]:
    """An exporter of one node, and the values of its own gauges; `up` by default."""
    return [
        (series("up", **NODE), up),
        (series("trntop_build_info", version="1", python="3", **NODE), gauges or up),
        (series("trntop_nodes", **NODE), gauges or up),
    ]


ALWAYS = _run((1, 60))


def _of_incidents(kinds: Mapping[str, tuple[Alert, Alert]]) -> Iterator[Test]:
    """Of all kinds at once: what holds of one holds of each.

    Args:
        kinds: kind → the alert on it, and the one that it cannot be judged.
    """
    labels = {
        kind: {
            "kind": kind, "severity": "warning", "training_job": JOB, "node": "trn-001",
            "component": "efa:rdmap16s27", "job": NODE["job"],
        }
        for kind in kinds
    }  # fmt: skip

    def counts(*parts: tuple[object, int]) -> list[Input]:
        """The number of incidents that it exports."""
        return [
            (series(f"{METRIC_PREFIX}incidents", kind=kind, **NODE), _run(*parts)) for kind in kinds
        ]

    def incidents(*parts: tuple[object, int], target: Mapping[str, str] = NODE) -> Iterator[Input]:
        """When they last, by the times at which they opened."""
        active = [(value if isinstance(value, str) else 1, minutes) for value, minutes in parts]
        for label in labels.values():
            label_set = {**label, **target}
            yield series(f"{METRIC_PREFIX}incident_active", **label_set), _run(*active)
            opened = series(f"{METRIC_PREFIX}incident_opened_timestamp_seconds", **label_set)
            yield opened, _run(*parts)

    def fire(minute: int, since: int) -> list[Value]:
        return [
            _at(minute, alert, (labels[kind], str(since))) for kind, (alert, _) in kinds.items()
        ]

    def calm(*minutes: int) -> list[Value]:
        return [_at(minute, alert) for minute in minutes for alert, _ in kinds.values()]

    def blind(minute: int) -> list[Value]:
        firing = ({"job": NODE["job"]}, "1")
        return [_at(minute, no_data, firing) for _, no_data in kinds.values()]

    def known(*minutes: int) -> list[Value]:
        return [_at(minute, no_data) for minute in minutes for _, no_data in kinds.values()]

    lost = _exporter(_run((1, 14), (0, 46)), _run((1, 14), ("stale", 1)))
    yield _test("incidents: healthy", [*_exporter(ALWAYS), *counts((0, 60))], *calm(30), *known(30))
    yield _test(
        "incidents: firing",
        [*_exporter(ALWAYS), *counts((0, 5), (1, 55)), *incidents(("_", 5), (SINCE, 55))],
        *calm(4), *fire(5, SINCE), *fire(40, SINCE), *known(40),
    )  # fmt: skip
    yield _test(
        "incidents: stale, for they are over",
        [*_exporter(ALWAYS), *counts((1, 14), (0, 46)), *incidents((SINCE, 14), ("stale", 1))],
        *fire(13, SINCE), *calm(14), *known(30),
    )  # fmt: skip
    yield _test(
        "incidents: stale, for the exporter does not answer: they stand for a while",
        [*lost, *counts((1, 14), ("stale", 1)), *incidents((SINCE, 14), ("stale", 1))],
        *fire(14, SINCE), *fire(28, SINCE), *calm(29), *known(31),
    )  # fmt: skip
    yield _test(
        "incidents: stale, over before the exporter did not answer",
        [
            *lost, *counts((1, 10), (0, 4), ("stale", 1)), *incidents((SINCE, 10), ("stale", 1)),
        ],
        *fire(9, SINCE), *calm(14, 20), *known(31),
    )  # fmt: skip
    yield _test(
        "incidents: reset, the exporter restarts and detects them again",
        [
            *_exporter(_run((1, 10), (0, 1), (1, 49)), _run((1, 10), ("stale", 1), (1, 49))),
            *counts((1, 10), ("stale", 1), (0, 2), (1, 47)),
            *incidents((SINCE, 10), ("stale", 1), ("_", 2), (LATER, 47)),
        ],
        *fire(10, SINCE), *calm(11), *fire(13, LATER), *known(30),
    )  # fmt: skip
    restarts = _run((-3600, 10), ("stale", 1), (11 * 60, 49))
    yield _test(
        "incidents: reset, the exporter reads its past before it shows them again",
        [
            *_exporter(_run((1, 10), (0, 1), (1, 49)), _run((1, 10), ("stale", 1), (1, 49))),
            (series("process_start_time_seconds", **NODE), restarts),
            *counts((1, 10), ("stale", 1), (0, 1), (1, 48)),
            *incidents((SINCE, 10), ("stale", 1), ("_", 1), (SINCE, 48)),
        ],
        *fire(10, SINCE), *fire(11, SINCE), *fire(12, SINCE), *known(30),
    )  # fmt: skip
    aggregator = {"job": NODE["job"], "instance": "head:10044"}
    aggregated = (series("trntop_aggregated", **NODE), _run((0, 10), (1, 20), (0, 30)))
    yield _test(
        "incidents: firing once, though an aggregator and an agent have them",
        [
            *_exporter(ALWAYS), aggregated, *incidents((LATER, 60)),
            *incidents(("_", 10), (SINCE, 20), ("stale", 1), target=aggregator),
        ],
        *fire(9, LATER), *fire(10, SINCE), *fire(29, SINCE), *fire(30, LATER),
    )  # fmt: skip
    yield _test(
        "incidents: healthy, an agent has what its aggregator does not",
        [*_exporter(ALWAYS), aggregated, *incidents((LATER, 60))],
        *fire(9, LATER), *calm(10, 29), *fire(30, LATER),
    )  # fmt: skip
    yield _test("incidents: absent, as all else", [], *calm(30), *known(30))
    yield _test(
        "incidents: absent, for they cannot be judged; then they can",
        [*_exporter(ALWAYS), *counts(("_", 20), (0, 40))],
        *known(14), *blind(15), *known(20), *calm(15),
    )  # fmt: skip
    (up, build, _) = _exporter(ALWAYS)
    yield _test("incidents: absent, where no node is known", [up, build], *known(30), *calm(30))
    yield _test(
        "incidents: absent, then the exporter too",
        _exporter(_run((1, 30), ("stale", 1))),
        *blind(29), *known(30), *calm(30),
    )  # fmt: skip


def _of_watch(alerts: Mapping[str, Alert]) -> Iterator[Test]:
    down, absent, no_node = (alerts[f"Trntop{name}"] for name in ("Down", "Absent", "NoNode"))
    none: tuple[Mapping[str, str], str] = ({}, "1")
    lost: tuple[Mapping[str, str], str] = (NODE, "0")
    gauges = _run((1, 10), ("stale", 1))
    yield _test(
        "the exporter: healthy", _exporter(ALWAYS),
        _at(30, down), _at(30, absent), _at(30, no_node),
    )  # fmt: skip
    yield _test(
        "the exporter: firing, it does not answer",
        _exporter(_run((1, 10), (0, 50)), gauges),
        _at(14, down), _at(15, down, lost), _at(30, absent), _at(30, no_node),
    )  # fmt: skip
    yield _test(
        "the exporter: stale, the target is gone",
        _exporter(gauges),
        _at(14, absent), _at(15, absent, _matched(absent, none)), _at(15, down), _at(15, no_node),
    )  # fmt: skip
    yield _test(
        "the exporter: reset, it restarts",
        _exporter(_run((1, 10), (0, 4), (1, 46)), _run((1, 10), ("stale", 1), ("_", 3), (1, 46))),
        _at(13, down), _at(15, down), _at(20, down), _at(20, absent), _at(20, no_node),
    )  # fmt: skip
    yield _test(
        "the exporter: absent", [],
        _at(30, down), _at(4, absent), _at(5, absent, _matched(absent, none)), _at(30, no_node),
    )  # fmt: skip
    yield _test(
        "a node: absent",
        [(series("up", **NODE), ALWAYS), (series("trntop_nodes", **NODE),
                                          _run((0, 10), (1, 10), (0, 40)))],
        _at(4, no_node), _at(5, no_node, lost), _at(10, no_node), _at(24, no_node),
        _at(25, no_node, lost),
    )  # fmt: skip
    yield from _of_sources(alerts["TrntopSourceDown"])
    yield from _of_dropped(alerts["TrntopSeriesDropped"])
    if "TrntopSlowerThanPeers" in alerts:
        yield from _of_peers(alerts["TrntopSlowerThanPeers"])


def _matched(absent: Alert, firing: tuple[Mapping[str, str], str]) -> tuple[Mapping[str, str], str]:
    """`absent()` has the labels that its selector states with `=`."""
    equal = re.findall(r'(\w+)="([^"]*)"', absent.expr)
    return {**firing[0], **dict(equal)}, firing[1]


def _of_sources(alert: Alert) -> Iterator[Test]:
    def source_series(source: str, *parts: tuple[object, int], is_up: bool = True) -> list[Input]:
        """Whether a source is up, and its age if it was ever up."""
        labels = {"node": "trn-001", "source": source, **NODE}
        ages = [("stale" if value == "stale" else 2, minutes) for value, minutes in parts]
        up = (series("trntop_source_up", **labels), _run(*parts))
        return [up, (series("trntop_source_age_seconds", **labels), _run(*ages))][: 1 + is_up]

    def fires(source: str) -> tuple[Mapping[str, str], str]:
        return {"node": "trn-001", "source": source, **NODE}, "0"

    yield _test("a source: healthy", source_series("efa", (1, 60)), _at(30, alert))
    yield _test(
        "a source: firing, but not for one that may rest or need not be there",
        [
            *source_series("efa", (1, 5), (0, 55)), *source_series("steps", (0, 60)),
            *source_series("pod-resources", (0, 60), is_up=False),
        ],
        _at(14, alert), _at(15, alert, fires("efa")),
    )  # fmt: skip
    yield _test(
        "a source: firing, never heard and yet on every node",
        source_series(NEURON_MONITOR, (0, 60), is_up=False),
        _at(9, alert), _at(10, alert, fires(NEURON_MONITOR)),
    )  # fmt: skip
    yield _test(
        "a source: stale", source_series("efa", (0, 20), ("stale", 1)),
        _at(19, alert, fires("efa")), _at(20, alert),
    )  # fmt: skip
    yield _test(
        "a source: reset, it comes back in time",
        source_series("efa", (0, 8), (1, 2), (0, 8), (1, 40)),
        _at(10, alert), _at(17, alert), _at(30, alert),
    )  # fmt: skip
    yield _test("a source: absent", _exporter(ALWAYS), _at(30, alert))


def _of_dropped(alert: Alert) -> Iterator[Test]:
    labels = {"page": "metrics", **NODE}
    dropped = series("trntop_series_dropped", **labels)
    fires = (labels, "12")
    yield _test("series: healthy", [(dropped, _run((0, 60)))], _at(30, alert))
    yield _test(
        "series: firing", [(dropped, _run((0, 5), (12, 55)))],
        _at(9, alert), _at(10, alert, fires),
    )  # fmt: skip
    yield _test(
        "series: stale", [(dropped, _run((12, 20), ("stale", 1)))],
        _at(19, alert, fires), _at(20, alert),
    )  # fmt: skip
    yield _test(
        "series: reset, fewer again", [(dropped, _run((12, 20), (0, 40)))],
        _at(19, alert, fires), _at(20, alert),
    )  # fmt: skip
    yield _test("series: absent", _exporter(ALWAYS), _at(30, alert))


def _of_peers(alert: Alert) -> Iterator[Test]:
    limit = re.search(r"> ([\d.]+)", alert.expr)
    # How many times as long the slow node takes: more than the limit, whatever that is set to.
    times = (math.ceil(float(limit[1])) if limit else 1) + 0.5
    nodes = [f"trn-{number:03d}" for number in range(4)]

    def run(last: str, exporters: int = 4, first: str = "") -> list[Input]:
        """Four nodes of a job, of which the last computes for `last` seconds."""
        inputs = []
        for number, node in enumerate(nodes):
            label_set = {
                "job": "trntop",
                "instance": f"exporter-{number % exporters}",
                "node": node,
            }
            compute = series(f"{METRIC_PREFIX}job_compute_seconds", training_job=JOB, **label_set)
            inputs.append((series(f"{METRIC_PREFIX}instance_info", **label_set), _run((1, 60))))
            inputs.append((compute, last if node == nodes[-1] else first or _run((2, 60))))
        return inputs

    fires = (
        {"job": "trntop", "instance": "exporter-3", "node": nodes[-1], "training_job": JOB},
        f"{times:g}",
    )
    slower = _run((2, 20), (2 * times, 40))
    yield _test("peers: healthy", run(_run((2, 60))), _at(40, alert))
    yield _test(
        "peers: healthy, always slower than others", run(_run((2 * times, 60))), _at(40, alert)
    )
    yield _test(
        "peers: healthy, all slow down", run(slower, first=slower), _at(30, alert), _at(40, alert)
    )
    ratios = [
        ({"training_job": JOB, "job": "trntop", "instance": f"exporter-{number}", "node": node},
             times if node == nodes[-1] else 1.0)
            for number, node in enumerate(nodes)]  # fmt: skip
    yield {
        **_test("peers: firing", run(slower), _at(24, alert), _at(29, alert, fires)),
        "promql_expr_test": [
            _expression("node", "job_compute_seconds:ratio_to_median", ratios, 29),
            _expression("node", "job_compute_seconds:ratio_to_median_topk", ratios, 30),
            _expression("training_job", "job_compute_seconds:ratio_to_median_max", _job(times), 29),
        ],
    }
    yield _test(
        "peers: no firing where one exporter sees them all and judges itself",
        run(slower, exporters=1), _at(29, alert),
    )  # fmt: skip
    yield _test(
        "peers: stale", run(_run((2, 20), (2 * times, 10), ("stale", 1))),
        _at(29, alert, fires), _at(36, alert),
    )  # fmt: skip
    yield _test(
        "peers: reset, all nodes restart",
        run(_run((2, 20), ("stale", 1), ("_", 5), (2, 34)),
            first=_run((2, 20), ("stale", 1), ("_", 5), (2, 34))),
        _at(22, alert), _at(30, alert), _at(50, alert),
    )  # fmt: skip
    yield _test("peers: absent", _exporter(ALWAYS), _at(30, alert))


def _of_recordings() -> Test:
    """Two nodes, one of which lacks a value of the other, and later restarts."""
    return {
        "name": "recordings: two nodes",
        "interval": "1m",
        "input_series": [
            {"series": series(f"{METRIC_PREFIX}{name}", **labels, **label_set), "values": values}
            for name, labels, both in _TWO_NODES
            for label_set, values in zip(_LABEL_SETS, both, strict=True)
            if values
        ],
        "promql_expr_test": [_expression(*test, 13) for test in _REPORTED],
    }


def _expression(level: str, metric: str, expected: "_Expected", minute: int) -> Value:
    """What is expected of a recorded series then."""
    record = f"{level}:{METRIC_PREFIX}{metric}"
    return {
        "expr": record,
        "eval_time": f"{minute}m",
        "exp_samples": [
            {"labels": series(record, **labels), "value": value} for labels, value in expected
        ],
    }


_LABEL_SETS: tuple[Mapping[str, str], ...] = tuple(
    {"job": "trntop", "instance": f"{node}:10042", "node": node, "provenance": "simulated"}
    for node in ("trn-001", "trn-002")
)
_STEADY = "0+60x40"
_AGAIN = "0+60x10 0+60x30"
"""Restarts after ten minutes: from then on its rate over five is 240 s of 300, never below 0."""


def _gauges(first: object, second: object) -> tuple[str, ...]:
    """Two values that stay; empty for a node that does not report."""
    return tuple("" if value == "" else f"{value}x40" for value in (first, second))


_RUN = {"training_job": JOB}
_TWO_NODES: tuple[tuple[str, Mapping[str, str], tuple[str, ...]], ...] = (
    ("instance_info", {"instance_type": "trn2.48xlarge", "lnc": "2", "simulated": "true"},
     _gauges(1, 1)),
    ("node_phase", {"phase": "training"}, _gauges(1, 1)),
    ("incident_active", {"kind": "hang", "severity": "critical", **_RUN}, _gauges(1, 1)),
    ("node_neuroncores", {}, _gauges(64, 32)),
    ("node_neuroncores_busy", {}, _gauges(48, 24)),
    ("node_neuroncore_utilization_mean_ratio", {}, _gauges(0.5, 1)),
    ("node_neuroncore_utilization_min_ratio", {}, _gauges(0.25, 0.75)),
    ("node_neuroncore_flops_per_second", {}, _gauges(1, 3)),
    ("node_device_memory_used_bytes", {}, _gauges(10, "")),
    ("node_device_memory_total_bytes", {}, _gauges(40, 40)),
    ("node_device_memory_used_max_ratio", {}, _gauges(0.25, "")),
    ("node_hbm_bytes_per_second", {}, _gauges(5, 6)),
    ("node_efa_tx_bytes_per_second", {}, _gauges(10, 30)),
    ("node_efa_rx_bytes_per_second", {}, _gauges(20, 30)),
    ("node_efa_link_bytes_per_second", {}, _gauges(100, 100)),
    ("node_efa_cards", {}, _gauges(16, 15)),
    ("node_efa_cards_expected", {}, _gauges(16, 16)),
    ("node_efa_retransmit_max_ratio", {}, _gauges(0.25, 0.5)),
    ("node_efa_tx_imbalance_ratio", {}, _gauges(0.25, 0.5)),
    ("node_device_latency_p99_seconds", {}, _gauges(2, 4)),
    ("node_devices", {}, _gauges(16, 16)),
    ("node_executions_completed_total", {}, (_STEADY, _AGAIN)),
    ("node_executions_failed_total", {}, ("0x40", "0+15x40")),
    ("efa_tx_bytes_total", {"efa_device": "rdmap0"}, (_STEADY, _AGAIN)),
    ("efa_tx_bytes_total", {"efa_device": "rdmap1"}, (_STEADY, "")),
    ("job_info", _RUN, _gauges(1, 1)),
    ("job_ranks", _RUN, _gauges(3, 1)),
    ("job_step", _RUN, _gauges(119, 120)),
    ("job_step_seconds", _RUN, _gauges(4, 8)),
    ("job_step_seconds", {"training_job": "from-a-log"}, _gauges(4, 8)),
    ("job_compute_seconds", _RUN, _gauges(2, 2)),
    ("job_comm_seconds", _RUN, _gauges(1, 2)),
    ("job_exposed_comm_seconds", _RUN, _gauges(0.5, "")),
    ("job_tokens_per_second", _RUN, _gauges(1000, 1000)),
    ("job_loss", _RUN, _gauges(2, 4)),
    ("job_mfu_ratio", _RUN, _gauges(0.25, 0.75)),
)  # fmt: skip

_Expected = Sequence[tuple[Mapping[str, str], float]]
_WHOLE = {"job": "trntop"}


def _cluster(value: float, **labels: str) -> _Expected:
    return (({**labels, **_WHOLE}, value),)


def _job(value: float) -> _Expected:
    return (({**_RUN, **_WHOLE}, value),)


_REPORTED: tuple[tuple[str, str, _Expected], ...] = (
    ("node", "efa_tx_bytes:rate5m", ((_LABEL_SETS[0], 2), (_LABEL_SETS[1], 0.8))),
    ("node", "node_executions_completed:rate5m", ((_LABEL_SETS[0], 1), (_LABEL_SETS[1], 0.8))),
    ("node", "node_executions_failed:rate5m", ((_LABEL_SETS[0], 0), (_LABEL_SETS[1], 0.25))),
    ("node", "job_compute_seconds:ratio_to_median", ()),
    ("node", "node_efa_retransmit_max_ratio:topk", ((_LABEL_SETS[0], 0.25), (_LABEL_SETS[1], 0.5))),
    ("node", "node_neuroncore_utilization_mean_ratio:bottomk",
     ((_LABEL_SETS[0], 0.5), (_LABEL_SETS[1], 1))),
    ("node", "node_device_memory_used_max_ratio:topk", ((_LABEL_SETS[0], 0.25),)),
    ("cluster", "instance_info:count",
     _cluster(2, instance_type="trn2.48xlarge", simulated="true")),
    ("cluster", "node_phase:count", _cluster(2, phase="training")),
    ("cluster", "incident_active:count", _cluster(2, kind="hang", severity="critical")),
    ("cluster", "node_neuroncores:sum", _cluster(96)),
    ("cluster", "node_neuroncores_busy:sum", _cluster(72)),
    ("cluster", "node_neuroncore_flops_per_second:sum", _cluster(4)),
    ("cluster", "node_device_memory_used_bytes:sum", _cluster(10)),
    ("cluster", "node_device_memory_total_bytes:sum", _cluster(80)),
    ("cluster", "node_hbm_bytes_per_second:sum", _cluster(11)),
    ("cluster", "node_efa_tx_bytes_per_second:sum", _cluster(40)),
    ("cluster", "node_efa_rx_bytes_per_second:sum", _cluster(50)),
    ("cluster", "node_efa_cards:sum", _cluster(31)),
    ("cluster", "node_efa_cards_expected:sum", _cluster(32)),
    ("cluster", "node_devices:sum", _cluster(32)),
    ("cluster", "node_neuroncore_utilization_min_ratio:min", _cluster(0.25)),
    ("cluster", "node_device_memory_used_max_ratio:max", _cluster(0.25)),
    ("cluster", "node_efa_retransmit_max_ratio:max", _cluster(0.5)),
    ("cluster", "node_efa_tx_imbalance_ratio:max", _cluster(0.5)),
    ("cluster", "node_device_latency_p99_seconds:max", _cluster(4)),
    ("cluster", "node_executions_completed:rate5m", _cluster(1.8)),
    ("cluster", "node_executions_failed:rate5m", _cluster(0.25)),
    ("cluster", "node_executions_failed:ratio_rate5m", _cluster(0.25 / 2.05)),
    ("cluster", "neuroncores_busy:ratio", _cluster(0.75)),
    ("cluster", "device_memory_used:ratio", _cluster(0.25)),
    ("cluster", "efa_tx_share:ratio", _cluster(0.2)),
    ("cluster", "neuroncore_utilization:ratio", _cluster(64 / 96)),
    ("training_job", "job_ranks:sum", _job(4)),
    ("training_job", "job_info:count", _job(2)),
    ("training_job", "job_step:max", _job(120)),
    ("training_job", "job_step_seconds:avg",
     (*_job(5), ({"training_job": "from-a-log", **_WHOLE}, 6))),
    ("training_job", "job_step_seconds:max",
     (*_job(8), ({"training_job": "from-a-log", **_WHOLE}, 8))),
    ("training_job", "job_comm_share:ratio", _job(5 / 20)),
    ("training_job", "job_exposed_comm_share:ratio", _job(1.5 / 12)),
    ("training_job", "job_comm_compute:ratio", _job(5 / 8)),
    ("training_job", "job_tokens_per_second:avg", _job(1000)),
    ("training_job", "job_loss:avg", _job(3)),
    ("training_job", "job_mfu_ratio:avg", _job(0.5)),
    ("node", "job_compute_seconds:ratio_to_median_topk", ()),
    ("training_job", "job_compute_seconds:ratio_to_median_max", ()),
)  # fmt: skip
"""What the rules make of it."""


if __name__ == "__main__":
    default = rule_groups(Settings())
    (FOLDER / RULE_FILE).write_text(rule_file(default), "utf-8")
    (FOLDER / TEST_FILE).write_text(unit_tests(default), "utf-8")
