"""Reconcile the objects by which a job's nodes find each other: the ConfigMap with their addresses,
and a Service for each rank where the manifest names them.

The ConfigMap exists only in jobs in which a role has ports, the Services only with
``names.rankService``. A failure does not block the reconciliation of the nodes: it is reported as
an Event and retried.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable

from resile.job.addresses import Addresses, cluster_addresses, has_addresses
from resile.job.events import EventKind
from resile.job.node import LIVE, NodePhase
from resile.job.spec.job import ElasticJob
from resile.job.status import JobStatus
from resile.kube.errors import ApiError
from resile.kube.resources import KubeObject
from resile.operator.child_objects import ChildObjects, ChildUnavailable, Slot
from resile.operator.context import OperatorContext
from resile.operator.master_resources import RECHECK_AFTER
from resile.operator.reconcile_state import EnsuredAddresses, ReconcileState

__all__ = ["AddressReconcile"]


class AddressReconcile:
    """The addresses of one job, in one reconcile."""

    def __init__(
        self, means: OperatorContext, raw: KubeObject, *, job: ElasticJob, memory: ReconcileState
    ) -> None:
        self._context = means
        self._raw = raw
        self._job = job
        self._memory = memory
        uid: str = raw["metadata"]["uid"]
        self._children = ChildObjects(means.client, job, uid=uid, image=means.image)

    def addresses(self, status: JobStatus) -> Addresses | None:
        """The addresses that nodes are given; None in a job without any."""
        return cluster_addresses(self._job, status) if has_addresses(self._job.spec) else None

    @property
    def again(self) -> float | None:
        """Seconds until what failed is retried; None if nothing failed."""
        if not self._memory.addresses_problem:
            return None
        return max(0.0, self._memory.addresses_retry_at - time.monotonic())

    async def ensure(self, status: JobStatus, addresses: Addresses | None) -> None:
        """Ensure the ConfigMap and the Services, before nodes that need them are created."""
        named = self._job.spec.names.rank_service is not None
        if status.finished or self._job.spec.suspend or not (addresses or named):
            return  # no node needs them, and existing ones are deleted with the job
        memory, now = self._memory, time.monotonic()
        ranks = _served(status) if named else frozenset()
        wanted: EnsuredAddresses = (addresses, ranks, self._generation)
        if now < memory.addresses_retry_at and (
            memory.addresses_problem or wanted == memory.ensured_addresses
        ):
            return
        works: list[Awaitable[None]] = []
        if addresses is not None:
            works.append(self._children.ensure_addresses(addresses))
        if named:
            works.append(self._children.ensure_rank_services(ranks, kept=_kept(status)))
        why = " and ".join([said for work in works if (said := await _trouble_with(work))])
        if why and why != memory.addresses_problem:
            self._context.reporter.report_job(self._raw, EventKind.NO_ADDRESSES, why)
        memory.ensured_addresses, memory.addresses_problem = wanted, why
        memory.addresses_retry_at = now + (
            self._context.settings.retry_seconds if why else RECHECK_AFTER
        )

    @property
    def _generation(self) -> int | None:
        generation: int | None = self._raw["metadata"].get("generation")
        return generation


async def _trouble_with(work: Awaitable[None]) -> str:
    """The reason why ``work`` failed; empty if it succeeded."""
    try:
        await work
    except (ApiError, ChildUnavailable) as error:
        return str(error)
    return ""


def _served(status: JobStatus) -> frozenset[Slot]:
    """Ranks that have a node, or are about to get a replacement."""
    waiting = LIVE | {NodePhase.WAITING}
    ranks = (one for one in status.nodes if one.phase in waiting and one.id is not None)
    return frozenset((one.role, one.rank) for one in ranks)


def _kept(status: JobStatus) -> frozenset[Slot]:
    """Ranks that were not scaled away: Services of ended ones stay until the job is deleted."""
    ranks = (one for one in status.nodes if one.phase is not NodePhase.STOPPED)
    return frozenset((one.role, one.rank) for one in ranks)
