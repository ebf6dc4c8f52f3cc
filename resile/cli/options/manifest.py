"""Load the manifest that a user names and check it for the platform it is to run on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from resile.job.errors import ManifestError
from resile.job.manifest.parse import job_from_data, parse_manifest
from resile.job.spec.job import ElasticJob
from resile.job.spec.role import RoleSpec

if TYPE_CHECKING:
    from resile.client.cluster.manifest_source import ManifestSource

__all__ = ["load_job", "load_written"]


def load_job(source: str, *, name: str | None) -> ElasticJob:
    """Return the job in a file, or on stdin for ``-``, to run on this machine; renamed if ``name``
    is given."""
    try:
        job = parse_manifest(_text(source))
    except ManifestError as error:
        raise click.ClickException(f"{_shown(source)}: {error}") from None
    if name is not None:
        job = _renamed(job, name)
    for role, spec in job.spec.roles.items():
        _check_program(role, spec)
    return job


def load_written(source: str, *, name: str | None) -> ManifestSource:
    """Return the same, to run on a cluster."""
    from resile.client.cluster.manifest_source import read_manifest, renamed

    try:
        written = read_manifest(_text(source))
    except ManifestError as error:
        raise click.ClickException(f"{_shown(source)}: {error}") from None
    try:
        return written if name is None else renamed(written, name)
    except ManifestError as error:
        raise click.UsageError(f"--name {name}: {error.problems[0].message}") from None


def _shown(source: str) -> str:
    return "standard input" if source == "-" else source


def _text(source: str) -> str:
    try:
        return sys.stdin.read() if source == "-" else Path(source).read_text()
    except UnicodeDecodeError:
        raise click.UsageError(f"{source} is not a text file") from None
    except OSError as error:
        raise click.UsageError(f"{source} cannot be read: {error.strerror}") from None


def _renamed(job: ElasticJob, name: str) -> ElasticJob:
    data = msgspec.to_builtins(job)
    data["metadata"]["name"] = name
    try:
        return job_from_data(data)
    except ManifestError as error:
        raise click.UsageError(f"--name {name}: {error.problems[0].message}") from None


def _check_program(role: str, spec: RoleSpec) -> None:
    """Check the program now; otherwise it would fail only later, on each node."""
    folder = Path(spec.working_dir or ".").absolute()
    if not folder.is_dir():
        raise click.ClickException(f"spec.roles.{role}.workingDir: there is no folder {folder}")
    if spec.script is not None and not (folder / spec.script).is_file():
        raise click.ClickException(
            f"spec.roles.{role}.script: {spec.script} does not exist in {folder} "
            "(workingDir names another folder)"
        )
    if not (spec.script or spec.module or spec.command):
        raise click.ClickException(
            f"spec.roles.{role}: on this machine a role needs a command, a script or a module; "
            "an image cannot be run here"
        )
