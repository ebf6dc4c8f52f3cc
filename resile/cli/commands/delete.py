"""``resile delete``: end a job, if it runs, and remove it with its logs."""

from __future__ import annotations

import click

from resile.cli.options.cluster import ClusterOptions, cluster_options, find_job
from resile.client.sync import SyncJob
from resile.kube.errors import Forbidden


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
@click.option("--no-wait", is_flag=True, help="Do not wait for the nodes of a running job to end.")
@cluster_options
def delete(jobs: tuple[str, ...], no_wait: bool, where: ClusterOptions) -> None:
    """End a job and forget it: its nodes have their grace period, its logs and events go.

    \b
    Examples:
      resile delete digits
      resile delete digits mnist --no-wait
      resile delete digits -n team
    """
    readers = [find_job(name, where) for name in jobs]
    for reader in readers:
        reader.delete()
    for reader in readers:
        click.echo(f"job '{reader.name}' is {_end(reader, wait=not no_wait)}")


def _end(reader: SyncJob, *, wait: bool) -> str:
    """Return how far the deletion has come, in words."""

    def warn(text: str) -> None:
        hint = "Ctrl-C ends the waiting alone"
        click.echo(f"Waiting for the end of job '{reader.name}': {text}. {hint}.", err=True)

    try:
        gone = reader.gone(wait=wait, warn=warn)
    except Forbidden:
        return "deleted; its pods cannot be seen"
    return "deleted" if gone else "being deleted"
