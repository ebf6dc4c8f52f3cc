"""The tables of the commands: their common style, and the tables of nodes, groups and events."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from resile.cli.output.format import count, used_memory
from resile.job.events import Severity, severity_of
from resile.job.training import NodeView, TrainingPhase
from resile.job.view import JobView
from resile.wire.views import EventView

__all__ = ["event_line", "groups_table", "new_console", "new_table", "nodes_table", "phase_text"]

WIDE = 240
"""Width without a terminal: output that programs read is not folded."""

GAP = 2
"""Columns between two columns of a table."""

REASON = 32
"""Width for the reason why a node is not well, if the whole text does not fit."""

_WELL = ("Running", "Succeeded")

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
    """Return a console on which texts are not interpreted as markup."""
    console = Console(markup=False, highlight=False, emoji=False)
    return (
        console
        if console.is_terminal
        else Console(markup=False, highlight=False, emoji=False, width=WIDE)
    )


def new_table(*columns: str, numbers: Iterable[str] = ()) -> Table:
    """Return a table without lines; the columns ``numbers`` are right-aligned."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in columns:
        table.add_column(name, justify="right" if name in numbers else "left", no_wrap=True)
    table.columns[-1].no_wrap = False
    return table


def phase_text(phase: str) -> Text:
    """Return a phase in its colour."""
    return Text(phase, style=_COLOURS.get(phase, ""))


def nodes_table(view: JobView, *, width: int, most: int | None = None) -> Table:
    """Return all nodes, one line each; at most ``most`` lines, and fewer columns if it is narrow.

    The host of a node is shown if the nodes run on more than one.
    """
    shown = view.nodes if most is None else _most_telling(view.nodes, most)
    cells = {name: [str(cell(node)) for node in shown] for name, cell in _COLUMNS.items()}
    widths = {name: max(map(len, (name, *texts))) + GAP for name, texts in cells.items()}
    columns = _that_fit(widths, _without_news(view.nodes), width=width)
    table = new_table(*columns, numbers=_NUMBERS)
    if columns[-1] == "WHY":
        table.columns[-1].max_width = width - sum(widths[name] for name in columns[:-1])
    for node in shown:
        table.add_row(*(_COLUMNS[name](node) for name in columns))
    if most is not None:
        table.columns[-1].no_wrap = True  # exactly one line each
    if len(shown) < len(view.nodes):
        table.add_row(f"… and {len(view.nodes) - len(shown)} more")
    return table


def groups_table(view: JobView, *, most: int) -> Table:
    """Return the trainings of all groups but the main one; at most ``most``, failed ones first."""
    names = sorted(view.groups, key=lambda name: view.groups[name].phase != TrainingPhase.FAILED)
    numbers = ("ROUND", "WORKERS", "STEP", "RESTARTS")
    table = new_table("GROUP", "TRAINING", *numbers, "THROUGHPUT", "WHY", numbers=numbers)
    for name in names[:most]:
        seen = view.groups[name]
        table.add_row(
            name,
            seen.phase or "-",
            *(str(seen.round), str(seen.world_size), count(seen.step), str(seen.restarts)),
            seen.throughput or "-",
            Text(seen.reason, style="dim"),
        )
    if len(names) > most:
        table.add_row(f"… and {len(names) - most} more")
    return table


def _most_telling(nodes: tuple[NodeView, ...], most: int) -> tuple[NodeView, ...]:
    """Return the nodes for at most ``most`` lines, one of which says how many nodes were left out;
    those are the last of the nodes that run well."""
    if len(nodes) <= most:
        return nodes
    troubled = [node for node in nodes if node.phase not in _WELL]
    well = [node for node in nodes if node.phase in _WELL]
    kept = {id(node) for node in [*troubled, *well][: max(1, most - 1)]}
    return tuple(node for node in nodes if id(node) in kept)


def _without_news(nodes: tuple[NodeView, ...]) -> set[str]:
    """Return the columns without information."""
    silent = set()
    if len({node.host for node in nodes if node.host}) < 2:
        silent.add("HOST")
    if all(node.loss is None for node in nodes):
        silent.add("LOSS")
    if not any(node.worker_pids for node in nodes):
        silent.add("PIDS")
    if all(node.phase in _WELL for node in nodes):
        silent.add("WHY")
    return silent


def _that_fit(widths: dict[str, int], hidden: set[str], *, width: int) -> list[str]:
    """Return the names of the columns that fit. A reason may be cut, but is not left out in favour
    of another column."""
    needed = {**widths, "WHY": min(widths["WHY"], REASON)}
    for name in _DISPENSABLE:
        if sum(size for column, size in needed.items() if column not in hidden) <= width:
            break
        hidden.add(name)
    return [name for name in widths if name not in hidden]


def _memory(node: NodeView) -> str:
    used = used_memory(node.memory)
    return f"{used}/{node.memory_limit}" if node.memory_limit else used


def _in_the_round(node: NodeView) -> str:
    """Return the node's state in the round: ``2 running``, ``spare``, ``3 ready (away)``."""
    if not node.state:
        return "-"
    where = f"{node.round} {node.state}" if node.round else node.state
    return f"{where} (away)" if node.away else where


def _why(node: NodeView) -> Text:
    said = "" if node.phase in _WELL else node.message
    return Text(said, style="dim", overflow="ellipsis")


def event_line(event: EventView, *, when: str) -> Text:
    """Format one event: when, what, why."""
    line = Text().append(f"{when}  ", style="dim")
    line.append(f"{event.kind:<18}", style=_SEVERITY_COLOURS[severity_of(event.kind)])
    return line.append(f" {event.text}")


_SEVERITY_COLOURS = {
    Severity.WARNING: "red",
    Severity.NOTICE: "yellow",
    Severity.NORMAL: "green",
}


_COLUMNS: dict[str, Callable[[NodeView], Text | str]] = {
    "NODE": lambda node: node.name or "-",
    "ID": lambda node: count(node.id),
    "ROLE": lambda node: node.role,
    "RANK": lambda node: count(node.rank),
    "PHASE": lambda node: phase_text(node.phase),
    "HOST": lambda node: node.host or "-",
    "ROUND": _in_the_round,
    "PIDS": lambda node: " ".join(map(str, node.worker_pids)) or "-",
    "STEP": lambda node: count(node.step),
    "LOSS": lambda node: "-" if node.loss is None else f"{node.loss:.4g}",
    "RESTARTS": lambda node: str(node.restarts),
    "CPU": lambda node: node.cpu or "-",
    "MEMORY": _memory,
    "WHY": _why,
}
_NUMBERS = frozenset({"ID", "RANK", "STEP", "LOSS", "RESTARTS", "CPU", "MEMORY"})
_DISPENSABLE = ("PIDS", "HOST", "LOSS", "CPU", "MEMORY", "ROLE", "ID", "RANK", "RESTARTS", "WHY")
"""Columns left out one after another, in this order, until a table is narrow enough."""
