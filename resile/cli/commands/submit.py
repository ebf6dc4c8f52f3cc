"""``resile submit``: submit a job to a cluster, and watch it until it trains."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from resile.cli.options.cluster import ClusterOptions, cluster_options, connect
from resile.cli.options.manifest import load_written
from resile.cli.output.explain import NoOperatorWarning
from resile.cli.output.format import clock
from resile.job.errors import ManifestError
from resile.job.spec.job import ElasticJob

if TYPE_CHECKING:
    from resile.client.cluster.manifest_source import ManifestSource
    from resile.client.sync import SyncClusterJob

INTERRUPTED = 130
NO_OPERATOR_AFTER = 10.0
"""Seconds: longer than for a change, because an operator installed with the job has to start."""

KEPT = (
    "running nodes of {roles} keep their old settings; the change applies to nodes created from "
    "now on (suspend and resume the job to apply it everywhere)"
)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("manifest", metavar="MANIFEST")
@click.option("--name", metavar="NAME", help="Override metadata.name of the manifest.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print the objects that would be created, validated by the cluster if there is one.",
)
@click.option(
    "--wait/--no-wait", default=True, show_default=True, help="Show progress until the job trains."
)
@cluster_options
def submit(
    manifest: str, name: str | None, dry_run: bool, wait: bool, where: ClusterOptions
) -> None:
    """Submit the job in MANIFEST (a file, or - for stdin) to a Kubernetes cluster.

    Cluster, context and namespace are chosen as kubectl does. An existing job of that name is
    updated to match the manifest. Ctrl-C stops watching, not the job.

    \b
    Exit code: 0 the job trains (--no-wait: was accepted), 1 it failed or was refused, 130 Ctrl-C.

    \b
    Examples:
      resile submit job.yaml
      resile submit job.yaml -n team --context production --no-wait
      resile submit job.yaml --dry-run > objects.yaml
    """
    written = load_written(manifest, name=name)
    if dry_run:
        from resile.cli.commands.dry_run import dry_run as print_objects

        print_objects(written, where)
        return
    cluster = connect(where)
    job, submission = cluster.submit(placed(written, where, usual=cluster.namespace))
    click.echo(f"job '{job.name}' in namespace {job.namespace}: {submission.outcome.value}")
    if submission.roles_needing_restart and job.has_nodes():
        click.echo(KEPT.format(roles=" and ".join(submission.roles_needing_restart)))
    if job.namespace != cluster.namespace:
        where = replace(where, namespace=job.namespace)  # so that hints name it
    if wait:
        try:
            _watch(job, where)
        except KeyboardInterrupt:
            hint = f"see 'resile describe {job.name}{where.flags}'"
            click.echo(f"The job '{job.name}' keeps running; {hint}.", err=True)
            raise SystemExit(INTERRUPTED) from None


def placed(written: ManifestSource, where: ClusterOptions, *, usual: str) -> ElasticJob:
    """Return the job in its namespace; a usage error if manifest and option name different ones."""
    from resile.client.cluster.manifest_source import resolve_namespace

    try:
        return resolve_namespace(written, asked=where.namespace, usual=usual)
    except ManifestError as error:
        raise click.UsageError(str(error)) from None


def _watch(job: SyncClusterJob, where: ClusterOptions) -> None:
    """Print the progress whenever it changes, until the job trains or cannot train."""
    from resile.client.cluster.startup_progress import StartupOutcome

    said: tuple[str, ...] = ()
    operator = NoOperatorWarning(job, after=NO_OPERATOR_AFTER)
    while True:
        seen = job.startup_progress()
        if seen.outcome is StartupOutcome.FAILED:
            raise click.ClickException(f"{' '.join(seen.lines)}\n{_read_more(job.name, where)}")
        for line in seen.lines:
            if line not in said:
                click.echo(f"{clock(time.time())}  {line}")
        said = seen.lines
        if seen.outcome is not None:
            click.echo(_read_more(job.name, where))
            return
        operator.look()
        job.pause()


def _read_more(name: str, where: ClusterOptions) -> str:
    commands = [f"'resile {what} {name}{where.flags}'" for what in ("describe", "events", "logs")]
    return f"See {', '.join(commands)}."
