"""The operator's informers: the caches of jobs, their pods, and the Kubernetes nodes.

Three reflectors, with the indexes and queries that reconcilers need, and the recently deleted
pods, kept for as long as their nodes could be mistaken for never created. A job's status records
for each node whether its pod was ever seen, and one that was not is ordered again under its id:
the operator may have been killed before it created the pod. But a pod can be created and deleted
between two reconciles, so that no reconcile sees it; and its id may have been fenced at the
master already. So deletions seen by the watch are remembered. Pods are distinguished by their
uids: of two with one id the second was created from an order that was out of date when it was
given.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from resile.kube.client import KubeClient
from resile.kube.resources import ELASTIC_JOBS, NODES, PODS, Key, KubeObject, key_of
from resile.kube.runtime.reflector import Reflector
from resile.operator.build.labels import COMPONENT, JOB, MASTER, NODE, job_of, node_of
from resile.operator.observe.nodes import NodeStates, machine_state, owned_by, trim_node
from resile.operator.observe.pod_status import trim_pod

__all__ = [
    "DeletedPods",
    "Informers",
    "Key",
]


KEPT_FOR = 60.0
"""Seconds. A start request is repeated for ``Policy.unseen_timeout`` (10 s) at most, after which
its rank gets another id in any case; the rest is for clocks that differ."""


@dataclass(frozen=True)
class _Gone:
    job: Key
    node_id: int
    pod: KubeObject
    at: float


class DeletedPods:
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


@dataclass(frozen=True)
class Informers:
    """The caches of one operator."""

    jobs: Reflector
    pods: Reflector
    hosts: Reflector
    departed: DeletedPods

    @classmethod
    def create(
        cls, client: KubeClient, *, namespace: str | None, changed: Callable[[Key], None]
    ) -> Informers:
        """Create the informers. ``changed`` is called for each job that may have changed."""
        departed = DeletedPods()

        def pod_changed(old: KubeObject | None, new: KubeObject | None) -> None:
            departed.changed(old, new)
            _pod_changed(old, new, changed)

        pods = Reflector(
            client,
            PODS,
            namespace=namespace,
            labels=JOB,
            index=job_of,
            kept=trim_pod,
            changed=pod_changed,
        )
        return cls(
            jobs=Reflector(
                client,
                ELASTIC_JOBS,
                namespace=namespace,
                changed=lambda old, new: changed(key_of(new or old or {})),
            ),
            pods=pods,
            hosts=Reflector(
                client,
                NODES,
                kept=trim_node,
                changed=lambda old, new: _host_changed(old, new, pods=pods, changed=changed),
            ),
            departed=departed,
        )

    @property
    def reflectors(self) -> tuple[Reflector, ...]:
        """All reflectors."""
        return (self.jobs, self.pods, self.hosts)

    @property
    def machines(self) -> NodeStates:
        """The states of the Kubernetes nodes."""
        return NodeStates(self.hosts.store, read_until=self.hosts.store.resource_version)

    def nodes_of(self, key: Key, uid: str) -> list[KubeObject]:
        """Return the pods of a job's nodes."""
        return self._pods_of(key, uid, NODE)

    def masters_of(self, key: Key, uid: str) -> list[KubeObject]:
        """Return the pods of a job's master: one, unless it is being replaced."""
        return self._pods_of(key, uid, MASTER)

    def _pods_of(self, key: Key, uid: str, component: str) -> list[KubeObject]:
        return [
            pod
            for pod in self.pods.by_index(key)
            if pod["metadata"]["labels"].get(COMPONENT) == component and owned_by(uid, pod)
        ]


def _pod_changed(
    old: KubeObject | None, new: KubeObject | None, changed: Callable[[Key], None]
) -> None:
    for pod in (old, new):
        if pod is not None and (job := job_of(pod)) is not None:
            changed(job)


def _host_changed(
    old: KubeObject | None,
    new: KubeObject | None,
    *,
    pods: Reflector,
    changed: Callable[[Key], None],
) -> None:
    """Handle a change of a Kubernetes node. Heartbeats change it several times a minute: only its
    readiness matters."""
    if old is not None and new is not None and machine_state(old) is machine_state(new):
        return
    name = (new or old or {})["metadata"]["name"]
    for pod in pods.store.values():
        if pod["spec"].get("nodeName") == name and (job := job_of(pod)) is not None:
            changed(job)
