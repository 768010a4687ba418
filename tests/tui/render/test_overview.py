"""Header, alert, map and charts: what is read first."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from rich.style import Style

from tests.builders import NOON, make_incident, make_node, make_view, view_of
from tests.tui.render.contexts import CONTEXT, text
from tests.tui.sample_run import DEVICE, EFA_INCIDENT, JOB, VICTIM, view_model
from trntop.core.model import (
    ClusterTotals,
    Compilation,
    Incident,
    Judge,
    Phase,
    Severity,
    Stage,
    State,
    View,
)
from trntop.core.settings import Analysis
from trntop.pipeline.history import History
from trntop.tui.render import alert, fleet_map, header, incidents, trends
from trntop.tui.render.axes import Mark
from trntop.tui.view_model import Mode, ViewModel


def of(view: View, mode: Mode = Mode.LIVE) -> ViewModel:
    return ViewModel(view=view, history=History(60), limits=Analysis(), mode=mode, utc=True)


def style_of(lines: list, word: str) -> Style | None:  # type: ignore[type-arg]
    return next((part.style for line in lines for part in line if word in part.text), None)


class TestHeader:
    def test_what_run_and_how_it_is(self) -> None:
        top, second = text(header.draw(view_model(), 120, CONTEXT)).splitlines()
        assert "trntop  pretrain-13b  16 × trn2.48xlarge" in top
        assert "▶ LIVE 12:00:00" in top
        assert "step 1,204r" in second
        assert "4.31 s r" in second
        assert "971 k tok/s r" in second
        assert "comm 17 % r" in second
        assert "limit 25 %" in second
        assert "exposed 8.2 % r" in second

    def test_where_the_user_is(self) -> None:
        crumbs = ("cluster", "trn-007")
        assert header.draw(view_model(), 120, CONTEXT, crumbs)[0].text.startswith(
            " trntop ▸ cluster ▸ trn-007  pretrain-13b"
        )
        assert header.draw(view_model(), 80, CONTEXT, crumbs)[0].text.startswith(
            " cluster ▸ trn-007  "
        )
        assert header.draw(view_model(), 120, CONTEXT, ("efa",))[0].text.startswith(
            " trntop ▸ efa  "
        )
        long = header.draw(view_model(), 120, CONTEXT, ("n" * 99,))[0]
        assert long.cell_length == 120
        assert "n" * 25 not in long.text

    @pytest.mark.parametrize(
        ("width", "trouble"), [(1, True), (40, True), (80, False), (120, True), (200, False)]
    )
    def test_it_fits(self, width: int, trouble: bool) -> None:
        lines = header.draw(view_model(trouble=trouble), width, CONTEXT)
        assert [line.cell_length for line in lines] == [width, width]

    def test_the_essential_stays_on_a_narrow_screen(self) -> None:
        drawn = text(header.draw(view_model(trouble=True), 60, CONTEXT))
        assert "LIVE" in drawn
        assert "comm 30 %" in drawn

    def test_a_share_over_its_limit_is_a_warning(self) -> None:
        assert (
            style_of(header.draw(view_model(trouble=True), 120, CONTEXT), "30 %")
            == CONTEXT.palette.warning
        )
        assert style_of(header.draw(view_model(), 120, CONTEXT), "17 %") == CONTEXT.palette.text
        shown = dataclasses.replace(
            view_model(trouble=True), limits=Analysis(exposed_comm_share=0.1)
        )
        assert style_of(header.draw(shown, 120, CONTEXT), "18 %") == CONTEXT.palette.warning

    def test_silent_nodes_are_counted(self) -> None:
        assert "◌ 1 stale" in text(header.draw(view_model(trouble=True), 120, CONTEXT))

    @pytest.mark.parametrize(
        ("mode", "shown"),
        [
            (Mode.PLAYING, "▶ PLAY ×1"),
            (Mode.PAUSED, "‖ PAUSED"),
            (Mode.ENDED, "■ ENDED"),
            (Mode.FAILED, "✕ STOPPED"),
            (Mode.WAITING, "… WAITING"),
        ],
    )
    def test_modes(self, mode: Mode, shown: str) -> None:
        assert shown in text(header.draw(view_model(mode=mode), 120, CONTEXT))

    def test_simulated_numbers_are_marked(self) -> None:
        drawn = text(header.draw(of(make_view(simulated=True)), 80, CONTEXT))
        assert "SIMULATED" in drawn
        assert "SIMULATED" not in text(header.draw(of(make_view()), 80, CONTEXT))

    def test_without_a_job_the_fleet_is_summed_up(self) -> None:
        drawn = text(header.draw(of(make_view(jobs=())), 120, CONTEXT))
        assert "utilization 92 % d   TE 34 % d" in drawn
        assert "comm ~3-40 %" in drawn
        assert "no job reports steps" in text(header.draw(of(make_view(jobs=())), 160, CONTEXT))

    def test_a_job_that_reports_no_communication_has_an_estimate(self) -> None:
        columns = {
            "job_comm_seconds": None,
            "node_comm_share_floor_ratio": [0.05],
            "node_comm_share_ceiling_ratio": [0.35],
        }
        drawn = text(header.draw(of(make_view(columns=columns)), 120, CONTEXT))
        assert "comm ~5-35 % limit 25 %" in drawn

    def test_a_job_that_only_logs(self) -> None:
        columns = dict.fromkeys(("job_step_seconds", "job_tokens_per_second"))
        drawn = text(header.draw(of(make_view(columns=columns)), 160, CONTEXT))
        assert "   4.00 s d   3,800 tok/s per device r   comm" in drawn
        assert "loss 2.5r   MFU 38 % r" in drawn

    def test_what_is_absent_has_its_label(self) -> None:
        down = {"steps": State.DOWN, "log": State.DOWN}
        drawn = text(header.draw(of(make_view(states=down)), 120, CONTEXT))
        assert "step –   step time –   tok/s –   comm ~3-40 %" in drawn
        assert "loss" not in drawn

    @pytest.mark.parametrize("width", [80, 120, 200])
    def test_an_unknown_share_has_neither_bar_nor_limit(self, width: int) -> None:
        sources = ("steps", "log", "efa", "tensor-engine", "neuron-monitor")
        down = dict.fromkeys(sources, State.DOWN)
        second = text(header.draw(of(make_view(states=down)), width, CONTEXT)).splitlines()[1]
        assert "comm –   exposed –" in second

    def test_another_time_needs_no_attention(self) -> None:
        for mode, word in ((Mode.PAUSED, "PAUSED"), (Mode.HISTORY, "HISTORY")):
            assert (
                style_of(header.draw(view_model(mode=mode), 120, CONTEXT), word)
                == CONTEXT.palette.aside
            )

    def test_training_for_how_long(self) -> None:
        assert (
            "training 3 h 12 min" in text(header.draw(view_model(), 120, CONTEXT)).splitlines()[0]
        )

    def test_compiling_is_not_idle(self) -> None:
        compiling = make_view(jobs=(), compilation=Compilation(NOON - 90, 2))
        for width in (80, 120):
            top, second = text(header.draw(of(compiling), width, CONTEXT)).splitlines()
            assert "compiling" not in top
            assert second.startswith(
                " compiling d since 11:58:30 · 2 compilers, 12 modules in the cache"
            )

    def test_nodes_at_different_work(self) -> None:
        nodes = [make_node(0), make_node(1), make_node(2, compilation=Compilation(NOON, 1))]
        top = text(header.draw(of(view_of(*nodes)), 120, CONTEXT)).splitlines()[0]
        assert "2 training  1 compiling" in top

    def test_without_anything(self) -> None:
        drawn = text(header.draw(of(make_view(nodes=0), Mode.WAITING), 120, CONTEXT))
        assert "no nodes yet" in drawn
        assert "utilization –" in drawn

    def test_of_several_jobs_the_worst_is_shown(self) -> None:
        calm, worse = make_node(0, jobs=("calm",)), make_node(1, jobs=("worse",))
        columns = dict(worse.frame.columns)
        columns["job_comm_share_ratio"] = columns["job_comm_share_ratio"] + 0.2
        worse = dataclasses.replace(worse, frame=dataclasses.replace(worse.frame, columns=columns))
        assert "worse +1 job" in text(header.draw(of(view_of(calm, worse)), 120, CONTEXT))

    def test_a_stalled_job_is_named_after_its_last_report_is_stale(self) -> None:
        made, phase = make_node(0, jobs=()), Phase(Stage.STALLED, NOON - 100, "no step")
        node = dataclasses.replace(made, frame=dataclasses.replace(made.frame, phase=phase))
        hang = make_incident("hang", job="pretrain-13b", node=node.name)
        shown = of(view_of(node, incidents=[hang]))
        assert "pretrain-13b" not in shown.cluster.jobs
        first, second = (strip.text for strip in header.draw(shown, 120, CONTEXT))
        assert "  pretrain-13b  1 × trn2.48xlarge" in first
        assert "job" not in first.replace("pretrain-13b", "")
        assert "step time –" in second
        assert "reports steps" not in second
        lost = make_incident("device_lost", job="pretrain-13b", node=node.name)
        assert (
            incidents.consequence(of(view_of(node, incidents=[lost])), lost)
            == "training stalled 1 min"
        )

    def test_several_types(self) -> None:
        nodes = [make_node(0), make_node(1, facts={"instance_type": "trn1.32xlarge"})]
        assert "2 nodes, 2 types" in text(header.draw(of(view_of(*nodes)), 120, CONTEXT))
        nodes = [make_node(0, facts={"instance_type": ""})]
        assert "1 node " in text(header.draw(of(view_of(*nodes)), 120, CONTEXT))


class TestAlert:
    def test_calm_is_quiet(self) -> None:
        lines = alert.draw(view_model(), 80, CONTEXT)
        assert text(lines) == " ✓ no incidents"
        assert style_of(lines, "no incidents") == CONTEXT.palette.muted

    def test_the_worst_with_its_cost_in_one_line(self) -> None:
        shown = view_model(trouble=True)
        lines = alert.draw(shown, 132, CONTEXT)
        assert text(lines).startswith(" ● CRITICAL 11:59:16 (44 s)  trn-007 rdmap96s27: 2.1 % re")
        assert "peers 0.0 %) · step +21 %" in text(lines)
        assert text(lines).endswith("+1 more  g go")
        assert "11:59:16  trn-007" in text(alert.draw(shown, 120, CONTEXT)[:1])
        assert [len(alert.draw(shown, width, CONTEXT)) for width in (132, 120, 80)] == [1, 1, 2]

    @pytest.mark.parametrize(
        ("opened", "kind", "cost"),
        [
            (44, "efa_degraded", "step +21 %"),
            (200, "memory_pressure", "step time unchanged"),
            (300, "efa_degraded", ""),
            (4, "efa_degraded", ""),
        ],
        ids=["slower", "as before", "no history before it", "no step since"],
    )
    def test_what_an_incident_costs(self, opened: float, kind: str, cost: str) -> None:
        incident = dataclasses.replace(EFA_INCIDENT, opened_at=NOON - opened, kind=kind)
        assert incidents.consequence(view_model(trouble=opened < 100), incident) == cost

    @pytest.mark.parametrize(
        ("kind", "cost"), [("efa_down", "training stalled 41 s"), ("hang", "")]
    )
    def test_an_incident_that_stops_the_job(self, kind: str, cost: str) -> None:
        made = make_node(7, jobs=(JOB,))
        phase = Phase(Stage.STALLED, NOON - 41, "no step for 46 s")
        view = view_of(
            dataclasses.replace(made, frame=dataclasses.replace(made.frame, phase=phase))
        )
        shown = dataclasses.replace(EFA_INCIDENT, kind=kind)
        assert incidents.consequence(of(view), shown) == cost

    def test_optional_sources_that_never_spoke_do_not_take_the_all_clear(self) -> None:
        made = make_node(0, states={"tensor-engine": State.DOWN}, reason="needs SDK 2.25")
        never = [
            dataclasses.replace(source, time=None) if source.name == "tensor-engine" else source
            for source in made.frame.sources
        ]
        lacking = dataclasses.replace(
            made, frame=dataclasses.replace(made.frame, sources=tuple(never))
        )
        drawn = text(alert.draw(of(view_of(lacking)), 80, CONTEXT))
        assert drawn == " ✓ no incidents"
        assert "needs SDK 2.25" in text(alert.draw(of(view_of(made)), 80, CONTEXT))

    @pytest.mark.parametrize(
        ("cluster", "expected"),
        [
            (
                {"judges": (Judge("http://head:10042", 2, None, 0.0),)},
                " ✓ no incidents  judged by head:10042",
            ),
            (
                {"judges": (Judge("http://head:10042", 2, None, 4.0),)},
                " ✓ no incidents  judged by head:10042  head:10042 is behind by 4 s",
            ),
            (
                {"aggregated": False},
                " ✓ no incidents  "
                "no aggregator: without a dashboard, only single-node rules are evaluated",
            ),
            ({"aggregated": True}, " ✓ no incidents"),
            ({"aggregated": None}, " ✓ no incidents"),
        ],
    )
    def test_the_judge_of_incidents(self, cluster: dict[str, Any], expected: str) -> None:
        view = view_of(make_node(0), make_node(1))
        view = dataclasses.replace(view, cluster=dataclasses.replace(view.cluster, **cluster))
        assert text(alert.draw(of(view), 120, CONTEXT)) == expected

    def test_a_long_reason_ends_with_an_ellipsis(self) -> None:
        down = {"neuron-monitor": State.DOWN}
        for reason, end in (("neuron-monitor: install it", "it"), ("why " * 60, "…")):
            made = make_node(0, states=down, reason=reason)
            drawn = text(alert.draw(of(view_of(made)), 60, CONTEXT))
            assert drawn.count("neuron-monitor") == 1
            assert drawn.rstrip().endswith(end)

    def test_the_worst_silent_source_is_named_and_the_others_counted(self) -> None:
        states = ({"efa": State.STALE}, {"neuron-monitor": State.DOWN}, {"efa": State.STALE})
        for count, more in ((2, "+1 more source "), (3, "+2 more sources ")):
            nodes = [make_node(i, states=states[i], reason="gone") for i in range(count)]
            drawn = text(alert.draw(of(view_of(*nodes)), 90, CONTEXT)) + " "
            assert "trn-001 neuron-monitor: gone" in drawn
            assert more in drawn

    def test_waiting_and_failure(self) -> None:
        waiting = of(make_view(nodes=0), Mode.WAITING)
        assert "waiting for the first reading" in text(alert.draw(waiting, 80, CONTEXT))
        failed = dataclasses.replace(view_model(mode=Mode.FAILED), failure="KeyError: 'x'")
        assert "collection stopped: KeyError" in text(alert.draw(failed, 80, CONTEXT))

    @pytest.mark.parametrize("width", [1, 10, 30, 80, 200])
    def test_it_fits(self, width: int) -> None:
        for line in alert.draw(view_model(trouble=True), width, CONTEXT):
            assert line.cell_length == width


class TestFleetMap:
    def test_a_cell_per_device(self) -> None:
        lines = fleet_map.draw(view_model(), 118, 6, CONTEXT)
        assert len(lines) == 2
        assert text(lines).count("▆") == 16 * 8
        assert text(fleet_map.draw(view_model(nodes=8), 118, 6, CONTEXT)).count("▆") == 8 * 16

    @pytest.mark.parametrize(
        ("nodes", "width", "height", "of_what"),
        [
            (8, 118, 6, "each device"), (16, 118, 6, "2 devices each"),
            (16, 80, 3, "4 devices each"), (64, 118, 4, "each node"),
            (1000, 118, 12, "each node"), (1000, 118, 3, "3 nodes each"),
        ],
    )  # fmt: skip
    def test_what_a_cell_is(self, nodes: int, width: int, height: int, of_what: str) -> None:
        assert fleet_map.grain(view_model(nodes=nodes), width, height).title == of_what

    def test_wider_cells_where_they_cost_no_line(self) -> None:
        few = of(make_view(nodes=2, devices=2))
        assert text(fleet_map.draw(few, 118, 6, CONTEXT)).count("▆") == 2 * 2 * 4

    def test_a_named_cell_per_node(self) -> None:
        lines = fleet_map.draw(view_model(nodes=64), 118, 4, CONTEXT)
        assert len(lines) == 4
        assert "063 ▆" in text(lines)

    @pytest.mark.parametrize(("nodes", "width", "height"), [(300, 80, 2), (1000, 118, 4)])
    def test_a_bare_cell_where_there_are_many(self, nodes: int, width: int, height: int) -> None:
        many = of(make_view(nodes=nodes, devices=1, cores_per_device=1, efa=0))
        lines = fleet_map.draw(many, width, height, CONTEXT)
        assert 0 < len(lines) <= height
        assert all(line.cell_length == width for line in lines)

    def test_trouble_is_marked_and_absence_is_no_colour(self) -> None:
        drawn = text(fleet_map.draw(view_model(trouble=True), 118, 6, CONTEXT))
        assert "●007 ▆" in drawn
        assert "◌011 ········" in drawn

    def test_a_group_shows_its_worst(self) -> None:
        nodes = [make_node(index, devices=1, cores_per_device=1, efa=0) for index in range(40)]
        incident = dataclasses.replace(EFA_INCIDENT, node="trn-031")
        crowded = of(view_of(*nodes, incidents=[incident]))
        drawn = text(fleet_map.draw(crowded, 4, 2, CONTEXT))
        assert drawn.count("●") == 1

    def test_nothing_to_draw(self) -> None:
        assert fleet_map.draw(of(make_view(nodes=0)), 80, 4, CONTEXT) == []

    def test_a_color_is_the_difference_from_the_peers(self) -> None:
        nodes = [
            make_node(index, 2, 2, columns={"neuroncore_utilization_ratio": used})
            for index, used in enumerate([[0.98] * 4, [0.98] * 4, [0.98, 0.98, 0.74, 0.74]])
        ]
        (line,) = fleet_map.draw(of(view_of(*nodes)), 118, 6, CONTEXT)
        cells = [part for part in line if "▆" in part.text]
        assert [part.style for part in cells] == [
            CONTEXT.palette.level(level) for level in (0, 0, 0, 0.8)
        ]

    @pytest.mark.parametrize(
        ("kind", "component", "layer", "filled"),
        [
            ("efa_degraded", f"efa:{DEVICE}", "retransmits", 1),
            ("straggler", "core:5", "tensor engines (TE)", 1),
            ("memory_pressure", "device:3", "HBM", 1),
            ("node_silent", None, "utilization", 8),
        ],
    )
    def test_the_faulty_part_is_filled_in_the_layer_of_its_incident(
        self, kind: str, component: str | None, layer: str, filled: int
    ) -> None:
        incident = dataclasses.replace(EFA_INCIDENT, kind=kind, component=component)
        shown = dataclasses.replace(
            view_model(), view=dataclasses.replace(view_model().view, incidents=(incident,))
        )
        chosen = fleet_map.layer_of(shown)
        assert chosen.title == layer
        lines = fleet_map.draw(shown, 118, 6, CONTEXT, chosen)
        fill = CONTEXT.palette.fill(incident.severity)
        cells = [part.text for line in lines for part in line if part.style == fill]
        assert "".join(cells) == "●" * filled

    def test_the_device_of_another_layer_is_not_filled(self) -> None:
        lines = fleet_map.draw(view_model(trouble=True), 118, 6, CONTEXT, fleet_map.LAYERS[0])
        assert not any(part.style == CONTEXT.palette.fill(Severity.CRITICAL) for part in lines[0])

    def test_its_heading_has_a_scale(self) -> None:
        shown, layer = view_model(nodes=64), fleet_map.LAYERS[1]
        heading = fleet_map.heading(shown, layer, 118, 4, CONTEXT)
        scale = "▆" * fleet_map.SCALE_CELLS
        assert (
            heading.plain == f"fleet · tensor engines (TE), each node · as peers {scale} 15 % off"
        )
        colours = [
            span.style.foreground for span in heading.spans if not isinstance(span.style, str)
        ]
        assert len(set(colours)) == fleet_map.SCALE_CELLS
        assert fleet_map.heading(None, layer, 0, 4, CONTEXT).plain == "fleet · tensor engines (TE)"

    def test_what_is_left_out_is_dim(self) -> None:
        chosen = np.arange(16) == 7
        lines = fleet_map.draw(view_model(), 118, 6, CONTEXT, selected=chosen)
        assert style_of(lines, "000") == CONTEXT.palette.dim
        assert style_of(lines, "007") == CONTEXT.palette.muted

    def test_names_lose_what_they_share(self) -> None:
        assert fleet_map.tail_names(["trn-001", "trn-002"]) == ["001", "002"]
        assert fleet_map.tail_names(["a", "b"]) == ["a", "b"]
        assert fleet_map.tail_names(["ip-10-0-1-5.ec2", "ip-10-0-1-51.ec2"]) == ["5.ec2", "51.ec2"]
        assert fleet_map.tail_names(["one"]) == ["one"]


class TestTrends:
    def test_a_backend_without_jobs(self) -> None:
        history = History(60)
        made = make_view(jobs=())
        cluster = dataclasses.replace(made.cluster, whole=ClusterTotals(nodes=3))
        history.append(cluster, {"/node_efa_tx_bytes_per_second": 1e9})
        shown = ViewModel(dataclasses.replace(made, cluster=cluster), history, Analysis())
        titles = [trend.title for trend in trends.cluster_trends(shown)]
        assert titles == ["utilization, mean", "EFA tx, all"]

    def test_side_by_side_on_a_flat_area(self) -> None:
        found = trends.cluster_trends(view_model())
        lines = trends.draw(found, NOON, 116, 6, CONTEXT)
        assert len(lines) == 6
        assert "comm share 17 % r" in lines[0].text
        assert "EFA tx, all" in lines[0].text
        assert lines[-1].text.count("now") == 4

    def test_one_below_the_other_on_a_tall_one(self) -> None:
        lines = trends.draw(trends.cluster_trends(view_model()), NOON, 74, 52, CONTEXT)
        assert text(lines).count("now") == 4
        assert "limit 25 %" in lines[0].text
        assert lines[1].text.startswith(" 50 %┤")

    def test_the_axis_has_the_limit(self) -> None:
        share, *_ = trends.cluster_trends(view_model())
        rows = [row.text for row in trends.draw([share], NOON, 60, 8, CONTEXT)]
        assert rows[0].endswith("limit 25 %")
        assert [row[:5] for row in rows if "┤" in row] == [" 50 %", " 25 %", "    0"]

    def test_a_title_that_is_too_long_is_cut_and_its_number_is_not(self) -> None:
        share, *_ = trends.cluster_trends(view_model())
        named = dataclasses.replace(share, title="a-node-with-a-long-name: comm share")
        head = trends.draw([named], NOON, 27, 6, CONTEXT)[0].text
        assert head.startswith("a-node-with-a-lo")
        assert "… 17 % r" in head

    def test_what_is_older_than_the_chart_does_not_set_its_scale(self) -> None:
        _, step, *_ = trends.cluster_trends(view_model())
        before = np.insert(step.times, 0, NOON - 450), np.insert(step.values, 0, 90.0)
        spiked = dataclasses.replace(step, times=before[0], values=before[1])
        heads = [trends.draw([trend], NOON, 60, 6, CONTEXT)[0].text for trend in (step, spiked)]
        assert heads[0] == heads[1]

    def test_times_are_marked_on_each_axis(self) -> None:
        mark = Mark(NOON - 100, "!", CONTEXT.palette.critical)
        found = trends.cluster_trends(view_model())
        assert trends.draw(found, NOON, 116, 6, CONTEXT, [mark])[-1].text.count("!") == 4

    def test_a_small_area_stays_empty(self) -> None:
        assert trends.draw(trends.cluster_trends(view_model()), NOON, 20, 6, CONTEXT) == []
        assert trends.draw(trends.cluster_trends(view_model()), NOON, 80, 2, CONTEXT) == []

    @pytest.mark.parametrize(("width", "height"), [(26, 20), (60, 6), (118, 3), (200, 55)])
    def test_it_fits(self, width: int, height: int) -> None:
        lines = trends.draw(
            trends.cluster_trends(view_model(trouble=True)), NOON, width, height, CONTEXT
        )
        assert len(lines) <= height
        assert {line.cell_length for line in lines} == {width}

    def test_of_a_node(self) -> None:
        titles = [trend.title for trend in trends.node_trends(view_model(), VICTIM)]
        assert titles == [
            "utilization, mean", "TE, mean", "EFA tx, all", "HBM bandwidth",
            "HBM, fullest device",
        ]  # fmt: skip

    def test_without_a_past(self) -> None:
        bare = of(make_view(jobs=()))
        drawn = text(trends.draw(trends.cluster_trends(bare), NOON, 80, 6, CONTEXT))
        assert "utilization, mean –" in drawn

    def test_a_value_that_went_away_is_not_shown_as_the_newest(self) -> None:
        past = History(60)
        for second, jobs in enumerate([(JOB,), ()]):
            view = make_view(jobs=jobs, time=NOON + second)
            past.append(view.cluster, {f"{JOB}/job_step_seconds": 4.3} if jobs else {})
        now = ViewModel(view=make_view(time=NOON + 1), history=past, limits=Analysis())
        step = next(trend for trend in trends.cluster_trends(now) if trend.title == "step time")
        assert "step time –" in text(trends.draw([step], NOON + 1, 40, 5, CONTEXT))


def test_the_view_model_finds_incidents_by_location() -> None:
    troubled = view_model(trouble=True)
    assert [incident.kind for incident in troubled.by_node[VICTIM]] == ["efa_degraded"]
    assert troubled.states == {State.FRESH: 15, State.STALE: 1}
    assert troubled.has_data
    assert isinstance(troubled.incidents[0], Incident)
