"""Find a job by its name.

As with kubectl, options choose the cluster; without them a job on this machine comes first.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping

from resile.client.cluster.cluster import Cluster, is_configured
from resile.client.errors import InvalidName, NoSuchJob, no_such_local_job
from resile.client.job import Job
from resile.client.local import LocalJob
from resile.kube.errors import KubeError
from resile.local.jobdir import JobDir, all_jobs

__all__ = ["ClusterUnavailable", "find_job"]


class ClusterUnavailable(NoSuchJob):
    """This machine has no such job, and the cluster could not be asked: ``cause`` says why."""

    def __init__(self, cause: KubeError | InvalidName, here: NoSuchJob) -> None:
        super().__init__(f"{cause}; and {here}", others=here.others)
        self.cause = cause
        self.here = here


async def find_job(
    name: str,
    *,
    namespace: str | None = None,
    context: str | None = None,
    kubeconfig: str | os.PathLike[str] | None = None,
) -> Job:
    """Return the job of that name; raises NoSuchJob, which names the others."""
    if namespace or context or kubeconfig:
        cluster = Cluster.connect(namespace=namespace, context=context, kubeconfig=kubeconfig)
        return await _on_cluster(cluster, name)
    folders = {folder.name: folder for folder in all_jobs()}
    if name in folders:
        return LocalJob(folders[name])
    if not is_configured():
        raise no_such_local_job(name, folders)
    try:
        return await _on_cluster(Cluster.connect(), name)
    except NoSuchJob as error:
        raise _nowhere(name, folders, error) from None
    except (KubeError, InvalidName) as error:
        raise ClusterUnavailable(error, no_such_local_job(name, folders)) from None


async def _on_cluster(cluster: Cluster, name: str) -> Job:
    from resile.client.cluster.job import ClusterJob

    try:
        return ClusterJob(cluster, await cluster.job(name))
    except BaseException:
        await cluster.aclose()
        raise


def _nowhere(name: str, folders: Mapping[str, JobDir], there: NoSuchJob) -> NoSuchJob:
    close = difflib.get_close_matches(name, [*folders, *there.others], n=1)
    others = f" There: {', '.join(there.others)}." if there.others else ""
    here = f" Here: {', '.join(folders)}." if folders else ""
    hint = f" Did you mean '{close[0]}'?" if close else ""
    return NoSuchJob(
        f"there is no job '{name}' on this machine, nor {there.place}.{hint}{here}{others} "
        "'resile up job.yaml' starts one here, 'resile submit job.yaml' there",
        others=(*folders, *there.others),
    )
