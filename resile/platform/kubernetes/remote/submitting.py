"""Giving a job to a cluster, as `kubectl apply` does: it is made, or made to be like the manifest.

Server-side apply with an owner of our own for what a person wrote: what `resile scale`, an
autoscaler or `resile suspend` set meanwhile stays, unless the manifest speaks of it. Everything is
tried without effect first, so that a refusal leaves nothing behind.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import msgspec

from resile.job.spec import ElasticJob
from resile.platform.kubernetes.errors import AlreadyExists, Forbidden, NotFound
from resile.platform.kubernetes.kinds import ELASTIC_JOBS, PODS, KubeObject
from resile.platform.kubernetes.remote.cluster import Cluster, unknown_kind
from resile.platform.kubernetes.remote.errors import NotNow
from resile.platform.kubernetes.remote.job import ClusterJob
from resile.platform.kubernetes.remote.seeing import DELETING, is_over, phase_of

__all__ = ["OWNER", "Outcome", "Submission", "submit_job", "validate"]

OWNER = "resile-cli"
"""In whose name the fields of a manifest are applied."""


class Outcome(str, Enum):
    """What came of it."""

    CREATED = "created"
    CONFIGURED = "configured"
    UNCHANGED = "unchanged"


@dataclass(frozen=True)
class Submission:
    """A job that the cluster has, and what that took."""

    job: ClusterJob
    outcome: Outcome


def submit_job(cluster: Cluster, job: ElasticJob) -> Submission:
    """Create the job, or change the one of its name; raises KubeError if it is not taken."""
    return cluster.ask(_submit(cluster, job))


async def _submit(cluster: Cluster, job: ElasticJob) -> Submission:
    client, wish = cluster.client, object_of(job)
    name, namespace = job.metadata.name, job.metadata.namespace
    before: KubeObject | None = None
    try:
        before = await client.get(ELASTIC_JOBS, name, namespace)
        wished = await client.apply(ELASTIC_JOBS, wish, owner=OWNER, dry_run=True)
    except NotFound as error:
        if not error.details.get("name"):
            raise unknown_kind(error) from None
    if before is not None:
        _check_changeable(before, changed=_differs(before, wished))
    after = await client.apply(ELASTIC_JOBS, wish, owner=OWNER)
    if before is None:
        outcome = Outcome.CREATED
    else:
        outcome = Outcome.CONFIGURED if _differs(before, after) else Outcome.UNCHANGED
    return Submission(ClusterJob(cluster, after), outcome)


def object_of(job: ElasticJob) -> KubeObject:
    """The object to create. Its namespace is said even if it is the usual one."""
    data: KubeObject = msgspec.to_builtins(job)
    data["metadata"] = {**data["metadata"], "namespace": job.metadata.namespace}
    return data


def _check_changeable(before: KubeObject, *, changed: bool) -> None:
    name, phase = before["metadata"]["name"], phase_of(before)
    if phase == DELETING:
        raise NotNow(f"the job '{name}' is being deleted; try again when it is gone")
    if changed and is_over(before):
        raise NotNow(
            f"the job '{name}' is over ({phase}) and differs from the manifest; "
            f"'resile delete {name}' makes room for a new one"
        )


def _differs(one: KubeObject, other: KubeObject) -> bool:
    told = ("labels", "annotations")
    return one.get("spec") != other.get("spec") or any(
        (one["metadata"].get(key) or {}) != (other["metadata"].get(key) or {}) for key in told
    )


def validate(cluster: Cluster, objects: list[KubeObject]) -> list[str]:
    """Have the API server judge the job and the pods, without effect; raises what it has against
    them. Returns what it was not asked, and why."""
    return cluster.ask(_validate(cluster, objects))


async def _validate(cluster: Cluster, objects: list[KubeObject]) -> list[str]:
    for obj in objects:
        if obj["kind"] == ELASTIC_JOBS.kind:
            try:
                await cluster.client.apply(ELASTIC_JOBS, obj, owner=OWNER, dry_run=True)
            except NotFound as error:
                raise unknown_kind(error) from None
        elif obj["kind"] == PODS.kind:
            try:
                await cluster.client.create(PODS, obj, dry_run=True)
            except AlreadyExists:
                continue
            except Forbidden as error:
                if "cannot create resource" not in str(error):
                    raise
                return ["the pods were not: you may not create pods there, the operator may"]
    return []
