"""``resile get``: a job as an object, its manifest with its status, for people and programs."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from resile.cli.option_types import output_option
from resile.cli.places import Where, cluster_options
from resile.cli.reader import find_job
from resile.wire.written import with_written_training


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("job")
@output_option("yaml", "json", help="How it is written.")
@cluster_options
def get(job: str, output: str, where: Where) -> None:
    """Print a job's manifest together with its status.

    \b
    Examples:
      resile get digits
      resile get digits -o json
      resile get digits -n team
    """
    reader = find_job(job, where)
    picture = reader.picture()
    if picture.manifest is None:
        raise click.ClickException(f"there is nothing to print of job '{job}' ({reader.phase()})")
    status = picture.status and with_written_training(picture.status, picture.training)
    whole: dict[str, Any] = {**picture.manifest, "status": msgspec.to_builtins(status)}
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(whole), indent=2).decode())
        return
    import yaml

    click.echo(yaml.safe_dump(whole, sort_keys=False, allow_unicode=True), nl=False)
