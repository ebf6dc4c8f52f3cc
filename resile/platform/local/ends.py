"""Turn the end of a node's processes into the exit status that is reported. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from resile.job.exits import ExitCause, NodeExit
from resile.job.node import NodePhase
from resile.platform.local.process import End

__all__ = ["Leaving", "node_exit", "phase_of"]


@dataclass(frozen=True)
class Leaving:
    """A node was told to stop."""

    cause: ExitCause
    """PREEMPTED or DELETED."""

    why: str


def node_exit(end: End, *, leaving: Leaving | None, out_of_memory: str) -> NodeExit:
    """Return the exit status for the controller.

    What the platform did to the node takes precedence over how the node reacted, but not over what
    it had done before. A node that completed has completed, even if one of its helpers was killed
    because of memory.
    """
    killed = end.code is not None and end.code < 0
    code, number = (None, -(end.code or 0)) if killed else (end.code, None)
    oom = bool(out_of_memory) and code != 0
    if leaving is not None and end.told:
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
