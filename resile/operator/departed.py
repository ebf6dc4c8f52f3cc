"""Recently deleted pods, kept for as long as their nodes could be mistaken for never created.

A job's status records for each node whether its pod was ever seen, and one that was not is ordered
again under its id: the operator may have been killed before it created the pod. But a pod can be
created and deleted between two reconciles, so that no reconcile sees it; and its id may have been
fenced at the master already. So deletions seen by the watch are remembered here, beside the cache
of existing pods.

Pods are distinguished by their uids: of two with one id the second was created from an order that
was out of date when it was given.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from resile.platform.kubernetes.kinds import Key, KubeObject
from resile.platform.kubernetes.labels import job_of, node_of
from resile.platform.kubernetes.observing import owned_by

__all__ = ["Departed"]

KEPT_FOR = 60.0
"""Seconds. An order is given again for ``Policy.unseen_for`` (10 s) at most, after which its rank
gets another id in any case; the rest is for clocks that differ."""


@dataclass(frozen=True)
class _Gone:
    job: Key
    node_id: int
    pod: KubeObject
    at: float


class Departed:
    """The recently deleted pods of all jobs, by job and uid."""

    def __init__(
        self, *, kept_for: float = KEPT_FOR, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._kept_for = kept_for
        self._clock = clock
        self._by_job: dict[Key, dict[str, _Gone]] = {}
        """By the pods' uids."""
        self._in_order: deque[_Gone] = deque()

    def changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        """Handle a change of a pod: ``old`` is None if it was created, ``new`` if deleted."""
        if new is not None:
            self._is_there(new)
        if old is not None and (new is None or _uid(old) != _uid(new)):
            self._is_gone(old)
        self._forget()

    def of(self, job: Key, uid: str) -> frozenset[int]:
        """Return the ids of a job's nodes whose pods were deleted, even if others have the ids."""
        self._forget()
        gone = self._by_job.get(job, {}).values()
        return frozenset(one.node_id for one in gone if owned_by(uid, one.pod))

    def _is_there(self, pod: KubeObject) -> None:
        """Forget its deletion: its label was removed and added again, or etcd was restored."""
        if (job := job_of(pod)) is not None:
            self._drop(job, _uid(pod))

    def _is_gone(self, pod: KubeObject) -> None:
        job, node = job_of(pod), node_of(pod)
        if job is not None and node is not None:
            gone = _Gone(job, node.id, pod, self._clock())
            self._by_job.setdefault(job, {})[_uid(pod)] = gone
            self._in_order.append(gone)

    def _forget(self) -> None:
        """Drop entries that are older than ``kept_for``."""
        until = self._clock() - self._kept_for
        while self._in_order and self._in_order[0].at <= until:
            old = self._in_order.popleft()
            if self._by_job.get(old.job, {}).get(_uid(old.pod)) is old:
                self._drop(old.job, _uid(old.pod))

    def _drop(self, job: Key, uid: str) -> None:
        gone = self._by_job.get(job)
        if gone is not None:
            gone.pop(uid, None)
            if not gone:
                del self._by_job[job]


def _uid(pod: KubeObject) -> str:
    uid: str = pod["metadata"]["uid"]
    return uid
