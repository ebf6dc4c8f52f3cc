"""A manifest for a cluster: read, checked for what pods need, and given a namespace. Pure.

Problems that only pods have are found after reading, by path; the line is looked up here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from resile.job.errors import ManifestError, Problem
from resile.job.manifest.parse import job_from_data, parse_manifest
from resile.job.manifest.pod_checks import kubernetes_problems
from resile.job.manifest.yaml_text import read_text
from resile.job.spec.job import ElasticJob

__all__ = [
    "ManifestSource",
    "read_data",
    "read_job",
    "read_manifest",
    "renamed",
    "resolve_namespace",
]


@dataclass(frozen=True)
class ManifestSource:
    """A job that can be run as pods, and the namespace in its manifest, if any."""

    job: ElasticJob
    namespace: str | None


def read_manifest(text: str) -> ManifestSource:
    """Read a text; raises ManifestError with every problem, each with its line."""
    job = parse_manifest(text)
    source = read_text(text)
    _check(job, source.lines)
    return ManifestSource(job, _namespace(source.data))


def read_data(data: dict[str, Any]) -> ManifestSource:
    """Read plain data, which has no lines; raises ManifestError."""
    job = job_from_data(data)
    _check(job, {})
    return ManifestSource(job, _namespace(data))


def read_job(job: ElasticJob) -> ManifestSource:
    """Check a job; the namespace ``default`` counts as none; raises ManifestError."""
    _check(job, {})
    namespace = job.metadata.namespace
    return ManifestSource(job, None if namespace == "default" else namespace)


def resolve_namespace(written: ManifestSource, *, asked: str | None, usual: str) -> ElasticJob:
    """Return the job in its namespace: requested, else written, else the context's, as in kubectl.

    Raises ManifestError where two of them differ."""
    if asked is not None and written.namespace not in (None, asked):
        message = f"is {written.namespace}, but namespace {asked} was asked for"
        raise ManifestError([Problem("metadata.namespace", message)])
    return _changed(written.job, "namespace", asked or written.namespace or usual)


def renamed(written: ManifestSource, name: str) -> ManifestSource:
    """Return the job under another name; raises ManifestError if the name is invalid."""
    return ManifestSource(_changed(written.job, "name", name), written.namespace)


def _changed(job: ElasticJob, field: str, value: str) -> ElasticJob:
    data = msgspec.to_builtins(job)
    data["metadata"][field] = value
    return job_from_data(data)


def _namespace(data: Any) -> str | None:
    named: str | None = data["metadata"].get("namespace")
    return named


def _check(job: ElasticJob, lines: dict[str, int]) -> None:
    problems = [
        Problem(found.path, found.message, _line(found.path, lines))
        for found in kubernetes_problems(job)
    ]
    if problems:
        raise ManifestError(problems)


def _line(path: str, lines: dict[str, int]) -> int | None:
    """Return the line of the field, or of the nearest field that would contain it."""
    while path and path not in lines:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return lines.get(path)
