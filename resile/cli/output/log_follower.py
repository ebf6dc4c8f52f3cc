"""Following logs on a terminal."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from resile.client.log_lines import LogLines
from resile.local.jobdir import JobDir

__all__ = ["LogFollower", "until_interrupted"]

INTERRUPTED = 130


@contextlib.contextmanager
def until_interrupted() -> Iterator[None]:
    """Treat Ctrl-C as the normal way to stop following: no error, and the usual exit code."""
    try:
        yield
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


class LogFollower:
    """Reads the logs in a job's folder as they grow."""

    def __init__(self, folder: JobDir) -> None:
        self._folder = folder
        self._lines = LogLines()

    def lines(self) -> Iterator[tuple[str, str]]:
        """Yield the lines written since the last call, each with its node's name, log by log."""
        for file in self._folder.log_files():
            while (offset := self._lines.offset(file)) is not None:
                try:
                    piece = self._folder.log(file.node, offset=offset)
                except FileNotFoundError:
                    break  # the job has been deleted
                if not piece:
                    break
                yield from self._lines.take(file.node, piece)

    def rests(self) -> Iterator[tuple[str, str]]:
        """Yield last lines that have no newline."""
        yield from self._lines.rests()
