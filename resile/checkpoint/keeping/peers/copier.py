"""Sends copies to the next node, one after the other, in the background.

Only the newest step of each part waits: an older one that was not sent yet is of no use to anybody
once the newer is whole. Trouble is told once for each cause and stays in the status until a copy
arrives again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from resile.checkpoint.errors import CheckpointError
from resile.checkpoint.slots import Label, Place

__all__ = ["Copier"]


class Copier:
    """``copy`` leaves a part at an address and says whether it is there."""

    def __init__(
        self,
        copy: Callable[[str, Label], bool],
        *,
        news: Callable[[int, str], None],
    ) -> None:
        self._copy = copy
        self._news = news
        self._next = ""
        self._waiting: dict[Place, Label] = {}
        self._closed = False
        self._changed = threading.Condition()
        self._started = False
        self.copied: int | None = None
        self.trouble = ""

    @property
    def next(self) -> str:
        """Where copies go."""
        return self._next

    def turn_to(self, address: str) -> bool:
        """Send there from now on, empty for nowhere; whether that is new."""
        with self._changed:
            if address == self._next:
                return False
            self._next = address
            self._waiting.clear()
            self.copied, self.trouble = None, ""
            return True

    def send(self, label: Label) -> None:
        """Copy a part when its turn comes."""
        with self._changed:
            if not self._next or self._closed:
                return
            self._waiting.pop(label.place, None)
            self._waiting[label.place] = label
            if not self._started:
                self._started = True
                threading.Thread(target=self._run, name="resile-copier", daemon=True).start()
            self._changed.notify_all()

    def close(self) -> None:
        """Send no more."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if self._closed:
                    return
                place = next(iter(self._waiting))
                label, address = self._waiting.pop(place), self._next
            self._send(address, label)

    def _send(self, address: str, label: Label) -> None:
        try:
            arrived = self._copy(address, label)
        except CheckpointError as error:
            self._note(address, label, str(error))
            return
        with self._changed:
            if arrived and address == self._next:
                self.trouble = ""
                if not any(one.step == label.step for one in self._waiting.values()):
                    self.copied = label.step

    def _note(self, address: str, label: Label, trouble: str) -> None:
        with self._changed:
            if address != self._next or self._closed:
                return
            known, self.trouble = self.trouble, trouble
        if known != trouble:
            self._news(logging.WARNING, f"{label.name} was not copied to another node: {trouble}")
