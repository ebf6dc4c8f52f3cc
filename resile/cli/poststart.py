"""``resile poststart``: the hook after a pod's start."""

from __future__ import annotations

import click

from resile.cli.migration_log import HookLog, files_option
from resile.train.migrate.signals import MigrationFiles


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@files_option
def poststart(signal_path: str | None) -> None:
    """Note the time of a start in postStart.log, beside the signal file.

    Meant for the postStart hook of a pod; usable anywhere.

    \b
    Examples:
      resile poststart
      MIGRATION_SIGNAL_PATH=/mnt/signal resile poststart
    """
    files = MigrationFiles.from_environment(signal=signal_path)
    with HookLog(files.poststart_log) as log:
        log.stamp("start")
