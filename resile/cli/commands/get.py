"""``resile get``: print a job as an object. YAML: its manifest with its status, which can be
submitted again; JSON: the view of the job, for programs."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from resile.cli.options.cluster import ClusterOptions, cluster_options, find_job
from resile.cli.options.types import output_option
from resile.client.sync import SyncJob
from resile.job.status import JobStatus
from resile.job.view import JobView, document, with_trainings


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("job")
@output_option("yaml", "json", help="How it is written.")
@cluster_options
def get(job: str, output: str, where: ClusterOptions) -> None:
    """Print a job: with -o yaml its manifest together with its status, with -o json everything
    that is known of it, in the format of docs/job-json.md.

    \b
    Examples:
      resile get digits
      resile get digits -o json
      resile get digits -n team
    """
    reader = find_job(job, where)
    view = reader.view()
    if view.manifest is None:
        raise click.ClickException(f"there is nothing to print of job '{job}' ({reader.phase()})")
    if output == "json":
        click.echo(
            msgspec.json.format(msgspec.json.encode(as_document(reader, view)), indent=2).decode()
        )
        return
    import yaml

    shown: dict[str, Any] = {**view.manifest, "status": msgspec.to_builtins(_status(view))}
    click.echo(yaml.safe_dump(shown, sort_keys=False, allow_unicode=True), nl=False)


def as_document(reader: SyncJob, view: JobView) -> dict[str, Any]:
    """Return the view for programs: with the location of the job, and with the trainings in its
    status on every platform."""
    whole = msgspec.structs.replace(
        view,
        name=reader.name,
        phase=reader.phase(view),
        platform=reader.platform,
        namespace=reader.namespace or None,
        status=_status(view),
    )
    return document(whole)


def _status(view: JobView) -> JobStatus | None:
    """Return the status with its trainings, which on one machine are kept apart from it."""
    status = view.status
    if status is None or status.training is not None or not view.trainings:
        return status
    return with_trainings(status, view.trainings)
