"""``resile prestop`` and ``resile poststart``: the hooks of a pod that moves its training
elsewhere.

The preStop hook asks the training to save and waits until it has; the postStart hook records when
the pod started. Both log to files beside the signal file.
"""

from __future__ import annotations

import fcntl
import time
from contextlib import suppress
from pathlib import Path

import click

from resile.checkpoint.errors import CheckpointError
from resile.cli.options.types import Seconds
from resile.train.migrate.signals import MigrationFiles, MigrationSignal, read_signal, write_word

files_option = click.option(
    "--signal",
    "signal_path",
    metavar="FILE",
    help="The signal file [$MIGRATION_SIGNAL_PATH, else ckpts/signal].",
)


class HookLog:
    """The log file of one hook, open while the hook runs."""

    def __init__(self, path: Path) -> None:
        """Open the file; raises ClickException if it cannot be written."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a")
        except OSError as error:
            raise click.ClickException(
                f"cannot write {path}: {error.strerror}; the folder of the signal file "
                "(--signal or MIGRATION_SIGNAL_PATH) has to be on a volume that can be written"
            ) from None
        with suppress(OSError):  # not every network file system has locks
            fcntl.flock(self._file, fcntl.LOCK_SH)

    def stamp(self, what: str) -> None:
        """Write ``what`` with the date, in the format of the ``date`` command."""
        self._write(f"{what}: {time.strftime('%a %b %d %H:%M:%S UTC %Y', time.gmtime())}")

    def note(self, text: str) -> None:
        """Write a line with its time."""
        self._write(f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime())} {text}")

    def _write(self, line: str) -> None:
        self._file.write(line + "\n")
        self._file.flush()

    def __enter__(self) -> HookLog:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()


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
            if before is MigrationSignal.RESUME:
                log.note("saved already, nothing to do")
                return
            write_word(files.signal, MigrationSignal.SAVE.value)
            log.note("saving ckpts...")
            _conclude(_wait(files, timeout), files, log=log, timeout=timeout)
        except (CheckpointError, OSError) as error:
            log.note(f"failed: {error}")
            raise click.ClickException(str(error)) from None


def _wait(files: MigrationFiles, timeout: float) -> MigrationSignal:
    """Return the word in the file once it is no longer 'save', or at the timeout."""
    deadline = time.monotonic() + timeout
    while (
        found := read_signal(files.signal)
    ) is MigrationSignal.SAVE and time.monotonic() < deadline:
        time.sleep(LOOK)
    return found


def _conclude(
    found: MigrationSignal, files: MigrationFiles, *, log: HookLog, timeout: float
) -> None:
    if found is MigrationSignal.RESUME:
        log.note("finish ckpts!")
    elif found is MigrationSignal.INIT:
        log.note("nothing saved")
        raise click.ClickException(
            "nothing was saved: training had just begun, was over, or could not write "
            "(its own output says which); an earlier save is as it was"
        )
    else:
        # Withdrawn: otherwise a training that reads it late would stop unexpectedly.
        write_word(files.signal, MigrationSignal.INIT.value)
        log.note(f"gave up after {timeout:g} s")
        raise click.ClickException(
            f"training did not save within {timeout:g} s (--timeout): does it run, listen, and use "
            f"{files.signal}? An earlier save is as it was"
        )


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
