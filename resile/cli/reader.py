"""The job that a command is about, found by its name and the options that choose a cluster."""

from __future__ import annotations

import click

from resile.cli.places import Where
from resile.client.sync import SyncJob
from resile.client.sync import find_job as find_job_anywhere

__all__ = ["find_job"]


def find_job(name: str, where: Where) -> SyncJob:
    """The job of that name; disconnected when the command ends."""
    job = find_job_anywhere(
        name, namespace=where.namespace, context=where.context, kubeconfig=where.kubeconfig
    )
    context = click.get_current_context(silent=True)
    if context is not None:
        context.call_on_close(job.close)
    return job
