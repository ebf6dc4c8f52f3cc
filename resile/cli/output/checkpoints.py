"""The output of ``resile ckpt``: checkpoints, and a progress bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from resile.cli.output.format import age, memory
from resile.cli.output.tables import new_console, new_table

__all__ = ["print_checkpoint", "print_checkpoints", "progress_bar"]

MAIN = "(main)"
"""The name shown for the main group beside others: on storage it has none."""


def print_checkpoints(rows: list[dict[str, Any]]) -> None:
    """Print one line per checkpoint; with its group, if there are others than the main one."""
    grouped = any(row["group"] for row in rows)
    numbers = ("STEP", "SIZE", "WORLD", "PARTS", "ROUND")
    group = ("GROUP",) if grouped else ()
    table = new_table(*group, *numbers, "AGE", "JOB", "STATE", numbers=numbers)
    for row in rows:
        table.add_row(
            *((row["group"] or MAIN,) if grouped else ()),
            str(row["step"]),
            memory(row["size"]),
            str(row["world"]),
            str(row["part_count"]),
            str(row["round"]),
            age(row["created"]),
            Text(row["job"] or "-"),
            _state(row),
        )
    new_console().print(table)


def print_checkpoint(row: dict[str, Any]) -> None:
    """Print one checkpoint in full."""
    console = new_console()
    created = datetime.fromtimestamp(row["created"]).astimezone().isoformat(" ", "seconds")
    lines: dict[str, str | Text] = {
        **({"Group": row["group"]} if row["group"] else {}),
        "Step": str(row["step"]),
        "Created": f"{created} ({age(row['created'])} ago)",
        "Job": f"{row['job']}, round {row['round']}" if row["job"] else "-",
        "World": f"{row['world']} workers",
        "Size": memory(row["size"]),
        "State": _state(row),
    }
    for name, value in lines.items():
        console.print(Text(f"{name + ':':<10}", style="bold").append_text(Text.assemble(value)))
    console.print()
    parts = new_table("PART", "SIZE", "CHECKSUM", numbers=("SIZE",))
    for part in row["parts"]:
        parts.add_row(part["name"], memory(part["size"]), part["checksum"])
    console.print(parts)
    if "tensors" in row:
        console.print()
        console.print(_tensors_table(row["tensors"]))


def _tensors_table(tensors: list[dict[str, Any]]) -> Any:
    table = new_table("TENSOR", "TYPE", "SHAPE", "SLICES", "SIZE", numbers=("SLICES", "SIZE"))
    for one in tensors:
        shape = "x".join(map(str, one["shape"])) or "scalar"
        table.add_row(one["name"], one["dtype"], shape, str(one["slices"]), memory(one["size"]))
    return table


def _state(row: dict[str, Any]) -> Text:
    damages: list[str] = row["damages"]
    if not damages and row["superseded"]:
        return Text(row["superseded"], style="yellow")
    if not damages:
        return Text("whole", style="green")
    more = f" and {len(damages) - 1} more" if len(damages) > 1 else ""
    return Text(f"damaged: {damages[0]}{more}", style="red")


@contextmanager
def progress_bar(doing: str, total: int) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the bytes done since its last call. Terminals only."""
    console = Console(stderr=True)
    bar = Progress(
        TextColumn(doing),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task(doing, total=total)
        yield lambda done: bar.advance(task, done)
