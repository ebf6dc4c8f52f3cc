"""The kinds of event in the life of a job, each with a name and a severity.

Masters, controllers and the operator report the same kinds, so that a dashboard, a filter and
`kubectl get events` can rely on one list. On the wire and in stores a kind is its text, because
readers of another version may not know it.
"""

from __future__ import annotations

from enum import Enum

__all__ = ["EventKind", "Severity", "severity_of"]


class Severity(Enum):
    """The severity of an event: a Warning becomes a Kubernetes Event of type Warning."""

    NORMAL = "Normal"
    NOTICE = "Notice"
    """Nothing is wrong, but the job does not train as before."""

    WARNING = "Warning"


class EventKind(Enum):
    """A kind of event. The value is the reason of a Kubernetes Event."""

    # Nodes, as the master sees them
    NODE_JOINED = "NodeJoined"
    NODE_LEFT = "NodeLeft"
    NODE_LOST = "NodeLost"
    NODE_SILENT = "NodeSilent"
    NODE_DISMISSED = "NodeDismissed"

    # Nodes, as the controller and the platform see them
    NODE_ADOPTED = "Adopted"
    NODE_PENDING = "NodePending"
    NODE_STARTED = "NodeStarted"
    NODE_SUCCEEDED = "NodeSucceeded"
    NODE_RELAUNCHED = "NodeRelaunched"
    NODE_GIVEN_UP = "NodeGivenUp"
    NO_OTHER_HOST = "NoOtherHost"

    # The training
    ROUND_FORMING = "RoundForming"
    ROUND_RUNNING = "RoundRunning"
    WORKERS_FAILED = "WorkersFailed"
    HANDED_OVER = "HandedOver"
    DATASET_BEGUN = "DatasetBegun"
    SHARDS_RETURNED = "ShardsReturned"

    # The job as a whole
    JOB_SUCCEEDED = "JobSucceeded"
    JOB_FAILED = "JobFailed"
    JOB_STOPPED = "JobStopped"
    JOB_CONTINUED = "JobContinued"
    JOB_CHANGED = "JobChanged"
    JOB_SUSPENDED = "JobSuspended"
    JOB_RESUMED = "JobResumed"
    JOB_EXPIRED = "JobExpired"
    GROUP_SUCCEEDED = "GroupSucceeded"
    GROUP_FAILED = "GroupFailed"
    GROUP_STOPPED = "GroupStopped"
    GROUP_RESTARTED = "GroupRestarted"
    SCALING_UP = "ScalingUp"
    SCALING_DOWN = "ScalingDown"
    INVALID_SPEC = "InvalidSpec"
    NO_POD_GROUPS = "NoPodGroups"
    NO_ADDRESSES = "NoAddresses"

    # Its master
    MASTER_STARTED = "MasterStarted"
    MASTER_RETURNED = "MasterReturned"
    NO_MASTER = "NoMaster"

    # The control plane on one machine
    API_LISTENING = "ApiListening"

    # Requests of users
    SCALE_REQUESTED = "ScaleRequested"
    SUSPEND_REQUESTED = "SuspendRequested"
    RESUME_REQUESTED = "ResumeRequested"
    DELETION_REQUESTED = "DeletionRequested"

    @property
    def severity(self) -> Severity:
        """The severity of every event of this kind."""
        if self in _WARNINGS:
            return Severity.WARNING
        return Severity.NOTICE if self in _NOTICES else Severity.NORMAL


_WARNINGS = frozenset(
    {
        EventKind.NODE_LOST,
        EventKind.NODE_RELAUNCHED,
        EventKind.NODE_GIVEN_UP,
        EventKind.NO_OTHER_HOST,
        EventKind.WORKERS_FAILED,
        EventKind.JOB_FAILED,
        EventKind.GROUP_FAILED,
        EventKind.INVALID_SPEC,
        EventKind.NO_POD_GROUPS,
        EventKind.NO_ADDRESSES,
        EventKind.NO_MASTER,
    }
)
_NOTICES = frozenset(
    {
        EventKind.NODE_LEFT,
        EventKind.NODE_SILENT,
        EventKind.NODE_DISMISSED,
        EventKind.NODE_PENDING,
        EventKind.ROUND_FORMING,
        EventKind.JOB_EXPIRED,
        EventKind.JOB_STOPPED,
        EventKind.GROUP_STOPPED,
    }
)


def severity_of(kind: str) -> Severity:
    """The severity of a kind by its text; normal for an unknown kind."""
    try:
        return EventKind(kind).severity
    except ValueError:
        return Severity.NORMAL
