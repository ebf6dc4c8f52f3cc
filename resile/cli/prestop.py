"""``resile prestop``: the preStop hook. Asks the training to save, and waits until it has."""

from __future__ import annotations

import time

import click

from resile.checkpoint.errors import CheckpointError
from resile.cli.migration_log import HookLog, files_option
from resile.cli.option_types import Seconds
from resile.train.migrate.signals import MigrationFiles, Signal, read_signal, write_word

LOOK = 0.1


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@files_option
@click.option(
    "--timeout",
    type=Seconds(above_zero=True),
    default=25.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the save. A pod has terminationGracePeriodSeconds in total, 30 by "
    "default.",
)
def prestop(signal_path: str | None, timeout: float) -> None:
    """Ask the training to save its state and stop; returns when that is done.

    Writes the word 'save' to the signal file. All workers then save the same step and exit, and
    the word becomes 'resume'. Progress is logged to preStop.log beside it. Meant for the preStop
    hook of one or all pods; usable anywhere.

    \b
    Examples:
      resile prestop
      resile prestop --timeout 110
      MIGRATION_SIGNAL_PATH=/mnt/signal resile prestop
    """
    files = MigrationFiles.from_environment(signal=signal_path)
    with HookLog(files.prestop_log) as log:
        log.stamp("stop")
        try:
            before = read_signal(files.signal)
            if before is Signal.RESUME:
                log.note("saved already, nothing to do")
                return
            write_word(files.signal, Signal.SAVE.value)
            log.note("saving ckpts...")
            _conclude(_wait(files, timeout), files, log=log, timeout=timeout)
        except (CheckpointError, OSError) as error:
            log.note(f"failed: {error}")
            raise click.ClickException(str(error)) from None


def _wait(files: MigrationFiles, timeout: float) -> Signal:
    """What the file says when it no longer says 'save', or in the end."""
    deadline = time.monotonic() + timeout
    while (found := read_signal(files.signal)) is Signal.SAVE and time.monotonic() < deadline:
        time.sleep(LOOK)
    return found


def _conclude(found: Signal, files: MigrationFiles, *, log: HookLog, timeout: float) -> None:
    if found is Signal.RESUME:
        log.note("finish ckpts!")
    elif found is Signal.INIT:
        log.note("nothing saved")
        raise click.ClickException(
            "nothing was saved: training had just begun, was over, or could not write "
            "(its own output says which); an earlier save is as it was"
        )
    else:
        # Taken back, or training that comes to it late would stop when nobody expects it.
        write_word(files.signal, Signal.INIT.value)
        log.note(f"gave up after {timeout:g} s")
        raise click.ClickException(
            f"training did not save within {timeout:g} s (--timeout): does it run, listen, and use "
            f"{files.signal}? An earlier save is as it was"
        )
