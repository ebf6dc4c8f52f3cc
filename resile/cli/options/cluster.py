"""The options that choose a cluster, named as kubectl's, and the job that a command is about."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from resile.client.sync import SyncJob
from resile.client.sync import find_job as find_job_anywhere

if TYPE_CHECKING:
    from resile.client.sync import SyncCluster

__all__ = [
    "ClusterOptions",
    "cluster_options",
    "connect",
    "find_job",
]


F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class ClusterOptions:
    """The chosen cluster; without any option, jobs on this machine come first."""

    namespace: str | None = None
    context: str | None = None
    kubeconfig: str | None = None

    @property
    def given(self) -> bool:
        """True if any option was given."""
        return any((self.namespace, self.context, self.kubeconfig))

    @property
    def flags(self) -> str:
        """The flags that follow a job's name in a hint at another command."""
        from resile.client.cluster.cluster import flags_for

        return flags_for(namespace=self.namespace, context=self.context, kubeconfig=self.kubeconfig)


def cluster_options(function: F) -> F:
    """Add the options; the command gets them as ``where``."""

    @click.option("--namespace", "-n", metavar="NS", help="Namespace on the cluster.")
    @click.option("--context", metavar="NAME", help="Context of the kubeconfig.")
    @click.option("--kubeconfig", metavar="FILE", help="Path of the kubeconfig.")
    @functools.wraps(function)
    def with_where(
        *args: Any,
        namespace: str | None,
        context: str | None,
        kubeconfig: str | None,
        **settings: Any,
    ) -> Any:
        return function(*args, where=ClusterOptions(namespace, context, kubeconfig), **settings)

    return with_where  # type: ignore[return-value]


def connect(where: ClusterOptions) -> SyncCluster:
    """Return the cluster; disconnected when the command ends."""
    from resile.client.sync import SyncCluster

    cluster = SyncCluster.connect(
        namespace=where.namespace, context=where.context, kubeconfig=where.kubeconfig
    )
    context = click.get_current_context(silent=True)
    if context is not None:
        context.call_on_close(cluster.close)
    return cluster


def find_job(name: str, where: ClusterOptions) -> SyncJob:
    """Return the job of that name; disconnected when the command ends."""
    job = find_job_anywhere(
        name, namespace=where.namespace, context=where.context, kubeconfig=where.kubeconfig
    )
    context = click.get_current_context(silent=True)
    if context is not None:
        context.call_on_close(job.close)
    return job
