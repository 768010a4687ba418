"""A node reported by an agent: its newest view."""

import dataclasses
from collections import deque

from trntop.catalog import AGENT, CATALOG, Entity
from trntop.core.errors import DecodeError
from trntop.core.model import (
    Frame,
    Inventory,
    NodeView,
    Reading,
    Sample,
    SourceState,
    State,
    Status,
)
from trntop.pipeline.source_buffer import SourceBuffer
from trntop.remote import wire

DELAYS = 30
"""Number of frames whose fastest delivery determines the offset of the node's clock."""
_WORSE = (State.FRESH, State.LATE, State.ENDED, State.STARTING, State.STALE, State.DOWN)


class RemoteNode:
    """One node, from the messages of an agent.

    Times are converted to the local clock: the age of a frame is the time since it arrived.

    Args:
        node: its name here, which can differ from the agent's.
    """

    def __init__(self, node: str) -> None:
        self.node = node
        self._decoder = wire.FrameDecoder(node)
        self._agent_state = SourceBuffer(AGENT)
        self._newest: NodeView | None = None
        self._before: NodeView | None = None
        """The previous view. Kept until readers have released it: freeing those of many nodes at
        once would delay a screen.
        """
        self._waiting: tuple[float, bytes] | None = None
        """The newest frame that is not decoded yet, and its time of arrival."""
        self._is_decoded = False
        """Whether a frame was decoded since the last `view`. The first one is decoded on arrival,
        so that those of many nodes are not all decoded at the same time.
        """
        self._ahead: deque[float] = deque(maxlen=DELAYS)
        self._latest = 0.0
        """The agent's time of the newest frame."""
        self.clock_ahead = 0.0
        """Seconds that the node's clock is ahead; network delay makes it appear behind."""
        self._pair: tuple[Inventory, Inventory, Inventory] | None = None
        """Two inventories, and both joined."""

    @property
    def judge(self) -> str:
        """The aggregator's run that judges the node; empty for none."""
        return self._decoder.judge

    @property
    def received(self) -> float:
        """Time of the newest frame; 0 without one."""
        return self._agent_state.time or 0.0

    def feed(self, reading: Reading) -> None:
        """Adds one message.

        Raises:
            DecodeError: it is not valid, or does not match those before.
        """
        data = reading.data
        head = wire.head(data)
        if head.type != wire.FRAME:
            self._decoder.decode(data)
            return
        if self._waiting is not None:
            self._agent_state.count("readings")  # counted without decoding
        self._waiting = reading.time, data
        if head.time < self._latest:
            self._ahead.clear()  # the node's clock was set back
        self._latest = head.time
        self._ahead.append(head.time - reading.time)
        self.clock_ahead = max(self._ahead)
        if not self._is_decoded:
            self._is_decoded = True
            self._decode_waiting()

    def problem(self, text: str) -> None:
        """Counts a message that could not be decoded; the newest view stays."""
        self._agent_state.count("undecodable")
        self._agent_state.problem = text
        if self._newest is None:
            self._agent_state.declared = Status(self.node, AGENT, State.DOWN, text)

    def status(self, status: Status) -> None:
        """Sets the state of the connection."""
        self._agent_state.declared = status

    def restart(self) -> None:
        """Resets after the stream's clock was set back."""
        self._agent_state.clear()
        self._agent_state.time = None
        self._newest = self._before = self._waiting = None
        self._ahead.clear()

    def end(self, now: float) -> None:
        """The recording has ended; the last values stay."""
        self._decode_waiting()
        state = self._agent_state
        if state.time is not None and now - state.time <= state.stale_after:
            state.declared = Status(self.node, AGENT, State.ENDED, "recording ended")

    def resume(self) -> None:
        """Reverts `end`."""
        self._agent_state.declared = None

    def view(self, now: float, others: NodeView | None = None) -> NodeView:
        """The node at time `now`.

        Args:
            now: the time.
            others: the node by sources other than the agent, to fill gaps.
        """
        view = self._own_view(now)
        if others is None:
            return view
        if self._newest is None:
            # Until the agent reports, the node is what its other sources report.
            sources = (*view.frame.sources, *others.frame.sources)
            return NodeView(others.inventory, dataclasses.replace(others.frame, sources=sources))
        return self._joined(view, others)

    def _own_view(self, now: float) -> NodeView:
        self._decode_waiting()
        self._is_decoded = False
        agent = self._agent_state.state(now)
        newest = self._newest
        if newest is None or agent.state in (State.STALE, State.DOWN, State.STARTING):
            self._release()
            inventory = newest.inventory if newest else Inventory(self.node)
            simulated = newest is not None and newest.frame.simulated
            return NodeView(inventory, Frame(self.node, now, {}, (agent,), simulated))
        frame = newest.frame
        sources = frame.sources
        if agent.state is not State.FRESH:
            sources = tuple(_at_best(source, agent.state) for source in sources)
        reported = next((source for source in sources if source.name == AGENT), None)
        if reported is not None:
            sources = tuple(source for source in sources if source is not reported)
        elif self._decoder.aggregator:
            # The aggregator is up; whether the node is, its own sources show.
            newest_time = max((source.time for source in sources if source.time), default=None)
            reported = dataclasses.replace(agent, time=newest_time)
        current = Frame(
            self.node,
            now,
            frame.columns,
            (_agent(agent, reported), *sources),
            frame.simulated,
            frame.reasons,
            frame.phase,
        )
        return NodeView(newest.inventory, current)

    def _release(self) -> None:
        """Drops the values of outdated frames; only a new frame brings values back."""
        self._before = None
        if self._newest is not None and self._newest.frame.columns:
            inventory, frame = self._newest.inventory, self._newest.frame
            self._newest = NodeView(
                inventory, Frame(self.node, frame.time, {}, (), frame.simulated)
            )

    def _decode_waiting(self) -> None:
        """Decodes the waiting frame; only a valid frame is a sign of life."""
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            return
        time, data = waiting
        try:
            view = self._decoder.decode(data, self.clock_ahead)
        except DecodeError as error:
            self.problem(str(error))
            return
        if view is None:
            return  # its keyframe is missing
        self._agent_state.add(time, Sample(period=self._decoder.period))
        self._before, self._newest = self._newest, view

    def _joined(self, view: NodeView, others: NodeView) -> NodeView:
        """A view with values of other sources where the agent has none."""
        own, other = view.inventory, others.inventory
        if self._pair is None or self._pair[0] is not own or self._pair[1] is not other:
            joined = dataclasses.replace(
                own,
                version=own.version + other.version,
                facts={**other.facts, **own.facts},
                keys={**other.keys, **own.keys},
                links={**other.links, **own.links},
            )
            self._pair = own, other, joined
        inventory = self._pair[2]
        same = {entity for entity in other.keys if inventory.of(entity) == other.of(entity)} | {
            Entity.NODE
        }
        columns = {
            name: values
            for name, values in others.frame.columns.items()
            if CATALOG[name].entity in same
        }
        frame = dataclasses.replace(
            view.frame,
            columns=columns | dict(view.frame.columns),
            sources=(*view.frame.sources, *others.frame.sources),
            reasons={**others.frame.reasons, **view.frame.reasons},
        )
        return NodeView(inventory, frame)


def _at_best(source: SourceState, state: State) -> SourceState:
    """A source of the node; it is not fresh if the agent is not."""
    return source if source.state is not State.FRESH else dataclasses.replace(source, state=state)


def _agent(ours: SourceState, reported: SourceState | None) -> SourceState:
    """The agent as a source; that of an aggregator's own stream from the node, if that is worse.

    It has no period, so that it never counts as a sign of life of a node without data.
    """
    reported = reported or ours
    worst = max(reported, ours, key=lambda source: _WORSE.index(source.state))
    times = [source.time for source in (reported, ours) if source.time is not None]
    reason = worst.reason or ours.reason
    return SourceState(AGENT, worst.state, reason, min(times, default=None), None, ours.counts)
