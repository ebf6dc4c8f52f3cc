"""Jobs from Python without asyncio: ``resile.submit``, ``resile.wait`` and ``resile.find_job``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from resile.client.cluster.manifest_source import (
    ManifestSource,
    read_data,
    read_job,
    read_manifest,
    resolve_namespace,
)
from resile.client.find import find_job as find_job_async
from resile.client.sync import SyncCluster, SyncClusterJob, SyncJob, find_job
from resile.client.waiting import JobWait, Until
from resile.job.spec.job import ElasticJob
from resile.job.view import JobView
from resile.system.loop_thread import run_in_thread

__all__ = ["find_job", "submit", "wait"]


def submit(
    manifest: str | os.PathLike[str] | dict[str, Any] | ElasticJob,
    *,
    namespace: str | None = None,
    context: str | None = None,
    kubeconfig: str | os.PathLike[str] | None = None,
) -> SyncClusterJob:
    """Submit a job to the cluster that kubectl would talk to, and return at once.

    ``manifest`` is a file, a text (a str with more than one line), data or an ElasticJob. A job of
    that name is changed to match it. Raises ManifestError with all problems of a manifest, and
    KubeError for what the cluster refuses.
    """
    source = _read(manifest)
    cluster = SyncCluster.connect(namespace=namespace, context=context, kubeconfig=kubeconfig)
    try:
        job, _ = cluster.submit(resolve_namespace(source, asked=namespace, usual=cluster.namespace))
    except BaseException:
        cluster.close()
        raise
    return job


def wait(
    job: SyncJob | str,
    *,
    until: Until = "finished",
    timeout: float | None = None,
    namespace: str | None = None,
    context: str | None = None,
    kubeconfig: str | os.PathLike[str] | None = None,
) -> JobView:
    """Wait until a job trains, or until it is over, and return its view at that time.

    ``job``: the result of :func:`submit` or :func:`find_job`, or a name, which is looked up as by
    :func:`find_job`. ``finished``: ``view.phase`` says whether it succeeded or failed. A
    job that succeeded has trained. A job that was changed trains when the operator has seen the
    change. Raises JobEnded if it was deleted, or failed before it trained, and WaitTimeout, a
    TimeoutError, after ``timeout`` seconds, also if the API server is unavailable then.
    """
    waiting = JobWait(until, timeout)
    if not isinstance(job, str):
        if (namespace, context, kubeconfig) != (None, None, None):
            raise TypeError("namespace, context and kubeconfig are for a job that is only named")
        return job.call(waiting.wait(job.job))
    return run_in_thread(
        _find_and_wait(waiting, job, namespace=namespace, context=context, kubeconfig=kubeconfig)
    )


async def _find_and_wait(
    waiting: JobWait,
    name: str,
    *,
    namespace: str | None,
    context: str | None,
    kubeconfig: str | os.PathLike[str] | None,
) -> JobView:
    job = await waiting.find(
        name,
        lambda: find_job_async(name, namespace=namespace, context=context, kubeconfig=kubeconfig),
    )
    try:
        return await waiting.wait(job)
    finally:
        await job.aclose()


def _read(manifest: str | os.PathLike[str] | dict[str, Any] | ElasticJob) -> ManifestSource:
    if isinstance(manifest, ElasticJob):
        return read_job(manifest)
    if isinstance(manifest, dict):
        return read_data(manifest)
    if isinstance(manifest, str) and "\n" in manifest:
        return read_manifest(manifest)
    return read_manifest(Path(manifest).read_text())
