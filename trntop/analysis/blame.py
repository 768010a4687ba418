"""Who holds a job back.

A synchronous job slows down everywhere at once, so the culprit is found by comparing peers:
a card that sends again what its siblings send once, or the rank that waits least because all
others wait for it. *Nobody stands out* is an answer too.
"""

from dataclasses import dataclass

import numpy as np

from trntop import units
from trntop.catalog import Entity
from trntop.jobs import job_value
from trntop.model import Cluster, Evidence, NodeView

MIN_RETRANSMITS = 0.002
"""Share of packets; below it a card is well, whatever its siblings do."""
RETRANSMITS_OVER_SIBLINGS = 8.0
WAITS_LESS = 0.6
"""A node is suspect when it spends less than this share of the median wait."""
MIN_WAIT = 0.02
"""Share of the step; shorter waits say nothing about anybody."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A node, maybe a part of it, and why."""

    node: str
    component: str | None
    evidence: tuple[Evidence, ...]
    phrase: str
    """For a summary: `EFA card rdmap96s27 on trn-007 retransmits 2.1 %`."""


def suspect(cluster: Cluster, job: str) -> Suspect | None:
    """The node or card that holds `job` back, None when nobody stands out."""
    views = [cluster.nodes[name] for name in cluster.jobs.get(job, ())]
    return _sick_card(views) or _waits_least(views, job)


def _sick_card(views: list[NodeView]) -> Suspect | None:
    cards = [
        (view, str(card), ratio)
        for view in views
        if (ratios := view.frame.columns.get("efa_retransmit_ratio")) is not None
        for card, ratio in zip(view.inventory.of(Entity.EFA), ratios.tolist(), strict=True)
        if ratio == ratio
    ]
    if len(cards) < 2:
        return None
    view, card, worst = max(cards, key=lambda entry: entry[2])
    usual = float(np.median([ratio for _, _, ratio in cards]))
    limit = max(MIN_RETRANSMITS, RETRANSMITS_OVER_SIBLINGS * usual)
    if worst < limit:
        return None
    text = (
        f"card {card} retransmits {units.percent(worst)} of its packets, "
        f"the median card {units.percent(usual)}"
    )
    return Suspect(
        node=view.name,
        component=f"efa:{card}",
        evidence=(Evidence(text, view.name, "efa_retransmit_ratio", worst, limit),),
        phrase=f"EFA card {card} on {view.name} retransmits {units.percent(worst)}",
    )


def _waits_least(views: list[NodeView], job: str) -> Suspect | None:
    waits = [
        (view, wait, step)
        for view in views
        if (wait := job_value(view, job, "job_comm_seconds")) is not None
        and (step := job_value(view, job, "job_step_seconds")) is not None
    ]
    if len(waits) < 3:
        return None
    usual = float(np.median([wait for _, wait, _ in waits]))
    view, least, step = min(waits, key=lambda entry: entry[1])
    limit = WAITS_LESS * usual
    if usual < MIN_WAIT * step or least > limit:
        return None
    text = f"{view.name} waits {least:.2f} s in collectives, the median node {usual:.2f} s"
    return Suspect(
        node=view.name,
        component=None,
        evidence=(Evidence(text, view.name, "job_comm_seconds", least, limit),),
        phrase=f"{view.name} holds the others up (it waits least)",
    )
