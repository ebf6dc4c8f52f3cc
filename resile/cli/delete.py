"""``resile delete``: end a job, if it runs, and forget it with its logs."""

from __future__ import annotations

import time

import click

from resile.cli.reader import JobReader, find_job
from resile.platform.local.jobfolder import JobFolderError, JobRunning

POLL = 0.05


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
@click.option("--no-wait", is_flag=True, help="Do not wait for the nodes of a running job to end.")
def delete(jobs: tuple[str, ...], no_wait: bool) -> None:
    """End a job and forget it: its nodes have their grace period, its logs and events go.

    \b
    Examples:
      resile delete digits
      resile delete digits mnist --no-wait
    """
    readers = [find_job(name) for name in jobs]
    for reader in readers:
        if reader.running:
            reader.steer(lambda master: master.delete())
    for reader in readers:
        if reader.running and no_wait:
            click.echo(f"job '{reader.name}' is being deleted")
        else:
            _forget(reader)
            click.echo(f"job '{reader.name}' is deleted")


def _forget(reader: JobReader) -> None:
    """Remove what is left once its `up` is gone; that removes the folder itself if it can."""
    try:
        while reader.folder.exists():
            if reader.running:
                time.sleep(POLL)
                continue
            try:
                with reader.folder.hold():
                    reader.folder.remove()
            except JobRunning:
                continue
    except JobFolderError as error:
        raise click.ClickException(str(error)) from None
