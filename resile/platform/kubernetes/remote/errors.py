"""What can be wrong with a wish about a job of a cluster, beside what the API server says.

KubeError
└── RemoteError
    ├── NoSuchJob      the namespace has no job of that name
    ├── NotNow         the job is in no state for it
    ├── JobEnded       it was waited for, and ended before it came to that
    └── WaitedInVain   it was waited for, and the time is over (a TimeoutError, too)
"""

from __future__ import annotations

from resile.platform.kubernetes.errors import KubeError

__all__ = ["JobEnded", "NoSuchJob", "NotNow", "RemoteError", "WaitedInVain"]


class RemoteError(KubeError):
    """Base of the errors of who looks at a cluster's jobs from outside."""


class NoSuchJob(RemoteError):
    """There is no such job, or not any more. ``others`` are at that ``place`` instead."""

    def __init__(self, message: str, *, place: str = "", others: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.place = place
        self.others = others


class NotNow(RemoteError):
    """The job is over, or being deleted, or cannot be changed that way."""


class JobEnded(RemoteError):
    """The job failed, ended or was deleted before it came to what was waited for."""


class WaitedInVain(RemoteError, TimeoutError):
    """The time given to a wait is over."""
