"""The view of a job from its object in the API server: the same view as on one machine. Pure.

The operator writes into the status what it decided and what the job's master saw: the round at
once, the nodes' progress and usage every few seconds.
"""

from __future__ import annotations

from typing import Any

import msgspec

from resile.client.cluster.managed_fields import LAST_APPLIED
from resile.client.job import DELETING
from resile.decoding import DecodeError, convert
from resile.job.compact_status import unpacked
from resile.job.errors import ManifestError
from resile.job.manifest.parse import job_from_data
from resile.job.spec.job import ElasticJob
from resile.job.status import ConditionStatus, ConditionType, JobStatus
from resile.job.view import JobView, combine, trainings_in
from resile.kube.resources import KubeObject
from resile.operator.observe.pod_status import parse_time

__all__ = [
    "STATUS_STALE",
    "is_over",
    "parse_job",
    "parse_status",
    "phase_of",
    "status_is_stale",
    "view_of",
]

UNTOUCHED = "the operator has not looked at it yet"
STATUS_STALE = "the operator has not looked at the change yet"


def view_of(raw: KubeObject, *, now: float) -> JobView:
    """Return the full view of a job."""
    metadata, job, status = raw["metadata"], parse_job(raw), parse_status(raw)
    created = parse_time(metadata.get("creationTimestamp"))
    drawn = combine(
        metadata["name"],
        status=status or JobStatus(),
        trainings=trainings_in(status or JobStatus()),
        manifest=_manifest(raw, job),
        requested_sizes=_requested_sizes(job),
        deleting="deletionTimestamp" in metadata,
        created=created.timestamp() if created else 0.0,
        now=now,
    )
    return msgspec.structs.replace(
        drawn,
        status=status,
        message=drawn.message or _trouble(status, job),
        platform="kubernetes",
        namespace=metadata.get("namespace"),
    )


def phase_of(raw: KubeObject) -> str:
    """Return the job's state in one word."""
    if "deletionTimestamp" in raw["metadata"]:
        return DELETING
    return (parse_status(raw) or JobStatus()).phase.value


def is_over(raw: KubeObject) -> bool:
    """Return whether the job has succeeded or failed."""
    status = parse_status(raw)
    return status is not None and status.finished


def status_is_stale(raw: KubeObject) -> bool:
    """Return whether the status is that of an earlier manifest than the current one."""
    status = parse_status(raw)
    if status is None or status.observed_generation is None or status.finished:
        return False  # there is no status yet, or it is final
    return status.observed_generation < int(raw["metadata"].get("generation") or 0)


def parse_job(raw: KubeObject) -> ElasticJob | None:
    """Return the job that an object describes; None if it cannot be decoded."""
    try:
        return job_from_data(_tidy(raw))
    except ManifestError:
        return None


def parse_status(raw: KubeObject) -> JobStatus | None:
    """Return the operator's status; None if there is none yet, or another version wrote it."""
    if not raw.get("status"):
        return None
    try:
        return unpacked(convert(raw["status"], JobStatus))
    except DecodeError:
        return None


def _manifest(raw: KubeObject, job: ElasticJob | None) -> dict[str, Any]:
    """Return the manifest as its author wrote it, as far as that is known."""
    if job is not None:
        data: dict[str, Any] = msgspec.to_builtins(job)
        return data
    tidy = _tidy(raw)
    kept = ("name", "namespace", "labels", "annotations")
    metadata = {name: tidy["metadata"][name] for name in kept if tidy["metadata"].get(name)}
    head = {"apiVersion": raw.get("apiVersion"), "kind": raw.get("kind")}
    return {**head, "metadata": metadata, "spec": raw.get("spec")}


def _tidy(raw: KubeObject) -> KubeObject:
    annotations = raw["metadata"].get("annotations") or {}
    own = {name: text for name, text in annotations.items() if name != LAST_APPLIED}
    metadata = {name: value for name, value in raw["metadata"].items() if name != "annotations"}
    return {**raw, "metadata": {**metadata, "annotations": own} if own else metadata}


def _requested_sizes(job: ElasticJob | None) -> dict[str, int]:
    """Return the size that `kubectl scale`, an autoscaler or `resile scale` requested, by role."""
    role = None if job is None else job.spec.scaled_role()
    if job is None or role is None or job.spec.replicas is None:
        return {}
    return {role: job.spec.replicas}


def _trouble(status: JobStatus | None, job: ElasticJob | None) -> str:
    """Return why the job makes no progress, if the phase alone does not say it."""
    if job is not None and job.spec.managed_elsewhere:
        return f"{job.spec.managed_by} looks after it, not Resile's operator"
    if status is None:
        return UNTOUCHED
    created = status.condition(ConditionType.CREATED)
    refused = created is not None and created.status is ConditionStatus.FALSE
    return created.message if created is not None and refused else ""
