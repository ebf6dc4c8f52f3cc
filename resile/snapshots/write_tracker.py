"""Tracks what the writer process is writing, and the outcomes."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable

from resile.snapshots.memory_budget import gibibytes
from resile.snapshots.messages import Status
from resile.snapshots.slots import PartPlace
from resile.snapshots.writer import (
    Failed,
    Finished,
    Moved,
    PartsWritten,
    Published,
    Target,
    Write,
    WriteProgress,
)

__all__ = ["WriteTracker"]


class WriteTracker:
    """Tracks writes. Thread-safe. ``news`` is called with a level and a line for the log."""

    def __init__(self, news: Callable[[int, str], None]) -> None:
        self._news = news
        self._lock = threading.Lock()
        self._places: dict[PartPlace, int] = {}
        self._steps: Counter[int] = Counter()
        self._written: int | None = None
        self._committed: int | None = None
        self._orders = 0
        self._committed_order = 0
        self._to_publish: int | None = None
        """The latest step that this node's writer is to publish."""
        self._trouble = ""
        self._troubled: tuple[Target, tuple[PartPlace, ...]] | None = None
        """The target and places that the error belongs to."""

    def begin(self, places: tuple[PartPlace, ...], step: int) -> int | None:
        """Note that these parts are being written; returns the step of an unfinished write, if
        any."""
        with self._lock:
            for place in places:
                if place in self._places:
                    return self._places[place]
            self._places.update(dict.fromkeys(places, step))
            self._steps[step] += 1
        return None

    def give_up(self, places: tuple[PartPlace, ...], step: int) -> None:
        """Undo ``begin``: the write was not started."""
        with self._lock:
            self._free(places, step)
            self._end(step)

    def hear(
        self, places: tuple[PartPlace, ...], order: Write
    ) -> Callable[[Finished | WriteProgress], None]:
        """The callback for the writer's answers to an order."""
        with self._lock:
            self._orders += 1
            number = self._orders
            if order.publication is not None:
                self._to_publish = order.target.step
        return lambda word: self._hear(number, places, order, word)

    @property
    def stored(self) -> int | None:
        """The newest step that this node has written to storage, and published if that is its
        task."""
        with self._lock:
            if self._to_publish == self._written:
                return self._committed
            unfinished = self._written in self._steps
            failed = self._troubled is not None and self._troubled[0].step == self._written
            return None if unfinished or failed else self._written

    def status(self, *, copied: int | None, copy_trouble: str) -> Status:
        """The status for workers."""
        with self._lock:
            return Status(
                writing=tuple(sorted(self._steps)),
                written=self._written,
                committed=self._committed,
                trouble=self._trouble,
                troubled_step=self._troubled[0].step if self._troubled else None,
                copied=copied,
                copy_trouble=copy_trouble,
            )

    def _hear(
        self,
        number: int,
        places: tuple[PartPlace, ...],
        order: Write,
        word: Finished | WriteProgress,
    ) -> None:
        step, url = order.target.step, order.target.url
        match word:
            case WriteProgress(text=text):
                self._news(logging.WARNING, f"checkpoint of step {step}: {text}")
            case Failed(reason=reason):
                with self._lock:
                    overtaken = self._committed_order > number
                    if not overtaken:
                        self._trouble = reason
                        self._troubled = order.target, places
                    self._free(places, step)
                    self._end(step)
                level = logging.INFO if overtaken else logging.ERROR
                self._news(level, f"checkpoint of step {step} was not written: {reason}")
            case PartsWritten():
                with self._lock:
                    self._written = step
                    if not self._lacks_others(order.target, places):
                        self._forget_trouble()
                    self._free(places, step)
                    if order.publication is None:
                        self._end(step)
            case Published(size=size, seconds=seconds):
                with self._lock:
                    self._committed, self._committed_order = step, number
                    self._forget_trouble()
                    self._end(step)
                self._news(
                    logging.DEBUG,
                    f"checkpoint of step {step} is complete in {url}: {gibibytes(size)}, "
                    f"published after {seconds:.1f} s",
                )
            case Moved():
                raise AssertionError("a write does not move bytes between nodes")

    def _lacks_others(self, target: Target, places: tuple[PartPlace, ...]) -> bool:
        """Whether other parts of the same checkpoint could not be written."""
        if self._troubled is None:
            return False
        troubled, lacking = self._troubled
        same = (troubled.step, troubled.attempt) == (target.step, target.attempt)
        return same and lacking != places

    def _forget_trouble(self) -> None:
        self._trouble, self._troubled = "", None

    def _free(self, places: tuple[PartPlace, ...], step: int) -> None:
        for place in places:
            if self._places.get(place) == step:
                del self._places[place]

    def _end(self, step: int) -> None:
        self._steps[step] -= 1
        if self._steps[step] <= 0:
            del self._steps[step]
