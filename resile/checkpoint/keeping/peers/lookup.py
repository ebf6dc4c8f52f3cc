"""Headers of parts on other nodes, asked for once for all workers of this one.

All workers of a node that restores ask the same, at about the same time: the first one's answer
serves the others, until training goes on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from resile.checkpoint.slots import Label

__all__ = ["Lookup"]

Ask = Callable[[str, tuple[Label, ...]], tuple[bytes, ...]]


@dataclass
class _Asked:
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Taken for as long as asking takes."""

    found: tuple[bytes, ...] | None = None


class Lookup:
    """``ask`` gets the headers from a keeper; what it raises is not remembered."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._asked: dict[tuple[str, tuple[Label, ...]], _Asked] = {}
        self._table = threading.Lock()

    def headers(self, address: str, labels: tuple[Label, ...]) -> tuple[bytes, ...]:
        """Of these parts at that keeper, empty for one that is not there."""
        with self._table:
            asked = self._asked.setdefault((address, labels), _Asked())
        with asked.lock:
            if asked.found is None:
                asked.found = self._ask(address, labels)
            return asked.found

    def forget(self) -> None:
        """Give the memory back, and ask anew from now on. Never waits."""
        with self._table:
            self._asked = {}
