"""Jobs of a cluster from Python: ``resile.submit`` and ``resile.wait``.

Both use :class:`ClusterJob`, as the commands do. They are synchronous, and may be called with or
without a running event loop.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeVar

from resile.job.spec import ElasticJob
from resile.job.status import JobPhase
from resile.job.view import JobView
from resile.platform.kubernetes.errors import KubeError
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
from resile.platform.kubernetes.remote.patience import PATIENCE, may_pass, patiently
from resile.platform.kubernetes.remote.seeing import UNSEEN
from resile.platform.kubernetes.remote.submitting import submit_job

__all__ = ["ClusterJob", "submit", "wait"]

T = TypeVar("T")

LEAST = 1.0
"""Minimum timeout of a request, in seconds, however little time is left: one is always sent."""


def submit(
    manifest: str | os.PathLike[str] | dict[str, Any] | ElasticJob,
    *,
    namespace: str | None = None,
    context: str | None = None,
    kubeconfig: str | os.PathLike[str] | None = None,
) -> ClusterJob:
    """Submit a job to the cluster that kubectl would use, and return at once.

    ``manifest`` is a file, a text (a str with more than one line), data or an ElasticJob. An
    existing job of that name is updated. Raises ManifestError with all problems of the manifest,
    and KubeError if the cluster rejects it.
    """
    written = _read(manifest)
    cluster = Cluster.connect(namespace=namespace, context=context, kubeconfig=kubeconfig)
    job = place(written, asked=namespace, usual=cluster.namespace)
    return submit_job(cluster, job).job


def wait(
    job: ClusterJob | str,
    *,
    until: Literal["running", "finished"] = "finished",
    timeout: float | None = None,
    namespace: str | None = None,
    context: str | None = None,
    kubeconfig: str | os.PathLike[str] | None = None,
) -> JobView:
    """Wait until a job trains, or until it is over, and return how it looks then.

    ``job``: what :func:`submit` returned, or a name; where the cluster is, is asked for a name
    only. ``finished``: whether it succeeded or failed, ``view.phase`` says. A job that succeeded
    has trained. A job that was changed trains when the operator has looked at the change. Raises
    JobEnded if it was deleted, or failed before it trained, and WaitedInVain, a TimeoutError, after
    ``timeout`` seconds, also if the API server is away then.
    """
    if until not in ("running", "finished"):
        raise ValueError(f"until is 'running' or 'finished', not {until!r}")
    watch = _Watch(until, timeout)
    if not isinstance(job, str):
        if (namespace, context, kubeconfig) != (None, None, None):
            raise TypeError("namespace, context and kubeconfig need a job that is given by name")
        return watch.wait(job)
    cluster = Cluster.connect(namespace=namespace, context=context, kubeconfig=kubeconfig)
    try:
        return watch.wait(watch.find(cluster, job))
    finally:
        cluster.close()


class _Watch:
    """One wait for a state, with its timeout."""

    def __init__(self, until: str, timeout: float | None) -> None:
        self._until = until
        self._timeout = timeout
        self._deadline = math.inf if timeout is None else time.monotonic() + timeout

    def find(self, cluster: Cluster, name: str) -> ClusterJob:
        """Find the job of that name."""

        def look(within: float) -> ClusterJob:
            for raw in cluster.jobs(within=within):
                if raw["metadata"]["name"] == name:
                    return ClusterJob(cluster, raw)
            return ClusterJob(cluster, cluster.job(name))  # its error lists the existing jobs

        return self._in_time(name, lambda within: patiently(lambda: look(within), within=within))

    def wait(self, job: ClusterJob) -> JobView:
        """How it looks when it has come to that."""
        while True:
            view = self._in_time(job.name, lambda within: job.view(within=within))
            if self._has_come(job, view):
                return view
            if time.monotonic() >= self._deadline:
                message = UNSEEN if job.behind else view.message
                raise self._vain(job.name, f"{view.phase}: {message}".removesuffix(": "))
            job.pause()

    def _has_come(self, job: ClusterJob, view: JobView) -> bool:
        over = view.status is not None and view.status.finished
        if view.phase == JobPhase.SUCCEEDED or (over and self._until == "finished"):
            return True
        if self._until == "running" and trains(view) and not job.behind:
            return True
        if job.phase(view) == DELETED:
            raise JobEnded(f"the job '{job.name}' was deleted")
        if over:
            raise JobEnded(f"the job '{job.name}' is over ({view.phase}): {view.message}")
        return False

    def _in_time(self, name: str, look: Callable[[float], T]) -> T:
        """Call ``look`` with the timeout that is left for it."""
        left = self._deadline - time.monotonic()
        try:
            return look(min(PATIENCE, max(LEAST, left)))
        except KubeError as error:
            if left > PATIENCE or not may_pass(error):
                raise
            raise self._vain(name, str(error)) from error

    def _vain(self, name: str, why: str) -> WaitedInVain:
        return WaitedInVain(
            f"the job '{name}' is not {self._until} after {self._timeout:g} s ({why})"
        )


def _read(manifest: str | os.PathLike[str] | dict[str, Any] | ElasticJob) -> Written:
    if isinstance(manifest, ElasticJob):
        return read_job(manifest)
    if isinstance(manifest, dict):
        return read_data(manifest)
    if isinstance(manifest, str) and "\n" in manifest:
        return read_manifest(manifest)
    return read_manifest(Path(manifest).read_text())
