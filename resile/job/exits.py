"""Exit codes of a node, and the cause of its end.

A platform reports what it saw as a :class:`NodeExit`; :func:`classify` names the cause. Evidence
is weighed in this order: what the platform did to the node (preempted, deleted, lost), then an
out-of-memory kill, then the exit codes that our own agents use on purpose, then signals, then the
program's own code. The order matters: a preempted node usually also shows code 143 or even 0, and
neither is the program's own doing.

Every agent imports this module as it starts, so it imports almost nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum

from resile.system.processes import describe_exit, shell_code

__all__ = [
    "DISRUPTIONS",
    "ExitCause",
    "NodeExit",
    "NodeExitCode",
    "cause_of_reason",
    "classify",
    "describe",
]


class NodeExitCode(IntEnum):
    """The codes a node's agent exits with. A podFailurePolicy may rely on them.

    80 to 85 lie outside the shell's 126 to 165 and outside sysexits' 64 to 78. 81 to 84 are
    reserved: they are recognised, but no agent of this version exits with them.
    """

    COMPLETED = 0
    JOB_FAILED = 1
    """The training failed, for no more specific reason."""

    DRAINED = 80
    """Left on purpose after SIGTERM, with a message to the master."""

    STRAGGLER = 81
    """Much slower than its peers, and asked to leave."""

    BROKEN_NODE = 82
    """The network or health check failed on this node."""

    NO_PROGRESS = 83
    """No training step for too long."""

    FENCED = 84
    """Evicted by the master, and could not rejoin."""

    OUTPUT_LOST = 85
    """The job succeeded, but output could not be written (a full disk). Not used by a node that
    a platform manages: its output does not decide the result of a job."""

    INTERRUPTED = 130
    """Ctrl-C, by the shell's convention 128 + SIGINT."""


class ExitCause(str, Enum):
    """Why a node ended. The values are what status and Events show as the reason."""

    COMPLETED = "Completed"
    ERROR = "Error"
    """The program's own non-zero exit code."""

    CANNOT_RUN = "CannotRun"
    """126 or 127: the command is missing or not executable. A retry cannot help."""

    SIGNAL = "KilledBySignal"
    OUT_OF_MEMORY = "OutOfMemory"
    PREEMPTED = "Preempted"
    DELETED = "Deleted"
    EVICTED = "Evicted"
    NODE_LOST = "NodeLost"
    NEVER_STARTED = "NeverStarted"
    DRAINED = "Drained"
    STRAGGLER = "Straggler"
    BROKEN_NODE = "BrokenNode"
    NO_PROGRESS = "NoProgress"
    FENCED = "Fenced"
    UNKNOWN = "Unknown"


DISRUPTIONS = frozenset(
    {
        ExitCause.PREEMPTED,
        ExitCause.DELETED,
        ExitCause.EVICTED,
        ExitCause.NODE_LOST,
        ExitCause.DRAINED,
    }
)
"""Causes that are not failures: the node was taken away, so no budget is spent."""


@dataclass(frozen=True)
class NodeExit:
    """The end of a node, as the platform saw it."""

    code: int | None = None
    signal: int | None = None
    oom: bool = False
    reason: str = ""
    """The platform's reason: one of ours (``ExitCause`` values) or one of Kubernetes'."""

    message: str = ""

    @property
    def shell_code(self) -> int | None:
        """The code as a shell and Kubernetes show it: 128 + n for signal n."""
        if self.signal is not None:
            return shell_code(-self.signal)
        return None if self.code is None else shell_code(self.code)


_BY_REASON = {
    ExitCause.PREEMPTED.value: ExitCause.PREEMPTED,
    ExitCause.DELETED.value: ExitCause.DELETED,
    ExitCause.EVICTED.value: ExitCause.EVICTED,
    ExitCause.NODE_LOST.value: ExitCause.NODE_LOST,
    ExitCause.NEVER_STARTED.value: ExitCause.NEVER_STARTED,
    ExitCause.CANNOT_RUN.value: ExitCause.CANNOT_RUN,
    ExitCause.OUT_OF_MEMORY.value: ExitCause.OUT_OF_MEMORY,
    # Kubernetes' reasons, from pod.status.reason, container states and DisruptionTarget conditions.
    "Preempting": ExitCause.PREEMPTED,
    "PreemptionByScheduler": ExitCause.PREEMPTED,
    "PreemptionByKubeScheduler": ExitCause.PREEMPTED,
    "EvictionByEvictionAPI": ExitCause.EVICTED,
    "TerminationByKubelet": ExitCause.EVICTED,
    "DeletionByTaintManager": ExitCause.NODE_LOST,
    "DeletionByPodGC": ExitCause.NODE_LOST,
    "Shutdown": ExitCause.NODE_LOST,
    "NodeShutdown": ExitCause.NODE_LOST,
    "Terminated": ExitCause.NODE_LOST,
    "UnexpectedAdmissionError": ExitCause.NEVER_STARTED,
    "NodeAffinity": ExitCause.NEVER_STARTED,
    "NodePorts": ExitCause.NEVER_STARTED,
    "TopologyAffinityError": ExitCause.NEVER_STARTED,
    "ContainerCannotRun": ExitCause.CANNOT_RUN,
    "StartError": ExitCause.CANNOT_RUN,
    "OOMKilled": ExitCause.OUT_OF_MEMORY,
}
_NO_ROOM_FOR = "OutOf"
"""The prefix of a kubelet's reasons to refuse a pod: OutOfcpu, OutOfpods, OutOfnvidia.com/gpu."""

_BY_CODE = {
    NodeExitCode.COMPLETED: ExitCause.COMPLETED,
    NodeExitCode.DRAINED: ExitCause.DRAINED,
    NodeExitCode.STRAGGLER: ExitCause.STRAGGLER,
    NodeExitCode.BROKEN_NODE: ExitCause.BROKEN_NODE,
    NodeExitCode.NO_PROGRESS: ExitCause.NO_PROGRESS,
    NodeExitCode.FENCED: ExitCause.FENCED,
    126: ExitCause.CANNOT_RUN,
    127: ExitCause.CANNOT_RUN,
}
_LAST_SIGNAL = 64


def cause_of_reason(reason: str) -> ExitCause | None:
    """The cause that a platform's reason stands for, if any."""
    if reason in _BY_REASON:
        return _BY_REASON[reason]
    return ExitCause.NEVER_STARTED if reason.startswith(_NO_ROOM_FOR) else None


def classify(end: NodeExit) -> ExitCause:
    """Name the cause of an end."""
    if (named := cause_of_reason(end.reason)) is not None:
        return named
    if end.oom:
        return ExitCause.OUT_OF_MEMORY
    code = end.shell_code
    if code is None:
        return ExitCause.UNKNOWN
    if code in _BY_CODE:
        return _BY_CODE[code]
    if 128 < code <= 128 + _LAST_SIGNAL:
        return ExitCause.SIGNAL
    return ExitCause.ERROR


_WORDS = {
    ExitCause.COMPLETED: "completed",
    ExitCause.OUT_OF_MEMORY: "ran out of memory",
    ExitCause.PREEMPTED: "was preempted",
    ExitCause.DELETED: "was deleted",
    ExitCause.EVICTED: "was evicted",
    ExitCause.NODE_LOST: "was lost with its machine",
    ExitCause.NEVER_STARTED: "could not be started",
    ExitCause.DRAINED: "left on purpose after SIGTERM",
    ExitCause.STRAGGLER: "was much slower than its peers and left",
    ExitCause.BROKEN_NODE: "failed its health check and left",
    ExitCause.NO_PROGRESS: "made no progress and left",
    ExitCause.FENCED: "was evicted by the master and could not rejoin",
    ExitCause.UNKNOWN: "ended for an unknown reason",
}


def describe(end: NodeExit) -> str:
    """The end as the predicate of a sentence: "exited with code 3"."""
    cause = classify(end)
    code = end.shell_code
    if cause is ExitCause.ERROR and code is not None:
        return describe_exit(code)
    if cause is ExitCause.SIGNAL and code is not None:
        return describe_exit(128 - code)
    if cause is ExitCause.CANNOT_RUN:
        shown = f" (code {code})" if code is not None else ""
        return f"could not run its command{shown}"
    return _WORDS[cause]
