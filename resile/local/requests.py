"""The users' requests to a job that runs on this machine: sizes, suspension, deletion.

A request is written to the job's folder before it is answered, so that a `resile up` that is killed
and restarted still knows it. Deletion is not carried over: a user who restarts a job wants it.

JobRequestRefused
├── InvalidRequest   a role that does not exist, or a size it cannot have
└── NotNow           the job has not begun, is over or being deleted
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from resile.job.events import EventKind
from resile.job.spec.job import ElasticJob
from resile.local.jobdir import JobDir, Requests

__all__ = ["InvalidRequest", "NotNow", "RequestBook", "JobRequestRefused"]


class JobRequestRefused(Exception):
    """Base of all refusals; the text is for the user."""


class InvalidRequest(JobRequestRefused):
    """The role or the size is not one the job can have."""


class NotNow(JobRequestRefused):
    """The job's state does not allow the request."""


class RequestBook:
    """The requests of one job."""

    def __init__(
        self,
        job: ElasticJob,
        folder: JobDir,
        *,
        over: Callable[[], bool],
        changed: Callable[[EventKind, str], None],
    ) -> None:
        """``over``: whether the job is over. ``changed`` is called after each request was stored,
        with the event to record."""
        self._spec = job.spec
        self._folder = folder
        self._over = over
        self._changed = changed
        self.current = Requests()

    def restore(self, earlier: Requests) -> None:
        """Take over the requests of an `up` of this job that was killed, as far as they still fit
        the manifest."""
        sizes = {
            role: size
            for role, size in earlier.sizes.items()
            if not self._spec.why_not_sizes({role: size})
        }
        if sizes:
            self._store(msgspec.structs.replace(self.current, sizes=sizes))
            asked = _listed(sizes)
            self._changed(EventKind.SCALE_REQUESTED, f"{asked}, asked for before 'up' was killed")
        if earlier.suspend is not None:
            self._store(msgspec.structs.replace(self.current, suspend=earlier.suspend))
            what, kind = _suspension(earlier.suspend)
            self._changed(kind, f"{what}, asked for before 'up' was killed")

    def scale(self, sizes: Mapping[str, int]) -> None:
        """Ask for other sizes; all of them or none."""
        self._check("scaled")
        if not sizes:
            raise InvalidRequest("name at least one role and its size, such as worker=3")
        if problem := self._spec.why_not_sizes(sizes):
            raise InvalidRequest(problem)
        self._store(msgspec.structs.replace(self.current, sizes={**self.current.sizes, **sizes}))
        self._changed(EventKind.SCALE_REQUESTED, f"a user asked for {_listed(sizes)}")

    def suspend(self, suspend: bool) -> None:
        """Ask for the job to be suspended, or to continue."""
        what, kind = _suspension(suspend)
        self._check(what)
        if self.current.suspend is not suspend:
            self._store(msgspec.structs.replace(self.current, suspend=suspend))
            self._changed(kind, f"a user asked for the job to be {what}")

    def delete(self) -> None:
        """Ask for the job to be deleted. Idempotent."""
        if not self.current.deleting:
            self._store(msgspec.structs.replace(self.current, deleting=True))
            text = "a user asked for the job to be deleted"
            self._changed(EventKind.DELETION_REQUESTED, text)

    def _check(self, what: str) -> None:
        if self.current.deleting:
            raise NotNow(f"the job is being deleted; it cannot be {what} any more")
        if self._over():
            raise NotNow(f"the job is over; it cannot be {what} any more")

    def _store(self, requests: Requests) -> None:
        self._folder.write_requests(requests)
        self.current = requests


def _listed(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{role}={size}" for role, size in sizes.items())


def _suspension(suspend: bool) -> tuple[str, EventKind]:
    if suspend:
        return "suspended", EventKind.SUSPEND_REQUESTED
    return "resumed", EventKind.RESUME_REQUESTED
