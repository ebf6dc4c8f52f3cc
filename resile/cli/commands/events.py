"""``resile events``: a job's events, those of the controller and of the master in one list."""

from __future__ import annotations

import click
import msgspec

from resile.cli.options.cluster import ClusterOptions, cluster_options, find_job
from resile.cli.options.types import COUNT, output_option
from resile.cli.output.format import clock
from resile.cli.output.log_follower import until_interrupted
from resile.client.sync import SyncJob
from resile.wire.views import EventView

WAIT = 10.0
"""Seconds that one request waits for new events, before checking whether the job still runs."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("job")
@click.option("--follow", "-f", is_flag=True, help="Go on until the job is over.")
@click.option("--tail", type=COUNT, metavar="N", help="Only the last N so far.")
@output_option("text", "json", help="json: one object a line.")
@cluster_options
def events(job: str, follow: bool, tail: int | None, output: str, where: ClusterOptions) -> None:
    """Print what happened in a job, and why, from the oldest to the newest.

    \b
    Examples:
      resile events digits
      resile events digits -f
      resile events digits --tail 5 -o json
      resile events digits -n team -f
    """
    reader = find_job(job, where)
    events = reader.events()
    _print(events if tail is None else events[len(events) - min(tail, len(events)) :], output)
    if follow:
        with until_interrupted():
            _follow(reader, events[-1].seq if events else 0, output)


def _follow(reader: SyncJob, last: int, output: str) -> None:
    while True:
        over = not reader.running
        if over:
            reader.pause()  # the last events may arrive a moment after the end
        fresh = reader.events(since=last, wait=0.0 if over else WAIT)
        _print(fresh, output)
        last = fresh[-1].seq if fresh else last
        if over:
            return


def _print(events: list[EventView], output: str) -> None:
    for event in events:
        if output == "json":
            click.echo(msgspec.json.encode(event).decode())
        else:
            click.echo(f"{clock(event.time)}  {event.kind:<18} {event.text}")
