"""The handler of the work queue: reconciles the job with a given key.

Called for one job at a time whenever something of it may have changed, without saying what.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime, timezone

from resile.decoding import DecodeError, convert
from resile.job.compact_status import unpacked
from resile.job.errors import ManifestError
from resile.job.events import EventKind
from resile.job.manifest.parse import job_from_data
from resile.job.manifest.pod_checks import kubernetes_problems
from resile.job.spec.cluster import managed_elsewhere
from resile.job.spec.job import ElasticJob
from resile.job.status import JobStatus
from resile.kube.errors import Conflict
from resile.kube.resources import KubeObject
from resile.operator.context import OperatorContext, StatusRefused
from resile.operator.informers import Key
from resile.operator.job import JobReconcile, invalid_spec_status
from resile.operator.reconcile_state import ReconcileState

__all__ = ["Reconciler"]

log = logging.getLogger("resile.operator")

AFTER_A_CONFLICT = 0.5
"""Seconds. The job was changed concurrently: the watch delivers the change and requeues the job;
this is in case the watch is late."""


STATUS_AGAIN = 60.0
"""Seconds until a status that the API server rejected, for example because the object is too large,
is written again: it may have become smaller."""


class Reconciler:
    """Reconciles jobs, each at most once at a time."""

    def __init__(self, means: OperatorContext) -> None:
        self._context = means
        self._memories: dict[Key, ReconcileState] = {}

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile a job. Returns the seconds until the next reconcile if nothing happens."""
        raw = self._context.world.jobs.store.get(key)
        if raw is None or "deletionTimestamp" in raw["metadata"]:
            await self._forget(key)
            return None
        if managed_elsewhere((raw.get("spec") or {}).get("managedBy")):
            await self._forget(key)
            return None
        before = status_of(raw)
        try:
            job = _sound_job(raw)
        except ManifestError as error:
            await self._refuse(raw, before, str(error))
            return None
        memory = await self._memory(key, raw["metadata"]["uid"])
        try:
            return await JobReconcile(
                self._context, raw, job=job, before=before, memory=memory
            ).run()
        except Conflict:
            return AFTER_A_CONFLICT
        except StatusRefused as error:
            await self._refuse(raw, before, str(error))
            return STATUS_AGAIN

    async def close(self) -> None:
        """Close all connections to masters; jobs and pods stay as they are."""
        await asyncio.gather(*(memory.close() for memory in self._memories.values()))
        self._memories.clear()

    async def _memory(self, key: Key, uid: str) -> ReconcileState:
        known = self._memories.get(key)
        if known is None or known.uid != uid:
            await self._forget(key)
            known = self._memories[key] = ReconcileState(uid)
        return known

    async def _forget(self, key: Key) -> None:
        memory = self._memories.pop(key, None)
        if memory is not None:
            await memory.close()

    async def _refuse(self, raw: KubeObject, before: JobStatus, why: str) -> None:
        generation = raw["metadata"].get("generation")
        after = invalid_spec_status(
            before, why, generation=generation, now=datetime.now(timezone.utc)
        )
        if after != before:
            await self._context.write(raw, after)
            self._context.reporter.report_job(raw, EventKind.INVALID_SPEC, why)


def _sound_job(raw: KubeObject) -> ElasticJob:
    """Return the job if its manifest can be run as pods; raise ManifestError with all problems."""
    job = job_from_data(raw)
    if problems := kubernetes_problems(job):
        raise ManifestError(problems)
    return job


def status_of(raw: KubeObject) -> JobStatus:
    """Return the status that was written last.

    If it cannot be decoded, for example because a newer operator wrote it, each field that can be
    is still used: pods show which nodes exist, but only the status says that a job is over.
    """
    written: KubeObject = raw.get("status") or {}
    try:
        return unpacked(convert(written, JobStatus))
    except DecodeError as error:
        name = raw["metadata"]["name"]
        log.warning("fields of the status of %s were ignored: %s", name, error)
    return unpacked(convert({k: v for k, v in written.items() if _readable({k: v})}, JobStatus))


def _readable(part: KubeObject) -> bool:
    try:
        unpacked(convert(part, JobStatus))
    except DecodeError:
        return False
    return True
