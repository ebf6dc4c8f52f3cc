"""``resile submit``: submit a job to a cluster, and watch it until it trains."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from resile.cli.absence import OperatorWatch
from resile.cli.amounts import clock
from resile.cli.manifestfile import load_written
from resile.cli.places import Where, cluster_options, connect
from resile.job.errors import ManifestError
from resile.job.spec import ElasticJob

if TYPE_CHECKING:
    from resile.platform.kubernetes.kinds import KubeObject
    from resile.platform.kubernetes.remote.job import ClusterJob
    from resile.platform.kubernetes.remote.manifests import Written

INTERRUPTED = 130
NO_OPERATOR_AFTER = 10.0
"""Seconds: longer than for a change, as one that was installed with the job has to start."""

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
def submit(manifest: str, name: str | None, dry_run: bool, wait: bool, where: Where) -> None:
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
        from resile.cli.dryrun import dry_run as print_objects

        print_objects(written, where)
        return
    from resile.platform.kubernetes.remote.submitting import submit_job

    cluster = connect(where)
    submission = submit_job(cluster, placed(written, where, usual=cluster.namespace))
    job = submission.job
    click.echo(f"job '{job.name}' in namespace {job.namespace}: {submission.outcome.value}")
    if submission.remade and job.has_nodes():
        click.echo(KEPT.format(roles=" and ".join(submission.remade)))
    if job.namespace != cluster.namespace:
        where = replace(where, namespace=job.namespace)  # so that hints lead there
    if wait:
        try:
            _watch(job, where)
        except KeyboardInterrupt:
            hint = f"see 'resile describe {job.name}{where.flags}'"
            click.echo(f"The job '{job.name}' keeps running; {hint}.", err=True)
            raise SystemExit(INTERRUPTED) from None


def placed(written: Written, where: Where, *, usual: str) -> ElasticJob:
    """The job in its namespace; two that differ are the user's mistake."""
    from resile.platform.kubernetes.remote.manifests import place

    try:
        return place(written, asked=where.namespace, usual=usual)
    except ManifestError as error:
        raise click.UsageError(str(error)) from None


def _watch(job: ClusterJob, where: Where) -> None:
    """Print how far it is whenever that changes, until it trains or never will."""
    from resile.platform.kubernetes.remote.headway import Arrival, headway
    from resile.platform.kubernetes.remote.job import DELETED

    said: tuple[str, ...] = ()
    operator = OperatorWatch(job, after=NO_OPERATOR_AFTER)
    while True:
        view = job.view()
        if job.phase(view) == DELETED:
            raise click.ClickException(f"the job '{job.name}' was deleted")
        seen = headway(view, masters=_masters(job), behind=job.behind)
        if seen.arrival is Arrival.FAILED:
            raise click.ClickException(f"{' '.join(seen.lines)}\n{_read_more(job.name, where)}")
        for line in seen.lines:
            if line not in said:
                click.echo(f"{clock(time.time())}  {line}")
        said = seen.lines
        if seen.arrival is not None:
            click.echo(_read_more(job.name, where))
            return
        operator.look()
        job.pause()


def _masters(job: ClusterJob) -> list[KubeObject] | None:
    """None where the account may not see pods: the job's status says what matters."""
    from resile.platform.kubernetes.errors import Forbidden

    try:
        return job.masters()
    except Forbidden:
        return None


def _read_more(name: str, where: Where) -> str:
    told = [f"'resile {what} {name}{where.flags}'" for what in ("describe", "events", "logs")]
    return f"See {', '.join(told)}."
