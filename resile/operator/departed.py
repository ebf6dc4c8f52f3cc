"""Nodes whose pods were there and are gone, for as long as somebody may take them for unmade.

A job's status says of each node whether it was ever seen, and one that was not is ordered again
under its id: whoever ordered it may have been killed before it was made. But a pod can be made and
deleted between two looks, so that no look ever sees it; and its id may have fenced it at the master
already. What a watch told is therefore remembered here, beside what there is now.

Pods are told apart by their uids: of two under one id the second was made from an order that was
out of date when it was given.
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
    """Remembers deleted pods of all jobs for a while, by their jobs and uids."""

    def __init__(
        self, *, kept_for: float = KEPT_FOR, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._kept_for = kept_for
        self._clock = clock
        self._by_job: dict[Key, dict[str, _Gone]] = {}
        """By the pods' uids."""
        self._in_order: deque[_Gone] = deque()

    def changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        """Hears of each change of a pod: as it was and as it is, None where it is not there."""
        if new is not None:
            self._is_there(new)
        if old is not None and (new is None or _uid(old) != _uid(new)):
            self._is_gone(old)
        self._forget()

    def of(self, job: Key, uid: str) -> frozenset[int]:
        """Ids of a job's nodes whose pods are gone, whatever else has their ids by now."""
        self._forget()
        gone = self._by_job.get(job, {}).values()
        return frozenset(one.node_id for one in gone if owned_by(uid, one.pod))

    def _is_there(self, pod: KubeObject) -> None:
        """It is back if it was gone: its label was, or the cluster's history goes another way."""
        if (job := job_of(pod)) is not None:
            self._drop(job, _uid(pod))

    def _is_gone(self, pod: KubeObject) -> None:
        job, node = job_of(pod), node_of(pod)
        if job is not None and node is not None:
            gone = _Gone(job, node.id, pod, self._clock())
            self._by_job.setdefault(job, {})[_uid(pod)] = gone
            self._in_order.append(gone)

    def _forget(self) -> None:
        """What is no longer of use to anybody."""
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
