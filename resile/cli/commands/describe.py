"""``resile describe``: show a job in full."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from resile.cli.commands.get import as_document
from resile.cli.options.cluster import ClusterOptions, cluster_options, find_job
from resile.cli.options.types import COUNT, output_option
from resile.cli.output.format import age, clock, progress_facts
from resile.client.sync import SyncJob
from resile.job.spec.job import JobSpec
from resile.job.spec.role import UNLIMITED
from resile.job.status import JobStatus
from resile.job.view import JobView
from resile.kube.errors import Forbidden
from resile.wire.views import EventView

if TYPE_CHECKING:
    from rich.console import Console

RECENT_EVENTS = 15
"""Number of events shown; `resile events` has them all."""

GROUPS = 20
"""Number of groups shown: independent nodes have one each, and a line in the table of nodes."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("job")
@click.option(
    "--events",
    "limit",
    type=COUNT,
    metavar="N",
    default=RECENT_EVENTS,
    show_default=True,
    help="Number of recent events to show.",
)
@output_option("text", "json", help="Output format.")
@cluster_options
def describe(job: str, limit: int, output: str, where: ClusterOptions) -> None:
    """Show the details of a job: state and reason, roles, nodes, budgets, conditions, events.

    \b
    Examples:
      resile describe digits
      resile describe digits --events 50
      resile describe digits -n team
      resile describe digits -o json
    """
    reader = find_job(job, where)
    if output == "json":
        click.echo(_as_json(reader, limit))
    else:
        _print(reader, limit)


def _as_json(reader: SyncJob, limit: int) -> bytes:
    """Return everything that the text is made from, with nothing cut to a column's width."""
    view = reader.view()
    document = {
        **as_document(reader, view),
        "events": msgspec.to_builtins(_last(reader.events(), limit)),
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2)


def _print(reader: SyncJob, limit: int) -> None:
    from resile.cli.output.tables import new_console

    view = reader.view()
    console = new_console()
    _heading(console, reader, view)
    _groups(console, view)
    if view.status is not None:
        if view.spec is not None:
            _roles(console, view.status, view.spec)
        _nodes(console, view)
        _conditions(console, view.status)
    _report(console, view)
    try:
        _events(console, reader.events(), limit)
    except Forbidden as error:
        console.print(f"\nEvents cannot be seen: {error}", soft_wrap=True, markup=False)


def _heading(console: Console, reader: SyncJob, view: JobView) -> None:
    facts = {
        "Name": reader.name,
        "Phase": _because(reader.phase(view), view.message),
        "Age": age(view.created),
        "Training": _training(view),
        "Round reason": _round_reason(view),
        "Budget": _budget(view),
        "Asked for": ", ".join(f"{role}={n}" for role, n in view.requested_sizes.items()),
        **reader.where(),
    }
    for name, text in facts.items():
        if text:
            console.print(f"{name + ':':<15}{text}", soft_wrap=True)


def _because(phase: str, message: str) -> str:
    return f"{phase}: {message}" if message else phase


def _training(view: JobView) -> str:
    seen, status = view.training, view.status
    if seen is not None and seen.round:
        facts = [f"round {seen.round} ({seen.phase})", f"{seen.world_size} workers"]
    elif seen is not None or status is None or not status.round:
        return "no round yet"
    else:
        facts = [f"round {status.round}", f"{status.world_size or 0} workers"]
    return ", ".join([*facts, *progress_facts(view)])


def _round_reason(view: JobView) -> str:
    seen = view.training
    return "" if seen is None or seen.over or not seen.round else seen.reason


def _budget(view: JobView) -> str:
    status, seen = view.status, view.training
    parts = []
    if seen is not None:
        parts.append(f"{seen.restarts} of {seen.max_restarts} restarts of failing workers")
    if status is not None:
        limit = None if view.spec is None else view.spec.backoff_limit
        most = "" if limit is None else f" of {limit}"
        parts.append(f"{status.spent}{most} relaunches of failing nodes")
    return ", ".join(parts) + " spent" if parts else ""


def _groups(console: Console, view: JobView) -> None:
    """Print the trainings of all groups but the main one, which the heading shows."""
    from resile.cli.output.tables import groups_table

    if view.groups:
        _section(console, "Groups")
        console.print(groups_table(view, most=GROUPS))


def _roles(console: Console, status: JobStatus, spec: JobSpec) -> None:
    from resile.cli.output.tables import new_table

    names = ("WANTED", "RUNNING", "PENDING", "DONE", "FAILED", "RESTARTS", "SPENT")
    table = new_table(*("ROLE", "MIN..MAX", *names, "BUDGET NODE/ROLE", "SCALING"), numbers=names)
    for name, role in status.roles.items():
        asked = spec.roles.get(name)
        if asked is None:
            continue
        budget = asked.restart_budget
        counts = (role.wanted, role.active, role.pending, role.succeeded, role.failed)
        table.add_row(
            name,
            f"{asked.size.min}..{asked.size.max}",
            *(str(number) for number in (*counts, role.restarts, role.spent)),
            f"{_limit(budget.per_node)}/{_limit(budget.per_role)}",
            role.scaling or "-",
        )
    _section(console, "Roles")
    console.print(table)


def _limit(budget: int) -> str:
    return "unlimited" if budget == UNLIMITED else str(budget)


def _nodes(console: Console, view: JobView) -> None:
    from resile.cli.output.tables import nodes_table

    if view.nodes:
        _section(console, "Nodes")
        console.print(nodes_table(view, width=console.width))


def _conditions(console: Console, status: JobStatus) -> None:
    from resile.cli.output.tables import new_table

    table = new_table("CONDITION", "STATUS", "SINCE", "REASON", "MESSAGE")
    for found in status.conditions:
        since = age(found.last_transition_time.timestamp())
        table.add_row(found.type.value, found.status.value, since, found.reason, found.message)
    _section(console, "Conditions")
    console.print(table)


def _report(console: Console, view: JobView) -> None:
    from resile.cli.output.failure_report import training_report

    report = training_report(view)
    if report:
        _section(console, "Failure")
        console.print(report, soft_wrap=True)


def _events(console: Console, events: list[EventView], limit: int) -> None:
    from resile.cli.output.tables import event_line

    shown = _last(events, limit)
    if shown:
        _section(console, f"Events (the last {len(shown)} of {len(events)})")
        for event in shown:
            console.print(event_line(event, when=clock(event.time)), soft_wrap=True)


def _last(events: list[EventView], limit: int) -> list[EventView]:
    return events[len(events) - min(limit, len(events)) :]


def _section(console: Console, title: str) -> None:
    console.print(f"\n{title}", style="bold")
