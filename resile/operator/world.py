"""The operator's informers: the caches of jobs, their pods, and the Kubernetes nodes.

Three reflectors, with the indexes and queries that reconcilers need.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from resile.operator.departed import Departed
from resile.operator.reflector import Reflector
from resile.platform.kubernetes.client import KubeClient
from resile.platform.kubernetes.facts import kept_of_pod
from resile.platform.kubernetes.kinds import ELASTIC_JOBS, NODES, PODS, Key, KubeObject, key_of
from resile.platform.kubernetes.labels import COMPONENT, JOB, MASTER, NODE, job_of
from resile.platform.kubernetes.machines import Machines, machine_state, readiness_alone
from resile.platform.kubernetes.observing import owned_by

__all__ = ["Key", "World"]


@dataclass(frozen=True)
class World:
    """The caches of one operator."""

    jobs: Reflector
    pods: Reflector
    hosts: Reflector
    departed: Departed

    @classmethod
    def watched(
        cls, client: KubeClient, *, namespace: str | None, changed: Callable[[Key], None]
    ) -> World:
        """Create the informers. ``changed`` is called for each job that may have changed."""
        departed = Departed()

        def pod_changed(old: KubeObject | None, new: KubeObject | None) -> None:
            departed.changed(old, new)
            _pod_changed(old, new, changed)

        pods = Reflector(
            client,
            PODS,
            namespace=namespace,
            labels=JOB,
            index=job_of,
            kept=kept_of_pod,
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
                kept=readiness_alone,
                changed=lambda old, new: _host_changed(old, new, pods=pods, changed=changed),
            ),
            departed=departed,
        )

    @property
    def reflectors(self) -> tuple[Reflector, ...]:
        """All reflectors."""
        return (self.jobs, self.pods, self.hosts)

    @property
    def machines(self) -> Machines:
        """The states of the Kubernetes nodes."""
        return Machines(self.hosts.store, read_until=self.hosts.store.resource_version)

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
