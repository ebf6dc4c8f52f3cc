"""What the commands' tables have in common: how they look, and the table of a job's nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from resile.cli.amounts import count, used_cpu, used_memory
from resile.wire.views import EventView, JobPicture, NodePicture

__all__ = ["event_line", "new_console", "new_table", "nodes_table", "phase_text"]

WIDE = 240
"""Columns where there is no terminal: what is read by programs is not folded."""

ROOMY = 110
"""Columns that all of a node's line needs, with room for a reason."""

_COLOURS = {
    "Running": "green",
    "Succeeded": "green",
    "Failed": "red",
    "Crashed": "red",
    "Pending": "yellow",
    "Waiting": "yellow",
    "Restarting": "yellow",
    "Starting": "yellow",
    "Suspended": "yellow",
    "Deleting": "magenta",
}


def new_console() -> Console:
    """Where to print: nothing in the texts is taken for markup."""
    console = Console(markup=False, highlight=False, emoji=False)
    return (
        console
        if console.is_terminal
        else Console(markup=False, highlight=False, emoji=False, width=WIDE)
    )


def new_table(*columns: str, numbers: Iterable[str] = ()) -> Table:
    """A table without lines; ``numbers`` are set to the right."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in columns:
        table.add_column(name, justify="right" if name in numbers else "left", no_wrap=True)
    table.columns[-1].no_wrap = False
    return table


def phase_text(phase: str) -> Text:
    """A phase in its colour."""
    return Text(phase, style=_COLOURS.get(phase, ""))


def nodes_table(picture: JobPicture, *, width: int, most: int | None = None) -> Table:
    """All nodes, one line each; at most ``most`` of them, and less of each if it is narrow.

    Where a node runs is told when there is more than one such place.
    """
    hidden = set() if width >= ROOMY else set(_DISPENSABLE)
    if len({node.host for node in picture.nodes if node.host}) < 2:
        hidden.add("HOST")
    columns = [name for name in _COLUMNS if name not in hidden]
    table = new_table(*columns, numbers=_NUMBERS)
    shown = picture.nodes if most is None else picture.nodes[:most]
    for node in shown:
        table.add_row(*(_COLUMNS[name](node) for name in columns))
    if len(shown) < len(picture.nodes):
        table.add_row(f"… and {len(picture.nodes) - len(shown)} more")
    return table


def _memory(node: NodePicture) -> str:
    used = used_memory(node.usage)
    return f"{used}/{node.memory_limit}" if node.memory_limit else used


def _in_the_round(node: NodePicture) -> str:
    """What the node does in the round: ``2 running``, ``spare``, ``3 ready (away)``."""
    if not node.state:
        return "-"
    where = f"{node.round} {node.state}" if node.round else node.state
    return where if node.connected else f"{where} (away)"


def _why(node: NodePicture) -> Text:
    said = "" if node.phase in ("Running", "Succeeded") else node.message
    return Text(said, style="dim", overflow="ellipsis")


def event_line(event: EventView, *, when: str) -> Text:
    """One event: when, what, why."""
    line = Text().append(f"{when}  ", style="dim")
    line.append(f"{event.kind:<18}", style=_event_colour(event.kind))
    return line.append(f" {event.text}")


def _event_colour(kind: str) -> str:
    if kind.endswith(("Failed", "Lost", "GivenUp")):
        return "red"
    if kind.endswith(("Relaunched", "Pending", "Left", "Forming", "Interrupted")):
        return "yellow"
    return "green" if kind.endswith(("Running", "Succeeded", "Started")) else "cyan"


_COLUMNS: dict[str, Callable[[NodePicture], Text | str]] = {
    "NODE": lambda node: node.name or "-",
    "ID": lambda node: count(node.id),
    "ROLE": lambda node: node.role,
    "RANK": lambda node: count(node.rank),
    "PHASE": lambda node: phase_text(node.phase),
    "HOST": lambda node: node.host or "-",
    "ROUND": _in_the_round,
    "STEP": lambda node: count(node.step),
    "RESTARTS": lambda node: str(node.restarts),
    "CPU": lambda node: used_cpu(node.usage),
    "MEMORY": _memory,
    "WHY": _why,
}
_NUMBERS = frozenset({"ID", "RANK", "STEP", "RESTARTS", "CPU", "MEMORY"})
_DISPENSABLE = frozenset({"ROLE", "HOST", "CPU", "MEMORY"})
