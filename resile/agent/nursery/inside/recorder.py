"""What a warm worker imports beyond what it was born with, told to the agent.

The recorder stands first among the import system's finders, finds nothing and writes each name it
is asked for to the agent's pipe. The pipe is opened for each report, through the nursery's own
descriptor, and closed again: a worker that kept it open would hand it on to all its children.
A report that cannot be made is dropped, silently and for good.
"""

import os
import sys
from collections.abc import Sequence
from types import ModuleType


class Recorder:
    """Reports the names of modules as they are first imported."""

    def __init__(self, nursery: int, descriptor: int) -> None:
        self._pipe = f"/proc/{nursery}/fd/{descriptor}"
        self._told: set[str] = set()

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> None:
        if name not in self._told:
            self._told.add(name)
            self._tell(name)

    def _tell(self, name: str) -> None:
        try:
            pipe = os.open(self._pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                os.write(pipe, name.encode() + b"\n")
            finally:
                os.close(pipe)
        except (OSError, UnicodeError):
            if self in sys.meta_path:
                sys.meta_path.remove(self)
