"""A manifest meant for a cluster: read, checked as pods need it, and given a namespace. Pure.

Problems that only pods have are found after reading, by path; the line is put back here.
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
    """A job that can be run as pods, and the namespace its author wrote, if one."""

    job: ElasticJob
    namespace: str | None


def read_manifest(text: str) -> ManifestSource:
    """Raises ManifestError with every problem, each with its line."""
    job = parse_manifest(text)
    source = read_text(text)
    _check(job, source.lines)
    return ManifestSource(job, _namespace(source.data))


def read_data(data: dict[str, Any]) -> ManifestSource:
    """The same for plain data, which has no lines."""
    job = job_from_data(data)
    _check(job, {})
    return ManifestSource(job, _namespace(data))


def read_job(job: ElasticJob) -> ManifestSource:
    """The same for a job; one in ``default`` may as well have said nothing of a namespace."""
    _check(job, {})
    namespace = job.metadata.namespace
    return ManifestSource(job, None if namespace == "default" else namespace)


def resolve_namespace(written: ManifestSource, *, asked: str | None, usual: str) -> ElasticJob:
    """The job in its namespace: the one asked for, or written, or the context's, as kubectl does.

    Raises ManifestError where two of them differ."""
    if asked is not None and written.namespace not in (None, asked):
        message = f"is {written.namespace}, but namespace {asked} was asked for"
        raise ManifestError([Problem("metadata.namespace", message)])
    return _changed(written.job, "namespace", asked or written.namespace or usual)


def renamed(written: ManifestSource, name: str) -> ManifestSource:
    """The same job under another name; raises ManifestError if that is no name."""
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
    """Of the field, or of the nearest that it would stand in."""
    while path and path not in lines:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return lines.get(path)
