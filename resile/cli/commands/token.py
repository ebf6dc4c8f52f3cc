"""``resile token``: print a job's token, for tools that use its HTTP API."""

from __future__ import annotations

import click

from resile.cli.options.cluster import ClusterOptions, cluster_options, find_job
from resile.wire.auth import Scope


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("job")
@click.option(
    "--read/--write",
    "reads",
    default=True,
    show_default=True,
    help="A token that can look, or the one that can do everything.",
)
@cluster_options
def token(job: str, reads: bool, where: ClusterOptions) -> None:
    """Print a job's token: for the job API of `resile up`, and for a master's HTTP.

    The read token sees status, events, logs and metrics. It is derived from the job's own token,
    which can also change and delete the job, and which cannot be found from it.

    \b
    Examples:
      resile token digits
      resile token digits --write
      resile token digits -n team
    """
    click.echo(find_job(job, where).token(Scope.READ if reads else Scope.WRITE))
