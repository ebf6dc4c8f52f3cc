"""Progress of a long run: a live bar on a terminal, one plain line per turn elsewhere."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


@contextmanager
def progress(console: Console, name: str, *, total: int) -> Iterator[Callable[[str], None]]:
    """Yield a function to call with a description before each of `total` turns."""
    if console.is_terminal:
        yield from _bar(console, name, total=total)
    else:
        yield from _lines(console, name, total=total)


def _bar(console: Console, name: str, *, total: int) -> Iterator[Callable[[str], None]]:
    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("[dim]{task.fields[turn]}"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(name, total=total, turn="")
        begun = False

        def advance(turn: str) -> None:
            nonlocal begun
            bar.update(task, advance=1 if begun else 0, turn=turn)
            begun = True

        yield advance


def _lines(console: Console, name: str, *, total: int) -> Iterator[Callable[[str], None]]:
    count = 0

    def advance(turn: str) -> None:
        nonlocal count
        count += 1
        console.print(f"{name} {count}/{total}: {turn}")

    yield advance
