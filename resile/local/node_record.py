"""The platform's record of one node, from the order to start it until it is deleted, and the exit
status that is reported when its processes have ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from resile.control.actions import StartNode
from resile.control.observed import UNSCHEDULABLE, ObservedNode
from resile.job.exits import ExitCause, NodeExit
from resile.job.node import NodePhase
from resile.local.capacity import Capacity
from resile.local.limits.node_limits import NodeLimits
from resile.local.placement import Claim
from resile.local.supervisor.process import End, NodeProcess
from resile.system.process_tree import ProcessInfo, descendants

__all__ = [
    "NodeLeaving",
    "LocalNodeRecord",
    "State",
    "node_exit",
    "phase_of",
]


@dataclass(frozen=True)
class NodeLeaving:
    """The stop of a node that the platform has ordered."""

    cause: ExitCause
    """PREEMPTED or DELETED."""

    why: str


def node_exit(end: End, *, leaving: NodeLeaving | None, out_of_memory: str) -> NodeExit:
    """Return the exit status for the controller.

    What the platform did to the node takes precedence over how the node reacted, but not over what
    it had done before. A node that completed has completed, even if one of its helpers was killed
    because of memory.
    """
    killed = end.code is not None and end.code < 0
    code, number = (None, -(end.code or 0)) if killed else (end.code, None)
    oom = bool(out_of_memory) and code != 0
    if leaving is not None and end.stop_ordered:
        reason, message = leaving.cause.value, leaving.why
    elif end.refused:
        reason, message = ExitCause.NEVER_STARTED.value, end.refused
    elif oom:
        reason, message = ExitCause.OUT_OF_MEMORY.value, out_of_memory
    else:
        reason, message = "", ""
    return NodeExit(code=code, signal=number, oom=oom, reason=reason, message=message)


def phase_of(end: NodeExit) -> NodePhase:
    """Return SUCCEEDED or FAILED."""
    completed = end.code == 0 and not end.reason
    return NodePhase.SUCCEEDED if completed else NodePhase.FAILED


STARTING = "Starting"


class State(Enum):
    """The state of a node between the order and its end."""

    WAITING = "waiting"
    """It does not fit yet."""

    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"


@dataclass
class LocalNodeRecord:
    """The record of one node. Its state only moves forward."""

    order: StartNode
    since: int
    state: State = State.WAITING
    waits_for: str = ""
    """The reason why it cannot start yet."""

    leaving: NodeLeaving | None = None
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

    def tree(self, processes: Mapping[int, ProcessInfo]) -> list[ProcessInfo]:
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
