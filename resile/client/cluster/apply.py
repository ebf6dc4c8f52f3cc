"""Apply a job to a cluster, as `kubectl apply` does: create it, or change it to match the manifest.

Server-side apply with a field owner of our own for what a person wrote: what `resile scale`, an
autoscaler or `resile suspend` set meanwhile stays, unless the manifest contains it. A change is
tried in a dry run first, so that a job that is over stays as it was; a new job is simply applied.

Fields that `kubectl apply` wrote are taken over first (``managed_fields``); otherwise they could
never be removed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import msgspec

from resile.client.cluster.cluster import Cluster, unknown_kind
from resile.client.cluster.job import ClusterJob
from resile.client.cluster.job_object import is_over, phase_of
from resile.client.cluster.managed_fields import LAST_APPLIED, migrate_from_kubectl
from resile.client.errors import InvalidState
from resile.client.job import DELETING
from resile.job.spec.job import ElasticJob
from resile.kube.errors import AlreadyExists, Conflict, Forbidden, NotFound
from resile.kube.resources import ELASTIC_JOBS, PODS, KubeObject

__all__ = ["OWNER", "ApplyOutcome", "Submission", "submit_job", "validate"]

OWNER = "resile-cli"
"""The field owner as which manifests are applied."""

ATTEMPTS = 5
"""Attempts to take fields over from kubectl while others write; the same number as kubectl's."""

OF_THE_CONTROLLER = frozenset(
    {
        *("replicas", "nodeUnit", "restartPolicy", "restartBudget", "exitCodes"),
        *("memoryGrowth", "dependsOn", "required"),
    }
)
"""Fields of a role that only the controller reads, so that a change takes effect at once. All
others are part of the nodes' pods."""


class ApplyOutcome(str, Enum):
    """The outcome of a submission."""

    CREATED = "created"
    CONFIGURED = "configured"
    UNCHANGED = "unchanged"


@dataclass(frozen=True)
class Submission:
    """A submitted job, and what was done to it."""

    job: ClusterJob
    outcome: ApplyOutcome
    roles_needing_restart: tuple[str, ...] = ()
    """Roles whose next nodes will differ from the existing ones, because a field that makes up
    their nodes was changed."""


async def submit_job(cluster: Cluster, job: ElasticJob) -> Submission:
    """Create the job, or change the one of its name; raises KubeError if it is refused."""
    client, wish = cluster.client, object_of(job)
    name, namespace = job.metadata.name, job.metadata.namespace
    before: KubeObject | None = None
    try:
        before = await _ours(cluster, name, namespace)
        wished = await client.apply(ELASTIC_JOBS, wish, owner=OWNER, dry_run=True)
    except NotFound as error:
        if not error.details.get("name"):
            raise unknown_kind(error) from None
    if before is not None:
        flags = cluster.flags(namespace)
        _check_changeable(before, changed=_differs(before, wished), flags=flags)
    after = await client.apply(ELASTIC_JOBS, wish, owner=OWNER)
    if before is None:
        return Submission(ClusterJob(cluster, after), ApplyOutcome.CREATED)
    outcome = ApplyOutcome.CONFIGURED if _differs(before, after) else ApplyOutcome.UNCHANGED
    return Submission(
        ClusterJob(cluster, after),
        outcome,
        roles_needing_restart=_roles_needing_restart(before, after),
    )


async def _ours(cluster: Cluster, name: str, namespace: str) -> KubeObject:
    """Return the existing job, with its fields taken over from kubectl and otherwise unchanged."""
    client = cluster.client
    for left in reversed(range(ATTEMPTS)):
        found = await client.get(ELASTIC_JOBS, name, namespace)
        entries = migrate_from_kubectl(found["metadata"].get("managedFields") or [], to=OWNER)
        if entries is None:
            return found
        version = found["metadata"]["resourceVersion"]
        body = {"metadata": {"managedFields": entries, "resourceVersion": version}}
        try:
            return await client.patch(ELASTIC_JOBS, name, body, namespace=namespace)
        except Conflict:
            if not left:
                raise
    raise AssertionError("the last attempt returns or raises")


def object_of(job: ElasticJob) -> KubeObject:
    """Return the object to create, with its namespace even if it is the default one."""
    data: KubeObject = msgspec.to_builtins(job)
    data["metadata"] = {**data["metadata"], "namespace": job.metadata.namespace}
    return data


def _check_changeable(before: KubeObject, *, changed: bool, flags: str) -> None:
    name, phase = before["metadata"]["name"], phase_of(before)
    if phase == DELETING:
        raise InvalidState(f"the job '{name}' is being deleted; try again when it is gone")
    if changed and is_over(before):
        raise InvalidState(
            f"the job '{name}' is over ({phase}) and differs from the manifest; "
            f"'resile delete {name}{flags}' makes room for a new one"
        )


def _differs(one: KubeObject, other: KubeObject) -> bool:
    return one.get("spec") != other.get("spec") or _notes(one) != _notes(other)


def _roles_needing_restart(before: KubeObject, after: KubeObject) -> tuple[str, ...]:
    """Return the roles in both whose nodes differ; new roles have no nodes yet."""
    old, new = (raw["spec"].get("roles") or {} for raw in (before, after))
    return tuple(name for name in new if name in old and _node(old[name]) != _node(new[name]))


def _node(role: KubeObject) -> KubeObject:
    return {name: value for name, value in role.items() if name not in OF_THE_CONTROLLER}


def _notes(raw: KubeObject) -> tuple[KubeObject, KubeObject]:
    annotations = raw["metadata"].get("annotations") or {}
    kept = {name: text for name, text in annotations.items() if name != LAST_APPLIED}
    return raw["metadata"].get("labels") or {}, kept


async def validate(cluster: Cluster, objects: list[KubeObject]) -> list[str]:
    """Have the API server validate the job and the pods in a dry run; raises its refusal.

    Returns what was not validated, and why."""
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
                if not _may_not_create_pods(error):
                    raise
                return ["the pods were not: you may not create pods there, the operator may"]
    return []


def _may_not_create_pods(error: Forbidden) -> bool:
    """Return whether the account lacks the permission. Permissions are checked before the pod is
    read, so the answer is about pods and names none; an admission check names the refused pod."""
    return error.details.get("kind") == PODS.plural and not error.details.get("name")
