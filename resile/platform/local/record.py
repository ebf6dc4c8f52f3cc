"""The platform's record of one node, from the order to start it until it is deleted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from resile.control.actions import StartNode
from resile.control.observed import UNSCHEDULABLE, ObservedNode
from resile.job.exits import NodeExit
from resile.job.node import NodePhase
from resile.platform.local.capacity import Capacity
from resile.platform.local.ends import Leaving, phase_of
from resile.platform.local.limits import NodeLimits
from resile.platform.local.placement import Claim
from resile.platform.local.process import NodeProcess
from resile.platform.local.proctree import Seen, descendants

__all__ = ["NodeRecord", "State"]

STARTING = "Starting"


class State(Enum):
    """The state of a node between the order and its end."""

    WAITING = "waiting"
    """It does not fit yet."""

    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"


@dataclass
class NodeRecord:
    """The record of one node. Its state only moves forward."""

    order: StartNode
    since: int
    state: State = State.WAITING
    waits_for: str = ""
    """Why it cannot start yet."""

    leaving: Leaving | None = None
    delete_at_end: bool = False
    out_of_memory: str = ""
    process: NodeProcess | None = None
    limits: NodeLimits = field(default_factory=NodeLimits)
    started_at: datetime | None = None
    ended_at: datetime | None = None
    exit: NodeExit | None = None
    ready: bool = False
    """True once it runs and all its ports have accepted a connection."""

    cpu_seconds: float = 0.0
    """The highest value measured."""

    @property
    def claim(self) -> Claim:
        """Its claim on the capacity."""
        return Claim(
            id=self.order.node.id,
            name=self.order.node.name,
            priority=self.order.priority.value,
            request=Capacity.of(self.order.resources.requests),
            since=self.since,
        )

    @property
    def holds_room(self) -> bool:
        """True if it has, or may have, processes."""
        return self.state in (State.STARTING, State.RUNNING)

    @property
    def is_going(self) -> bool:
        """True if it will end soon and release its capacity."""
        return self.leaving is not None or bool(self.out_of_memory)

    def tree(self, processes: Mapping[int, Seen]) -> list[Seen]:
        """Return its own processes among all."""
        return descendants(self.process.supervisor_pid, processes) if self.process else []

    def observed(self, host: str) -> ObservedNode:
        """Return the node as the controller observes it."""
        return ObservedNode(
            node=self.order.node,
            phase=self._phase(),
            exit=self.exit,
            reason=self._reason(),
            message=self.waits_for if self.state is State.WAITING else "",
            host=host if self.state is not State.WAITING else "",
            started_at=self.started_at,
            ended_at=self.ended_at,
            stopping=self.leaving is not None and self.state is not State.ENDED,
            ready=self.ready and self.state is State.RUNNING,
        )

    def _phase(self) -> NodePhase:
        if self.exit is not None:
            return phase_of(self.exit)
        return NodePhase.RUNNING if self.state is State.RUNNING else NodePhase.PENDING

    def _reason(self) -> str:
        if self.state is State.WAITING:
            return UNSCHEDULABLE
        return STARTING if self.state is State.STARTING else ""
