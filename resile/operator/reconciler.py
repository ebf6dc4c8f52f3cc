"""Which jobs are looked after, and how one is begun with and let go.

Called for one job at a time whenever something of it may have changed; never told what.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime, timezone

from resile.decoding import DecodeError, convert
from resile.job.cluster import managed_elsewhere
from resile.job.compact import unpacked
from resile.job.errors import ManifestError
from resile.job.events import EventKind
from resile.job.manifest import job_from_data
from resile.job.podneeds import kubernetes_problems
from resile.job.spec import ElasticJob
from resile.job.status import JobStatus
from resile.operator.look import Look
from resile.operator.means import Means, StatusRefused
from resile.operator.memory import JobMemory
from resile.operator.refusing import refused_status
from resile.operator.world import Key
from resile.platform.kubernetes.errors import Conflict
from resile.platform.kubernetes.kinds import KubeObject

__all__ = ["Reconciler"]

log = logging.getLogger("resile.operator")

AFTER_A_CONFLICT = 0.5
"""Somebody wrote to the job meanwhile. The watch brings that, and wakes us; should it be late, we
look by ourselves."""


STATUS_AGAIN = 60.0
"""A status that the API server would not take, because the object is too large perhaps, is offered
again: it may have become smaller."""


class Reconciler:
    """Looks after jobs, one look at a time for each."""

    def __init__(self, means: Means) -> None:
        self._means = means
        self._memories: dict[Key, JobMemory] = {}

    async def look_after(self, key: Key) -> float | None:
        """Look at a job. Returns in how many seconds to look again even if nothing happens."""
        raw = self._means.world.jobs.store.get(key)
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
            return await Look(self._means, raw, job=job, before=before, memory=memory).carry_out()
        except Conflict:
            return AFTER_A_CONFLICT
        except StatusRefused as error:
            await self._refuse(raw, before, str(error))
            return STATUS_AGAIN

    async def close(self) -> None:
        """Stop looking after anything; everything stays as it is."""
        await asyncio.gather(*(memory.close() for memory in self._memories.values()))
        self._memories.clear()

    async def _memory(self, key: Key, uid: str) -> JobMemory:
        known = self._memories.get(key)
        if known is None or known.uid != uid:
            await self._forget(key)
            known = self._memories[key] = JobMemory(uid)
        return known

    async def _forget(self, key: Key) -> None:
        memory = self._memories.pop(key, None)
        if memory is not None:
            await memory.close()

    async def _refuse(self, raw: KubeObject, before: JobStatus, why: str) -> None:
        generation = raw["metadata"].get("generation")
        after = refused_status(before, why, generation=generation, now=datetime.now(timezone.utc))
        if after != before:
            await self._means.write(raw, after)
            self._means.teller.tell_job(raw, EventKind.INVALID_SPEC, why)


def _sound_job(raw: KubeObject) -> ElasticJob:
    """The job, if its manifest can be run as pods; raises ManifestError with all problems."""
    job = job_from_data(raw)
    if problems := kubernetes_problems(job):
        raise ManifestError(problems)
    return job


def status_of(raw: KubeObject) -> JobStatus:
    """What was written down last.

    Of one that cannot be read, because a newer operator wrote it perhaps, each part that can be
    still counts: pods say who is there, but nothing else says that a job is over.
    """
    written: KubeObject = raw.get("status") or {}
    try:
        return unpacked(convert(written, JobStatus))
    except DecodeError as error:
        log.warning("the status of %s is read in part: %s", raw["metadata"]["name"], error)
    return unpacked(convert({k: v for k, v in written.items() if _readable({k: v})}, JobStatus))


def _readable(part: KubeObject) -> bool:
    try:
        unpacked(convert(part, JobStatus))
    except DecodeError:
        return False
    return True
