"""The main loop of the writer process: carries out orders.

Parts are written one order at a time: parallel writes are rarely faster. Publishing waits for other
nodes and transfers wait for the network, so each runs in its own thread. A failure is reported to
the owner and affects only its order. When the owner is gone, failed writes are printed instead.
"""

from __future__ import annotations

import contextlib
import os
import queue
import socket
import sys
import threading
import time
from collections.abc import Callable
from functools import partial

from resile.checkpoint.catalog import CheckpointCatalog
from resile.checkpoint.commit import publish, write_part
from resile.checkpoint.errors import CheckpointError, PartsMissing, Superseded
from resile.checkpoint.prune import discard_attempt, prune_after_publishing, write_or_make_room
from resile.checkpoint.storage.base import Storage, open_storage
from resile.checkpoint.storage.retry import RetryPolicy
from resile.snapshots import packets
from resile.snapshots.memory import collapse_pages, map_memory
from resile.snapshots.slots import BEGIN
from resile.snapshots.splice import pull, push
from resile.snapshots.writer.messages import (
    CheckpointPublication,
    CollapsePages,
    Failed,
    Finished,
    Moved,
    Order,
    PagesCollapsed,
    PartsWritten,
    Published,
    Receive,
    Send,
    Stopped,
    StopTransfer,
    Target,
    Write,
    WriteProgress,
    WriterAnswer,
)

__all__ = ["WriterLoop"]

_FOREVER = 1e9
"""Seconds: added to the clock of a waiting publication, they end any timeout."""

Tell = Callable[[Finished | WriteProgress], None]

Series = tuple[str, str]
"""A storage and a group: a sequence of checkpoints."""


class WriterLoop:
    """Carries out orders and reports each to the owner."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._telling = threading.Lock()
        self._writes: queue.Queue[Callable[[], None]] = queue.Queue()
        self._publishing: dict[threading.Event, Target] = {}
        self._lacking: dict[Series, tuple[int, str]] = {}
        """For each series the step that could not be written, and why, unless a later one was."""
        self._reached: dict[Series, int] = {}
        self._said: set[str] = set()
        """Messages already reported about old checkpoints."""
        self._moving: dict[int, threading.Event] = {}
        """For each transfer: whether to stop."""
        self._unfinished = 0
        self._changed = threading.Condition()
        threading.Thread(target=self._write_all, name="write", daemon=True).start()

    def begin(self, number: int, order: Order | StopTransfer, descriptors: list[int]) -> None:
        """Start on an order, or stop one; returns at once."""

        def tell(word: Finished | WriteProgress) -> None:
            with self._telling, contextlib.suppress(OSError):
                packets.send(self._line, WriterAnswer(number, word))

        if isinstance(order, Write):
            self._count(1)

            def tell_and_note(word: Finished | WriteProgress) -> None:
                self._note(order, word)
                tell(word)

            self._writes.put(lambda: self._write(order, descriptors, tell_and_note))
        elif isinstance(order, CollapsePages):
            self._in_thread(lambda: _told(tell, lambda: _gather(descriptors)))
        elif isinstance(order, StopTransfer):
            if stop := self._moving.get(number):
                stop.set()
        else:
            self._moving[number] = threading.Event()
            self._in_thread(lambda: self._move(number, order, descriptors, tell))

    def finish(self) -> None:
        """After the owner's death: wait until all write orders are done, and print failed ones.
        If the owner received the failure as well, it is reported twice."""
        with self._changed:
            self._changed.wait_for(lambda: self._unfinished == 0)
        with contextlib.suppress(OSError):
            for step, reason in self._lacking.values():
                print(
                    f"resile: checkpoint of step {step} was not written: {reason}", file=sys.stderr
                )
            sys.stderr.flush()

    def _note(self, order: Write, word: Finished | WriteProgress) -> None:
        series, step = _series(order.target), order.target.step
        if isinstance(word, Failed) and step >= self._reached.get(series, 0):
            self._lacking[series] = step, word.reason
        elif isinstance(word, PartsWritten if order.publication is None else Published):
            self._reached[series] = step
            if self._lacking.get(series, (step, ""))[0] <= step:
                self._lacking.pop(series, None)

    def _count(self, change: int) -> None:
        with self._changed:
            self._unfinished += change
            self._changed.notify_all()

    @staticmethod
    def _in_thread(action: Callable[[], object]) -> None:
        threading.Thread(target=action, daemon=True).start()

    def _write_all(self) -> None:
        while True:
            self._writes.get()()

    def _write(self, order: Write, descriptors: list[int], tell: Tell) -> None:
        well = _told(tell, lambda: _write_parts(order, descriptors, tell))
        if not well and order.publication is not None:
            _discard(order.target)
        publication = order.publication
        if well and publication is not None:
            self._in_thread(lambda: self._publish(order.target, publication, tell))
        else:
            self._count(-1)

    def _move(self, number: int, order: Send | Receive, descriptors: list[int], tell: Tell) -> None:
        stop = self._moving[number]
        _told(tell, lambda: _move(order, descriptors, stop))
        del self._moving[number]

    def _publish(self, target: Target, publication: CheckpointPublication, tell: Tell) -> None:
        """Publish. A checkpoint with missing parts is given up once a later one, or a later try of
        the same step, exists: a node that was lost meanwhile will never write them."""
        overtaken = threading.Event()
        self._publishing[overtaken] = target
        try:
            if _told(tell, lambda: self._published(target, publication, tell, overtaken)):
                for other, older in list(self._publishing.items()):
                    if _series(older) == _series(target) and older.step <= target.step:
                        other.set()
        finally:
            del self._publishing[overtaken]
            self._count(-1)

    def _published(
        self,
        target: Target,
        publication: CheckpointPublication,
        tell: Tell,
        overtaken: threading.Event,
    ) -> Published:
        catalog = _catalog(target)
        try:
            published = _publish(catalog.storage, target, publication, tell, overtaken)
        except (PartsMissing, Superseded):
            discard_attempt(catalog, step=target.step, attempt=target.attempt)
            raise
        prune_after_publishing(
            catalog,
            keep=publication.keep,
            said=self._said,
            tell=lambda text: tell(WriteProgress(text=text)),
        )
        return published


def _series(target: Target) -> Series:
    return target.url, target.group


def _catalog(target: Target) -> CheckpointCatalog:
    return CheckpointCatalog(open_storage(target.url, **target.options), target.group)


def _told(tell: Tell, action: Callable[[], Finished]) -> bool:
    """Run an action and report its outcome; returns whether it succeeded."""
    try:
        tell(action())
    except (CheckpointError, OSError) as error:
        tell(Failed(reason=str(error)))
    except Exception as error:
        # A bug, or an unexpected exception of a storage library: other orders are not affected.
        tell(Failed(reason=f"{type(error).__name__}: {error}"))
        sys.excepthook(type(error), error, error.__traceback__)
    else:
        return True
    return False


def _write_parts(order: Write, descriptors: list[int], tell: Tell) -> PartsWritten:
    started = time.monotonic()
    target = order.target

    def say(text: str) -> None:
        tell(WriteProgress(text=text))

    try:
        catalog = _catalog(target)
        for descriptor, length in zip(descriptors, order.lengths, strict=True):
            with (
                map_memory(descriptor, writable=False) as whole,
                whole[BEGIN : BEGIN + length] as part,
            ):
                write_or_make_room(
                    catalog,
                    partial(
                        write_part,
                        catalog.storage,
                        part,
                        attempt=target.attempt,
                        policy=RetryPolicy(target.retry_seconds),
                        tell=say,
                    ),
                    tell=say,
                )
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    return PartsWritten(size=sum(order.lengths), seconds=time.monotonic() - started)


def _discard(target: Target) -> None:
    """Remove the parts of a checkpoint that will not be published: no other writer would."""
    with contextlib.suppress(CheckpointError):
        discard_attempt(_catalog(target), step=target.step, attempt=target.attempt)


def _publish(
    storage: Storage,
    target: Target,
    publication: CheckpointPublication,
    tell: Tell,
    overtaken: threading.Event,
) -> Published:
    started = time.monotonic()
    manifest = publish(
        storage,
        step=target.step,
        world=publication.world,
        replicas=publication.replicas,
        attempt=target.attempt,
        group=target.group,
        job=publication.job,
        round=publication.round,
        claim=publication.claim,
        policy=RetryPolicy(
            target.retry_seconds, clock=lambda: time.monotonic() + _FOREVER * overtaken.is_set()
        ),
        tell=lambda text: tell(WriteProgress(text=text)),
    )
    return Published(step=manifest.step, size=manifest.size, seconds=time.monotonic() - started)


def _gather(descriptors: list[int]) -> PagesCollapsed:
    try:
        for descriptor in descriptors:
            collapse_pages(descriptor)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    return PagesCollapsed()


def _move(order: Send | Receive, descriptors: list[int], stop: threading.Event) -> Moved | Stopped:
    slot, line = descriptors
    try:
        with socket.socket(fileno=line) as connection:
            move = push if isinstance(order, Send) else pull
            moved = move(slot, connection, length=order.length, stop=stop.is_set)
    finally:
        os.close(slot)
    return Moved() if moved == order.length else Stopped(moved=moved)
