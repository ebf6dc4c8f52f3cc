"""A cache of the headers of parts on other nodes, shared by all workers of this node.

All workers of a restoring node request the same headers at about the same time: the answer to the
first serves the others, until training continues.
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
    """Held while the headers are fetched."""

    found: tuple[bytes, ...] | None = None


class Lookup:
    """``ask`` fetches the headers from a server; its errors are not cached."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._asked: dict[tuple[str, tuple[Label, ...]], _Asked] = {}
        self._table = threading.Lock()

    def headers(self, address: str, labels: tuple[Label, ...]) -> tuple[bytes, ...]:
        """The headers of these parts at that server, empty for missing ones."""
        with self._table:
            asked = self._asked.setdefault((address, labels), _Asked())
        with asked.lock:
            if asked.found is None:
                asked.found = self._ask(address, labels)
            return asked.found

    def forget(self) -> None:
        """Clear the cache. Never waits."""
        with self._table:
            self._asked = {}
