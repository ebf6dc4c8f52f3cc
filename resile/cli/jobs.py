"""``resile jobs``: all jobs of this user on this machine, running and past."""

from __future__ import annotations

import json

import click

from resile.cli.amounts import age, count
from resile.cli.reader import JobReader
from resile.platform.local.jobfolder import all_jobs
from resile.wire.views import JobPicture


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--output", "-o", type=click.Choice(["table", "json"]), default="table", show_default=True
)
def jobs(output: str) -> None:
    """List the jobs on this machine, also those that are over.

    Crashed means that the job's `resile up` was killed; whatever it ran has ended with it.

    \b
    Examples:
      resile jobs
      resile jobs -o json
    """
    rows = [_summary(JobReader(folder)) for folder in all_jobs()]
    if output == "json":
        click.echo(json.dumps(rows, indent=2))
    elif not rows:
        click.echo("There are no jobs. Start one with 'resile up job.yaml'.")
    else:
        _print(rows)


def _summary(job: JobReader) -> dict[str, object]:
    picture = job.picture()
    roles = picture.status.roles.values() if picture.status else ()
    training = picture.training
    return {
        "name": job.name,
        "phase": job.phase(picture),
        "ready": sum(role.succeeded + role.active * job.running for role in roles),
        "wanted": sum(role.wanted for role in roles),
        "restarts": restarts(picture),
        "step": training.step if training else None,
        "created": picture.created,
    }


def restarts(picture: JobPicture) -> int:
    """Nodes that were replaced, and rounds that failing workers cost."""
    replaced = sum(r.restarts for r in picture.status.roles.values()) if picture.status else 0
    return replaced + (picture.training.restarts if picture.training else 0)


def _print(rows: list[dict[str, object]]) -> None:
    from resile.cli.tables import new_console, new_table, phase_text

    table = new_table(
        *("NAME", "PHASE", "NODES", "RESTARTS", "STEP", "AGE"), numbers=("RESTARTS", "STEP")
    )
    for row in rows:
        step, created = row["step"], row["created"]
        table.add_row(
            str(row["name"]),
            phase_text(str(row["phase"])),
            f"{row['ready']}/{row['wanted']}",
            str(row["restarts"]),
            count(step if isinstance(step, int) else None),
            age(created if isinstance(created, float) else 0.0),
        )
    new_console().print(table)
