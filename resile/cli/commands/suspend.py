"""``resile suspend`` and ``resile resume``: stop all nodes of a job and start them again."""

from __future__ import annotations

import click

from resile.cli.options.cluster import ClusterOptions, cluster_options, find_job
from resile.cli.output.explain import NoOperatorWarning
from resile.client.sync import SyncJob
from resile.job.status import JobPhase

HELP = {"help_option_names": ["-h", "--help"]}


@click.command(context_settings=HELP)
@click.argument("job")
@click.option("--wait", is_flag=True, help="Wait until all nodes have stopped.")
@cluster_options
def suspend(job: str, wait: bool, where: ClusterOptions) -> None:
    """Stop all nodes of a job but keep the job; restart budgets are not used up.

    Nodes can save their state within their grace period. On this machine, the job's `resile up`
    keeps running and waits.

    \b
    Examples:
      resile suspend digits
      resile suspend digits -n team --wait
    """
    reader = find_job(job, where)
    if not reader.suspend():
        click.echo(f"job '{job}' is already suspended")
        wait = wait and reader.has_nodes()
    else:
        hint = f"'resile resume {job}{where.flags}' continues it"
        click.echo(f"job '{job}' is being suspended; {hint}")
    if wait:
        _await(reader, JobPhase.SUSPENDED)


@click.command(context_settings=HELP)
@click.argument("job")
@click.option("--wait", is_flag=True, help="Wait until the job runs.")
@cluster_options
def resume(job: str, wait: bool, where: ClusterOptions) -> None:
    """Resume a suspended job from its latest saved state.

    \b
    Examples:
      resile resume digits
      resile resume digits -n team --wait
    """
    reader = find_job(job, where)
    if not reader.resume():
        click.echo(f"job '{job}' is not suspended")
        wait = wait and reader.view().phase == JobPhase.SUSPENDED  # another user resumed it
    else:
        click.echo(f"job '{job}' is being resumed")
    if wait:
        _await(reader, JobPhase.RUNNING)


def _await(reader: SyncJob, phase: JobPhase) -> None:
    operator = NoOperatorWarning(reader)
    while True:
        view = reader.view()
        roles = view.status.roles.values() if view.status else ()
        left = sum(role.active for role in roles)
        if view.phase == phase and not (left and phase is JobPhase.SUSPENDED):
            return
        if not reader.running:
            raise click.ClickException(f"the job ended before that ({reader.phase()})")
        operator.look()
        reader.pause()
