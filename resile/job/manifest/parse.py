"""Parse a manifest into an ElasticJob.

There are three steps, each of which continues after a mistake: text to plain data (with lines),
data to types (every field), types to a valid job (how fields relate). All problems are reported
together in one :class:`ManifestError`.
"""

from __future__ import annotations

from typing import Any

from resile.decoding import DecodeError, convert
from resile.job.errors import ManifestError, Problem
from resile.job.manifest.checks import ManifestFinding, check_job
from resile.job.manifest.typecheck import TypeChecker
from resile.job.manifest.yaml_text import dotted, read_text
from resile.job.spec.job import API_VERSION, KIND, ElasticJob

__all__ = ["job_from_data", "parse_manifest"]

_SET_BY_SERVER = frozenset(
    {
        "clusterName",
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generateName",
        "generation",
        "managedFields",
        "ownerReferences",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)
"""Metadata that an API server adds or has acted on, and that does not describe the job."""

_STAND_IN = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "unnamed"}}
"""Replaces an invalid header, so that the rest is still checked."""


def parse_manifest(text: str) -> ElasticJob:
    """Parse a manifest in YAML or JSON; raises ManifestError with every problem found."""
    source = read_text(text)
    if source.problems and source.data is None:
        raise ManifestError(source.problems)
    return _job(source.data, TypeChecker(source.lines), source.problems)


def job_from_data(data: Any) -> ElasticJob:
    """Parse a manifest that is already plain data, such as an object from an API server."""
    return _job(data, TypeChecker(), [])


def _job(data: Any, reader: TypeChecker, problems: list[Problem]) -> ElasticJob:
    if not isinstance(data, dict):
        reader.report((), f"expected a mapping with apiVersion: {API_VERSION} and kind: {KIND}")
        raise ManifestError([*problems, *reader.problems])
    shaped = _STAND_IN | reader.read(_without_server_fields(data), ElasticJob)
    try:
        job = convert(shaped, ElasticJob)
    except DecodeError as error:
        if not reader.problems:
            reader.report((), str(error))
        raise ManifestError([*problems, *reader.problems]) from None
    invalid = [problem.path for problem in (*problems, *reader.problems)]
    for finding in check_job(job):
        if not any(_moot(finding, other) for other in invalid):
            reader.report(finding.path, finding.message)
    if problems or reader.problems:
        raise ManifestError([*problems, *reader.problems])
    return job


def _without_server_fields(data: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in data.items() if name != "status"}
    if isinstance(data.get("metadata"), dict):
        metadata = data["metadata"].items()
        kept["metadata"] = {name: value for name, value in metadata if name not in _SET_BY_SERVER}
    return kept


def _moot(finding: ManifestFinding, invalid: str) -> bool:
    """Whether a finding may only exist because an invalid part was left out."""
    path = dotted(finding.path)
    if path == invalid or _within(path, invalid) or _within(invalid, path):
        return True
    return finding.relative and path.rpartition(".")[0] == invalid.rpartition(".")[0]


def _within(inner: str, outer: str) -> bool:
    return inner.startswith((f"{outer}.", f"{outer}["))
