"""Turn the state of a pod into an observed node: the only place that reads Kubernetes' reasons.

In: phase, reason, exit code, signal, conditions, the machine's state. Out: an
:class:`ObservedNode`, whose exit names the cause. What follows from a cause (replaced or not,
budget, memory) is decided in ``relaunch``, as on one machine. ``docs/pods.md`` has the mapping as
a table, which the tests check row by row.

What happened *to* the pod is weighed before how its program reacted: a pod that is taken away
usually also shows code 143, 137 or 80, and 0 if its program handles SIGTERM. But a program that had
completed before its pod was taken away has completed. The API server gives both times to the
second; within the same second the end is taken for the reaction, because programs that handle
SIGTERM end that fast.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from types import MappingProxyType

from resile.control.observed import UNSCHEDULABLE, ObservedNode
from resile.job.exits import ExitCause, NodeExit, cause_of_reason, classify
from resile.job.node import Node, NodePhase

__all__ = [
    "DISRUPTION_TARGET",
    "MachineState",
    "PodCondition",
    "PodSummary",
    "observe_pod",
    "one_line",
    "pending_reason",
]

DISRUPTION_TARGET = "DisruptionTarget"
"""The condition that says why a pod was taken away, on clusters that have it (from 1.26 on)."""

LONGEST_MESSAGE = 300
"""Characters of a pod's message: as much as a person reads, since every node's is in the status. A
termination message may have 4 KB."""

_NO_CONDITIONS: Mapping[str, PodCondition] = MappingProxyType({})


class MachineState(Enum):
    """The state of a pod's machine (a Kubernetes Node), as the API server knows it."""

    READY = "Ready"
    NOT_READY = "NotReady"
    """Reported by its kubelet: pods may keep running there."""

    UNKNOWN = "Unknown"
    """Its kubelet has been silent for too long."""

    GONE = "Gone"
    """The Kubernetes Node was deleted."""

    NONE = "None"
    """The pod is not scheduled yet."""


@dataclass(frozen=True)
class PodCondition:
    """An entry of a pod's ``status.conditions``."""

    status: str
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, kw_only=True)
class PodSummary:
    """The state of one pod and its main container, from the API server."""

    node: Node
    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    conditions: Mapping[str, PodCondition] = field(default_factory=lambda: _NO_CONDITIONS)
    deletion_asked_at: datetime | None = None
    """The time at which its deletion was requested, if it was."""

    waiting: str = ""
    """The reason why the container waits, such as ImagePullBackOff."""

    waiting_message: str = ""
    terminated: str = ""
    """The reason why the container ended, such as OOMKilled; empty while it has not."""

    terminated_message: str = ""
    exit_code: int | None = None
    signal: int | None = None
    host: str = ""
    started_at: datetime | None = None
    ended_at: datetime | None = None
    machine: MachineState = MachineState.NONE
    sidecar_running: bool = False
    """A container other than the main one has not ended."""

    @property
    def deleting(self) -> bool:
        """Return whether it is being deleted."""
        return self.deletion_asked_at is not None

    @property
    def ended(self) -> bool:
        """Return whether its main container, or all of it, has ended."""
        return bool(self.terminated) or self.phase in _ENDED


_LOST = frozenset({MachineState.UNKNOWN, MachineState.GONE})
_ENDED = frozenset({"Succeeded", "Failed"})


def observe_pod(
    facts: PodSummary, *, stop_requested: bool, reachable: bool = False
) -> ObservedNode:
    """The pod as an observed node.

    ``stop_requested``: we requested its deletion. ``reachable``: the job's master hears from its
    agent, so that a machine whose kubelet is silent is not lost.
    """
    if facts.ended:
        return _ended(facts, _exit(facts, stop_requested=stop_requested))
    if facts.machine in _LOST and not reachable:
        return _ended(facts, _lost(facts))
    if facts.deleting and not stop_requested:
        return _ended(facts, _taken_away(facts))
    return _live(facts)


def _live(facts: PodSummary) -> ObservedNode:
    running = facts.phase == "Running"
    reason, message = ("", "") if running else pending_reason(facts)
    if running and facts.machine is MachineState.NOT_READY:
        message = f"its machine {facts.host} is not ready"
    return ObservedNode(
        node=facts.node,
        phase=NodePhase.RUNNING if running else NodePhase.PENDING,
        reason=reason,
        message=message,
        host=facts.host,
        started_at=facts.started_at,
        stopping=facts.deleting,
        ready=running and _is_true(facts, "Ready"),
    )


def _is_true(facts: PodSummary, condition: str) -> bool:
    found = facts.conditions.get(condition)
    return found is not None and found.status == "True"


def pending_reason(facts: PodSummary) -> tuple[str, str]:
    """Return why a pod is pending: a reason, and the rest of a sentence."""
    scheduled = facts.conditions.get("PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        reason = scheduled.reason or UNSCHEDULABLE
        return reason, one_line(scheduled.message) or "no machine has room for it"
    if facts.waiting:
        words = _WAITING.get(facts.waiting, "is waiting to be started")
        detail = f": {one_line(facts.waiting_message)}" if facts.waiting_message else ""
        return facts.waiting, f"{words} ({facts.waiting}){detail}"
    return facts.reason, one_line(facts.message) or "is being started"


_WAITING = {
    "ErrImagePull": "its image cannot be pulled",
    "ImagePullBackOff": "its image cannot be pulled",
    "ErrImageNeverPull": "its image is not on the machine, and must not be pulled",
    "InvalidImageName": "its image has no valid name",
    "CreateContainerConfigError": "its container cannot be set up",
    "CreateContainerError": "its container cannot be created",
    "RunContainerError": "its container cannot be started",
    "ContainerCreating": "its container is being created",
    "PodInitializing": "its init containers are running",
}


def _ended(facts: PodSummary, end: NodeExit) -> ObservedNode:
    done = end.code == 0 and not end.reason
    lingers = _lingers(facts)
    return ObservedNode(
        node=facts.node,
        phase=NodePhase.SUCCEEDED if done else NodePhase.FAILED,
        exit=end,
        host=facts.host,
        started_at=facts.started_at,
        ended_at=facts.ended_at,
        stopping=facts.deleting,
        lingers=lingers,
    )


def _lingers(facts: PodSummary) -> bool:
    """Return whether the program has ended, but a sidecar has not, on a machine that exists."""
    running = facts.sidecar_running and facts.phase not in _ENDED
    return bool(facts.terminated) and running and facts.machine not in _LOST


def _exit(facts: PodSummary, *, stop_requested: bool) -> NodeExit:
    """The end of a pod whose container or phase says that it ended."""
    unsaid = facts.exit_code is None and facts.phase == "Succeeded"
    code = 0 if unsaid else facts.exit_code
    if code == 0 and (stop_requested or not _taken_before_its_end(facts)):
        return NodeExit(code=0)
    taken = _disruption(facts)
    reason = taken.reason or _known(facts.reason) or _known(facts.terminated)
    if not reason and facts.deleting and code in _STOPPED_CODES:
        reason = ExitCause.DELETED.value
    end = NodeExit(
        code=code,
        signal=facts.signal or None,
        oom=facts.terminated == "OOMKilled",
        reason=reason,
    )
    message = facts.message or taken.message
    if not (taken.reason or facts.reason):
        message = facts.terminated_message if classify(end) in _EXPLAINED else ""
    return replace(end, message=one_line(message))


_EXPLAINED = frozenset({ExitCause.ERROR, ExitCause.CANNOT_RUN})
"""Causes that the program's own last output explains best."""


_STOPPED_CODES = frozenset({0, 80, 130, 137, 143})
"""Exit codes of a node that is being deleted: completed, drained, interrupted, killed, ended."""


def _taken_before_its_end(facts: PodSummary) -> bool:
    """Return whether a program may have exited with 0 only because its pod was taken away: it was
    evicted by its machine, or its deletion was requested first."""
    if facts.phase == "Failed" and cause_of_reason(facts.reason) is not None:
        return True
    if facts.deletion_asked_at is None:
        return False
    return facts.ended_at is None or facts.ended_at >= facts.deletion_asked_at


def _lost(facts: PodSummary) -> NodeExit:
    how = "is gone" if facts.machine is MachineState.GONE else "no longer responds"
    return NodeExit(reason=ExitCause.NODE_LOST.value, message=f"{facts.host} {how}")


def _taken_away(facts: PodSummary) -> NodeExit:
    taken = _disruption(facts)
    reason = facts.reason if cause_of_reason(facts.reason) else ExitCause.DELETED.value
    return NodeExit(
        reason=taken.reason or reason,
        message=one_line(facts.message or taken.message),
    )


def _disruption(facts: PodSummary) -> PodCondition:
    """Return why the pod was taken away; without a reason if it was not. An unknown reason still
    means that it was not the program."""
    target = facts.conditions.get(DISRUPTION_TARGET)
    if target is None or target.status != "True":
        return PodCondition("False")
    if cause_of_reason(target.reason) is not None:
        return target
    return replace(target, reason=ExitCause.EVICTED.value, message=target.message or target.reason)


def _known(reason: str) -> str:
    """The reason, unless it says nothing about the cause, such as ``Error``."""
    return "" if reason in ("Error", "Completed", "ContainerStatusUnknown") else reason


def one_line(text: str) -> str:
    """A message of a pod or the API server, short enough for a status. The middle of a long one is
    left out: a scheduler says the most important first, a traceback last."""
    line = " ".join(text.split())
    if len(line) <= LONGEST_MESSAGE:
        return line
    begin = LONGEST_MESSAGE // 3
    end = LONGEST_MESSAGE - begin - len(_LEFT_OUT)
    return f"{line[:begin]}{_LEFT_OUT}{line[-end:]}"


_LEFT_OUT = " … "
