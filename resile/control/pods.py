"""From a pod to what is decided with: the one place that reads Kubernetes' words for trouble.

Left: phase, reason, exit code, signal, conditions, the machine's state. Right: an
:class:`ObservedNode`, whose exit names the cause; what follows from a cause (another node or not,
budget, memory) is ``relaunch``'s, the same as on one machine. ``docs/pods.md`` shows the whole way
as a table, which the tests walk row by row.

What happened *to* the pod is weighed before what its program did in reply: a pod that is taken away
usually also shows code 143, 137 or 80. But a program that completed has completed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from types import MappingProxyType

from resile.control.observed import UNSCHEDULABLE, ObservedNode
from resile.job.exits import ExitCause, NodeExit, cause_named
from resile.job.node import Node, NodePhase

__all__ = ["DISRUPTION_TARGET", "MachineState", "PodCondition", "PodFacts", "observe_pod"]

DISRUPTION_TARGET = "DisruptionTarget"
"""The condition that says who took a pod away, on clusters that have it (from 1.26 on)."""

_NO_CONDITIONS: Mapping[str, PodCondition] = MappingProxyType({})


class MachineState(Enum):
    """The Kubernetes node below a pod, as the API server knows it."""

    READY = "Ready"
    NOT_READY = "NotReady"
    """Its kubelet says so itself: what runs there may go on running."""

    UNKNOWN = "Unknown"
    """Its kubelet is silent for too long."""

    GONE = "Gone"
    """There is no such Kubernetes node any more."""

    NONE = "None"
    """The pod was not placed yet."""


@dataclass(frozen=True)
class PodCondition:
    """One entry of a pod's ``status.conditions``."""

    status: str
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, kw_only=True)
class PodFacts:
    """What the API server says of one pod and its main container."""

    node: Node
    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    conditions: Mapping[str, PodCondition] = field(default_factory=lambda: _NO_CONDITIONS)
    deleting: bool = False
    """It has a deletionTimestamp."""

    waiting: str = ""
    """Why the container waits, such as ImagePullBackOff."""

    waiting_message: str = ""
    terminated: str = ""
    """How the container ended, such as OOMKilled; empty while it has not."""

    terminated_message: str = ""
    exit_code: int | None = None
    signal: int | None = None
    host: str = ""
    started_at: datetime | None = None
    ended_at: datetime | None = None
    machine: MachineState = MachineState.NONE


_LOST = frozenset({MachineState.UNKNOWN, MachineState.GONE})
_ENDED = {"Succeeded": NodePhase.SUCCEEDED, "Failed": NodePhase.FAILED}


def observe_pod(facts: PodFacts, *, told_to_stop: bool, in_touch: bool = False) -> ObservedNode:
    """The pod as a platform reports it.

    ``told_to_stop``: its deletion is our own doing. ``in_touch``: the job's master hears from its
    agent, so a machine whose kubelet is silent is not lost.
    """
    if facts.terminated or facts.phase in _ENDED:
        return _ended(facts, _exit(facts))
    if facts.machine in _LOST and not in_touch:
        return _ended(facts, _lost(facts))
    if facts.deleting and not told_to_stop:
        return _ended(facts, _taken_away(facts))
    return _live(facts)


def _live(facts: PodFacts) -> ObservedNode:
    running = facts.phase == "Running"
    reason, message = ("", "") if running else _why_pending(facts)
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
    )


def _why_pending(facts: PodFacts) -> tuple[str, str]:
    scheduled = facts.conditions.get("PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        reason = scheduled.reason or UNSCHEDULABLE
        return reason, scheduled.message or "no machine has room for it"
    if facts.waiting:
        words = _WAITING.get(facts.waiting, "waits to be started")
        detail = f": {facts.waiting_message}" if facts.waiting_message else ""
        return facts.waiting, f"{words} ({facts.waiting}){detail}"
    return facts.reason, facts.message or "is being started"


_WAITING = {
    "ErrImagePull": "its image cannot be pulled",
    "ImagePullBackOff": "its image cannot be pulled",
    "ErrImageNeverPull": "its image is not on the machine, and may not be pulled",
    "InvalidImageName": "its image has no valid name",
    "CreateContainerConfigError": "its container cannot be set up",
    "CreateContainerError": "its container cannot be made",
    "RunContainerError": "its container cannot be started",
    "ContainerCreating": "its container is being made",
    "PodInitializing": "its init containers run",
}


def _ended(facts: PodFacts, end: NodeExit) -> ObservedNode:
    done = end.code == 0 and not end.reason
    return ObservedNode(
        node=facts.node,
        phase=NodePhase.SUCCEEDED if done else NodePhase.FAILED,
        exit=end,
        host=facts.host,
        started_at=facts.started_at,
        ended_at=facts.ended_at,
    )


def _exit(facts: PodFacts) -> NodeExit:
    """How a pod ended whose container or phase says that it did."""
    completed = facts.exit_code == 0 or (facts.phase == "Succeeded" and facts.exit_code is None)
    if completed:
        return NodeExit(code=0)
    taken = _disruption(facts)
    reason = taken.reason or _known(facts.reason) or _known(facts.terminated)
    if not reason and facts.deleting and facts.exit_code in _STOPPED_CODES:
        reason = ExitCause.DELETED.value
    told = facts.message or taken.message
    message = told if taken.reason or facts.reason else facts.terminated_message
    return NodeExit(
        code=facts.exit_code,
        signal=facts.signal or None,
        oom=facts.terminated == "OOMKilled",
        reason=reason,
        message=_one_line(message),
    )


_STOPPED_CODES = frozenset({80, 130, 137, 143})
"""What a node that is being deleted ends with: drained, interrupted, killed, ended."""


def _lost(facts: PodFacts) -> NodeExit:
    how = "is gone" if facts.machine is MachineState.GONE else "does not answer any more"
    return NodeExit(reason=ExitCause.NODE_LOST.value, message=f"{facts.host} {how}")


def _taken_away(facts: PodFacts) -> NodeExit:
    taken = _disruption(facts)
    reason = facts.reason if cause_named(facts.reason) else ExitCause.DELETED.value
    return NodeExit(
        reason=taken.reason or reason,
        message=_one_line(facts.message or taken.message),
    )


def _disruption(facts: PodFacts) -> PodCondition:
    """Who took the pod away; without a reason if nobody is known to have. Whoever it was, known or
    not: it was not the program."""
    target = facts.conditions.get(DISRUPTION_TARGET)
    if target is None or target.status != "True":
        return PodCondition("False")
    if cause_named(target.reason) is not None:
        return target
    return replace(target, reason=ExitCause.EVICTED.value, message=target.message or target.reason)


def _known(reason: str) -> str:
    """A word of Kubernetes' that names a cause; ``Error`` and the like do not."""
    return "" if reason in ("Error", "Completed", "ContainerStatusUnknown") else reason


def _one_line(text: str) -> str:
    return " ".join(text.split())
