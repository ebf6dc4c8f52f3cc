"""``resile up``: run a whole job, with all its nodes, on this machine until it is over."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Protocol

import click

from resile.cli.options.manifest import load_job
from resile.cli.options.types import verbosity_options
from resile.cli.output.failure_report import failure_report
from resile.cli.output.format import nothing_left
from resile.cli.output.logging import set_up_logging
from resile.cli.output.plain_view import PlainView
from resile.job.spec.job import ElasticJob
from resile.launch.master_process import MasterFailed
from resile.local.capacity import Capacity
from resile.local.controller import Ending
from resile.local.errors import CapacityError, LocalPlatformError
from resile.local.jobdir import JobDir, JobDirError, JobRunning
from resile.local.runner import JobRunner
from resile.wire.endpoint import LAST_PORT
from resile.wire.views import EventView

log = logging.getLogger("resile.up")

INTERRUPTED, TERMINATED = 130, 143
_CODES = {Ending.SUCCEEDED: 0, Ending.FAILED: 1, Ending.DELETED: 1}


class View(Protocol):
    """The display of a running job."""

    def tell(self, events: list[EventView]) -> None:
        """Show new events."""

    async def run(self, job: JobRunner) -> None:
        """Show the job until cancelled."""


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@verbosity_options
@click.argument("manifest", metavar="MANIFEST")
@click.option(
    "--capacity",
    metavar="cpu=N,memory=SIZE",
    help="Resources the job may use. [default: all of this machine]",
)
@click.option("--name", metavar="NAME", help="Override metadata.name of the manifest.")
@click.option("--logs", is_flag=True, help="Print logs and events instead of the live view.")
@click.option(
    "--api-port",
    type=click.IntRange(0, LAST_PORT),
    metavar="PORT",
    help="Serve the job API at this port of 127.0.0.1, too; 0 picks a free one and prints it.",
)
def up(
    manifest: str, capacity: str | None, name: str | None, logs: bool, api_port: int | None
) -> None:
    """Run the whole job in MANIFEST (a file, or - for stdin) on this machine.

    Nodes that do not fit into the capacity stay pending until there is room. On a terminal a live
    view shows nodes and events; otherwise events and logs are printed line by line. Ctrl-C ends
    the job and everything it started; press it twice to skip the grace period.

    \b
    Exit code: 0 the job succeeded, 1 it failed or was deleted, 130 it was interrupted.

    \b
    Examples:
      resile up job.yaml
      resile up job.yaml --capacity cpu=4,memory=8Gi --name second-try
      resile up - < job.yaml
    """
    set_up_logging()
    try:
        room = _capacity(capacity)
        job = load_job(manifest, name=name)
        folder = JobDir(job.metadata.name)
        with folder.hold():
            code = asyncio.run(_run(job, folder, capacity=room, logs=logs, api_port=api_port))
    except JobRunning as error:
        hint = f"'resile delete {job.metadata.name}' ends it, --name gives this one another name"
        raise click.ClickException(f"{error}; {hint}") from None
    except (JobDirError, LocalPlatformError, MasterFailed) as error:
        raise click.ClickException(str(error)) from None
    raise SystemExit(code)


def _capacity(given: str | None) -> Capacity:
    if not given:
        return Capacity.of_this_machine()
    try:
        return Capacity.parse(given)
    except CapacityError as error:
        raise click.UsageError(str(error)) from None


async def _run(
    job: ElasticJob, folder: JobDir, *, capacity: Capacity, logs: bool, api_port: int | None
) -> int:
    drawable = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    view = _view(folder, live=drawable and not logs)
    local = JobRunner(job, folder=folder, capacity=capacity, tell=view.tell, api_port=api_port)
    received: list[signal.Signals] = []

    def interrupt(name: signal.Signals) -> None:
        received.append(name)
        view.tell([_interruption(name)])
        local.interrupt()

    _on_signals(interrupt)
    showing = asyncio.create_task(view.run(local))
    try:
        end = await local.run()
    finally:
        showing.cancel()
        for trouble in await asyncio.gather(showing, return_exceptions=True):
            if isinstance(trouble, Exception):
                log.error("the view of the job failed", exc_info=trouble)
    _conclude(end, folder)
    if end is Ending.DELETED:
        folder.remove()
    if end is Ending.INTERRUPTED:
        return INTERRUPTED if signal.SIGINT in received else TERMINATED
    return _CODES[end]


def _view(folder: JobDir, *, live: bool) -> View:
    if not live:
        return PlainView(folder)
    from resile.cli.output.live_view import LiveView

    return LiveView(folder.name)


def _on_signals(handle: Callable[[signal.Signals], None]) -> None:
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(name, handle, name)


def _interruption(name: signal.Signals) -> EventView:
    text = f"{name.name}: stopping all nodes; a second signal skips the grace period"
    return EventView(seq=0, time=time.time(), kind="Interrupted", text=text)


def _conclude(end: Ending, folder: JobDir) -> None:
    """Print the last lines: how the job ended, and where to read more."""
    name, view = folder.name, folder.view()
    if end is Ending.FAILED and view is not None:
        click.echo(failure_report(view, folder), err=True)
    elif end is Ending.SUCCEEDED and view is not None:
        click.echo(f"The job succeeded: {view.message}.")
        if left := nothing_left(view):
            click.echo(f"{left}.")
    elif end is Ending.DELETED:
        click.echo(f"The job '{name}' was deleted.", err=True)
    else:
        click.echo(f"The job '{name}' was interrupted; everything it started has ended.", err=True)
    if end is not Ending.DELETED:
        click.echo(f"See 'resile describe {name}', 'resile events {name}', 'resile logs {name}'.")
