"""``resile logs``: what a job's nodes have printed, and go on printing."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain

import click

from resile.cli.follower import LogFollower, until_interrupted
from resile.cli.reader import JobReader, find_job
from resile.job.node import serial_of

POLL = 0.2
"""How often a followed log is looked at: fast for a person, slow for a machine."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("job")
@click.argument("nodes", nargs=-1, metavar="[NODE|ROLE]...")
@click.option("--follow", "-f", is_flag=True, help="Go on until the job is over.")
@click.option(
    "--tail", type=click.IntRange(0), metavar="N", help="Only the last N lines of each so far."
)
@click.option("--prefix/--no-prefix", default=None, help="The node's name before each line.")
def logs(
    job: str, nodes: tuple[str, ...], follow: bool, tail: int | None, prefix: bool | None
) -> None:
    """Print the output of a job's nodes: of all, or of those named, or of the roles named.

    Nodes that were replaced have logs of their own. With more than one log each line begins with
    the name of its node.

    \b
    Examples:
      resile logs digits
      resile logs digits digits-worker-0 --tail 20
      resile logs digits worker -f
    """
    reader = find_job(job)
    wanted = _chosen(reader, nodes)
    known = [file.node for file in reader.log_files() if wanted(file.node)]
    named = prefix if prefix is not None else follow or len(known) > 1
    follower = LogFollower(reader, wanted=wanted)
    so_far: Iterator[tuple[str, str]] = follower.lines()
    if tail is not None:
        so_far = _last(so_far, tail)
    _print(so_far, named)
    with until_interrupted():
        while follow and reader.running:
            time.sleep(POLL)
            _print(follower.lines(), named)
    _print(follower.lines(), named)
    _print(follower.rests(), named)


def _last(lines: Iterator[tuple[str, str]], number: int) -> Iterator[tuple[str, str]]:
    """The last lines of each log."""
    kept: dict[str, deque[tuple[str, str]]] = {}
    for node, line in lines:
        kept.setdefault(node, deque(maxlen=number)).append((node, line))
    return chain.from_iterable(kept.values())


def _print(lines: Iterator[tuple[str, str]], named: bool) -> None:
    for node, line in lines:
        click.echo(f"[{node}] {line}" if named else line)


def _chosen(reader: JobReader, names: tuple[str, ...]) -> Callable[[str], bool]:
    """Which logs the names stand for; one that stands for nothing is the user's mistake."""
    if not names:
        return lambda _node: True
    present = [file.node for file in reader.log_files()]
    manifest = reader.picture().manifest or {}
    roles = set(manifest.get("spec", {}).get("roles", {}))
    for name in names:
        if name in roles or any(_stands_for(name, node, reader.name) for node in present):
            continue
        there = ", ".join([*sorted(roles), *present]) or "no output yet"
        raise click.ClickException(f"job '{reader.name}' has no node or role '{name}': {there}")
    return lambda node: any(_stands_for(name, node, reader.name) for name in names)


def _stands_for(name: str, node: str, job: str) -> bool:
    if name in (node, node.removeprefix(f"{job}-")):
        return True
    return serial_of(node) is not None and node.rpartition("-")[0] == f"{job}-{name}"
