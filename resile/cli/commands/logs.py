"""``resile logs``: print and follow the logs of a job's nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from dataclasses import dataclass

import click

from resile.cli.options.cluster import ClusterOptions, cluster_options, find_job
from resile.cli.options.types import COUNT
from resile.cli.output.explain import explain_no_output
from resile.cli.output.log_follower import until_interrupted
from resile.client.sync import SyncJob
from resile.job.node import NodePhase
from resile.job.training import NodeView
from resile.job.view import JobView

PENDING = NodePhase.PENDING.value


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("job")
@click.argument("nodes", nargs=-1, metavar="[NODE|ROLE]...")
@click.option("--follow", "-f", is_flag=True, help="Follow the logs until the job ends.")
@click.option("--rank", type=COUNT, metavar="N", help="Only the node that currently has rank N.")
@click.option("--all", "everything", is_flag=True, help="All nodes (the default).")
@click.option("--master", is_flag=True, help="The log of the job's master.")
@click.option("--tail", type=COUNT, metavar="N", help="Start with the last N lines of each log.")
@click.option("--prefix/--no-prefix", default=None, help="Print the node's name before each line.")
@cluster_options
def logs(
    job: str,
    nodes: tuple[str, ...],
    follow: bool,
    rank: int | None,
    everything: bool,
    master: bool,
    tail: int | None,
    prefix: bool | None,
    where: ClusterOptions,
) -> None:
    """Print the logs of a job: of all nodes, or of the named nodes or roles.

    A replaced node keeps its own log; --follow continues with its replacement. With more than one
    log, each line starts with the name of the node.

    \b
    Examples:
      resile logs digits
      resile logs digits digits-worker-0 --tail 20
      resile logs digits worker -f
      resile logs digits --rank 0 -f -n team
      resile logs digits --master --tail 20
    """
    if master and (everything or nodes or rank is not None):
        raise click.UsageError(
            "--master prints only the master's log: remove --all, --rank and node names"
        )
    if everything and (nodes or rank is not None):
        raise click.UsageError("--all prints all nodes: remove --rank and node names")
    reader = find_job(job, where)
    if master:
        query = _master_log(reader, tail=tail, follow=follow)
    else:
        query = _node_log(reader, nodes, rank=rank, tail=tail, follow=follow)
    hint = f"see 'resile describe {job}{where.flags}'."
    with until_interrupted(), closing(query.lines):
        if follow and query.silent and reader.running:
            _say_why("Nothing to show yet", query, hint)
        named = prefix if prefix is not None else follow or query.several
        if not _print(query.lines, named=named) and tail != 0:
            _say_why("Nothing to show", query, hint)


@dataclass(frozen=True, kw_only=True)
class LogQuery:
    """The lines to print, and the explanation if there are none."""

    lines: Generator[tuple[str, str], None, None]
    """Pairs of a node's name and a line that it printed."""

    several: bool
    """True if there is more than one log."""

    silent: bool
    """True if no node, or no master, can print anything for now."""

    why: Callable[[], str]
    """Returns why nothing was printed; called when the explanation is shown."""


def _master_log(reader: SyncJob, *, tail: int | None, follow: bool) -> LogQuery:
    return LogQuery(
        lines=reader.master_lines(tail=tail, follow=follow, warn=_warn),
        several=False,
        silent=follow and bool(reader.master_trouble()),
        why=lambda: reader.master_trouble() or "the master has printed nothing yet",
    )


def _node_log(
    reader: SyncJob,
    names: tuple[str, ...],
    *,
    rank: int | None,
    tail: int | None,
    follow: bool,
) -> LogQuery:
    present = reader.log_nodes()
    wanted = _chosen(reader, names, present=present, rank=rank)
    if rank is not None:
        _check_rank(reader, rank, names, present=present, follow=follow)
    chosen = [node for node in present if wanted(node)]
    return LogQuery(
        lines=reader.lines(wanted, tail=tail, follow=follow, warn=_warn),
        several=len(chosen) > 1,
        silent=all(node.phase == PENDING for node in chosen),
        why=lambda: _explain_no_output(reader, wanted),
    )


def _print(lines: Iterable[tuple[str, str]], *, named: bool) -> bool:
    """Print the lines; return whether there was one."""
    printed = False
    for node, line in lines:
        printed = True
        click.echo(f"[{node}] {line}" if named else line)
    return printed


def _say_why(what: str, query: LogQuery, hint: str) -> None:
    reason = " ".join(query.why().split()).rstrip(".")
    click.echo(f"{what}: {reason}; {hint}", err=True)


def _explain_no_output(reader: SyncJob, wanted: Callable[[NodeView], bool]) -> str:
    view, kept = reader.view(), any(wanted(node) for node in reader.log_nodes())
    return explain_no_output(view, wanted=wanted, kept=kept, phase=reader.phase(view))


def _warn(text: str) -> None:
    click.echo(f"Warning: {text}", err=True)


def _chosen(
    reader: SyncJob, names: tuple[str, ...], *, present: list[NodeView], rank: int | None
) -> Callable[[NodeView], bool]:
    """Return a filter for the named nodes; raises ClickException for a name that matches none."""
    job = reader.name
    if names:
        manifest = reader.view().manifest or {}
        roles = set(manifest.get("spec", {}).get("roles", {}))
        for name in names:
            if name in roles or any(_stands_for(name, node, job) for node in present):
                continue
            there = ", ".join([*sorted(roles), *(node.name for node in present)])
            raise click.ClickException(
                f"job '{job}' has no node or role '{name}': {there or 'no output yet'}"
            )

    def wanted(node: NodeView) -> bool:
        return _is_named(node, names, job) and (rank is None or node.rank == rank)

    return wanted


def _check_rank(
    reader: SyncJob,
    rank: int,
    names: tuple[str, ...],
    *,
    present: list[NodeView],
    follow: bool,
) -> None:
    """Refuse a rank that no node has, unless logs are followed and a node may still get it."""
    view = reader.view()
    there = [node for node in (*present, *view.nodes) if _is_named(node, names, reader.name)]
    ranks = {node.rank for node in there if node.rank is not None}
    if rank in ranks or (follow and rank < _most_nodes(view)):
        return
    known = ", ".join(str(one) for one in sorted(ranks))
    raise click.ClickException(
        f"job '{reader.name}' has no node of rank {rank}: {known or 'it has none yet'}"
    )


def _most_nodes(view: JobView) -> float:
    """Return the maximum number of nodes of a role of the job."""
    if view.spec is None:
        return math.inf  # not there yet, or written by another version of Resile
    return max((role.size.max for role in view.spec.roles.values()), default=0)


def _is_named(node: NodeView, names: tuple[str, ...], job: str) -> bool:
    return not names or any(_stands_for(name, node, job) for name in names)


def _stands_for(name: str, node: NodeView, job: str) -> bool:
    return name in (node.name, node.name.removeprefix(f"{job}-"), node.role)
