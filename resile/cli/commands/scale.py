"""``resile scale``: change the number of nodes of a role of a running job."""

from __future__ import annotations

import time

import click

from resile.cli.options.cluster import ClusterOptions, cluster_options, find_job
from resile.cli.output.explain import NoOperatorWarning
from resile.client.sync import SyncJob
from resile.job.limits import MAX_NODES
from resile.job.view import JobView

_MOST_DIGITS = 9

TAKEN_WITHIN = 20.0
"""Seconds. The controller reacts at once; on a machine that swaps it may take seconds."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("job")
@click.argument("sizes", nargs=-1, required=True, metavar="ROLE=N...")
@click.option("--wait", is_flag=True, help="Wait until that many nodes are running.")
@cluster_options
def scale(job: str, sizes: tuple[str, ...], wait: bool, where: ClusterOptions) -> None:
    """Change how many nodes a role has, within the manifest's min and max.

    Training continues meanwhile: new nodes join when they are up, and the nodes with the highest
    ranks leave first. Nodes that do not fit stay pending until there is room.

    \b
    Examples:
      resile scale digits worker=3
      resile scale digits worker=1 --wait
      resile scale digits worker=3 -n team
    """
    asked = _parse(sizes)
    reader = find_job(job, where)
    view = reader.view()
    before = _wanted(view)
    _check(view, asked)
    reader.scale(asked)
    operator = NoOperatorWarning(reader)
    _await_taken(reader, asked, operator)
    for role, size in asked.items():
        was = before.get(role, size)
        click.echo(f"{role}: {was} -> {size} nodes" if was != size else f"{role}: {size} nodes")
    if wait:
        _await_reached(reader, asked, operator)


def _parse(sizes: tuple[str, ...]) -> dict[str, int]:
    asked: dict[str, int] = {}
    for text in sizes:
        role, sign, number = text.partition("=")
        if not sign or not role:
            raise click.UsageError(f"'{text}': write ROLE=N, such as worker=3")
        if not (number.isascii() and number.isdigit()) or len(number) > _MOST_DIGITS:
            raise click.UsageError(
                f"'{text[:60]}': '{number[:20]}' is not a number of nodes from 0 to {MAX_NODES}"
            )
        if role in asked:
            raise click.UsageError(f"'{text}': {role} is given twice")
        asked[role] = int(number)
    return asked


def _check(view: JobView, asked: dict[str, int]) -> None:
    """Refuse sizes that the job cannot have, before a request is sent."""

    if view.spec is None:
        return  # no spec yet, or by another version of Resile: the receiver checks
    if problem := view.spec.why_not_sizes(asked):
        raise click.ClickException(problem)


def _wanted(view: JobView) -> dict[str, int]:
    status = view.status
    return {name: role.wanted for name, role in status.roles.items()} if status else {}


def _await_taken(reader: SyncJob, asked: dict[str, int], operator: NoOperatorWarning) -> None:
    deadline = time.monotonic() + TAKEN_WITHIN
    while not asked.items() <= _wanted(reader.view()).items():
        if time.monotonic() > deadline or not reader.running:
            raise click.ClickException(
                "the request was accepted but the controller has not acted on it yet "
                f"({reader.phase()})"
            )
        operator.look()
        reader.pause()


def _await_reached(reader: SyncJob, asked: dict[str, int], operator: NoOperatorWarning) -> None:
    while True:
        status = reader.view().status
        roles = status.roles if status else {}
        if all(
            roles[role].active == size and not roles[role].scaling for role, size in asked.items()
        ):
            return
        if not reader.running:
            raise click.ClickException(f"the job ended before that ({reader.phase()})")
        operator.look()
        reader.pause()
