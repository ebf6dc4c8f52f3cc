"""Jobs of a cluster from Python: ``resile.submit`` and ``resile.wait``.

Both work with :class:`ClusterJob`, the object that the commands work with too. Nothing here needs
an event loop, nor minds one that is running.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Literal

from resile.job.spec import ElasticJob
from resile.job.status import JobPhase
from resile.platform.kubernetes.remote.cluster import Cluster
from resile.platform.kubernetes.remote.errors import JobEnded, WaitedInVain
from resile.platform.kubernetes.remote.headway import trains
from resile.platform.kubernetes.remote.job import DELETED, ClusterJob
from resile.platform.kubernetes.remote.manifests import (
    Written,
    place,
    read_data,
    read_job,
    read_manifest,
)
from resile.platform.kubernetes.remote.submitting import submit_job
from resile.wire.views import JobPicture

__all__ = ["ClusterJob", "submit", "wait"]


def submit(
    manifest: str | os.PathLike[str] | dict[str, Any] | ElasticJob,
    *,
    namespace: str | None = None,
    context: str | None = None,
    kubeconfig: str | os.PathLike[str] | None = None,
) -> ClusterJob:
    """Give a job to the cluster that kubectl would talk to, and return at once.

    ``manifest`` is a file, a text (a str with more than one line), data or an ElasticJob. A job of
    that name is changed to be like it. Raises ManifestError with all problems of a manifest, and
    KubeError for what the cluster has against it.
    """
    written = _read(manifest)
    cluster = Cluster.connect(namespace=namespace, context=context, kubeconfig=kubeconfig)
    job = place(written, asked=namespace, usual=cluster.namespace)
    return submit_job(cluster, job).job


def wait(
    job: ClusterJob,
    *,
    until: Literal["running", "finished"] = "finished",
    timeout: float | None = None,
) -> JobPicture:
    """Wait until a job trains, or until it is over, and return how it looks then.

    ``finished``: whether it succeeded or failed, ``picture.phase`` says. A job that succeeded has
    trained. Raises JobEnded if it was deleted, or failed before it trained, and WaitedInVain, a
    TimeoutError, after ``timeout`` seconds.
    """
    if until not in ("running", "finished"):
        raise ValueError(f"until is 'running' or 'finished', not {until!r}")
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        picture = job.picture()
        over = picture.status is not None and picture.status.finished
        if picture.phase == JobPhase.SUCCEEDED or (over and until == "finished"):
            return picture
        if until == "running" and trains(picture):
            return picture
        if job.phase(picture) == DELETED:
            raise JobEnded(f"the job '{job.name}' was deleted")
        if over:
            raise JobEnded(f"the job '{job.name}' is over ({picture.phase}): {picture.message}")
        if deadline is not None and time.monotonic() >= deadline:
            said = f"{picture.phase}: {picture.message}" if picture.message else picture.phase
            raise WaitedInVain(f"the job '{job.name}' is not {until} after {timeout:g} s ({said})")
        job.pause()


def _read(manifest: str | os.PathLike[str] | dict[str, Any] | ElasticJob) -> Written:
    if isinstance(manifest, ElasticJob):
        return read_job(manifest)
    if isinstance(manifest, dict):
        return read_data(manifest)
    if isinstance(manifest, str) and "\n" in manifest:
        return read_manifest(manifest)
    return read_manifest(Path(manifest).read_text())
