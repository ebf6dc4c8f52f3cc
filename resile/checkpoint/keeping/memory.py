"""A worker's view of its node's snapshots, whoever keeps them.

`SnapshotMemory` is what a checkpointer uses: fill memory in turn (``begin``, ``complete``), see
what is held here (``inventory``, ``open_all``) and elsewhere (``headers``, ``fetch``), have it
written (``persist``, ``status``). The two kinds of it differ in one method: how a request reaches
the keeper.
"""

from __future__ import annotations

import contextlib
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from resile.checkpoint.errors import CheckpointError, NoRoom
from resile.checkpoint.handover import HandoverPage
from resile.checkpoint.keeping import headers
from resile.checkpoint.keeping.errors import KeeperRefused
from resile.checkpoint.keeping.messages import (
    AT_ONCE,
    Accepted,
    Answer,
    Arriving,
    Await,
    Busy,
    Come,
    Completed,
    Done,
    Fetch,
    FetchHeaders,
    Headers,
    Held,
    Hello,
    Holding,
    Inventory,
    List,
    NotEnoughRoom,
    Open,
    Opened,
    Persist,
    Publication,
    Refused,
    Request,
    Reserve,
    Reserved,
    Resumed,
    Status,
    StatusWanted,
    Target,
    Waiting,
    Watched,
)
from resile.checkpoint.keeping.opened import ArrivingPart, HeldPart, opened_parts, received
from resile.checkpoint.pair import Begun, SlotPair
from resile.checkpoint.part import PartKind
from resile.checkpoint.slots import Label

__all__ = ["SnapshotMemory"]

A = TypeVar("A")


class SnapshotMemory(ABC):
    """The snapshots of this worker's node.

    Methods raise :class:`~resile.checkpoint.keeping.errors.KeeperGone` when the keeper is dead.
    """

    address: str = ""
    """Where other nodes' keepers reach this node's; empty if they cannot."""

    trouble: str = ""
    """What the last completed part was told of storage's trouble, with the step; empty if there is
    none."""

    def __init__(self, worker: Hello) -> None:
        self.worker = worker
        self._pairs: dict[PartKind, SlotPair] = {}
        self._ahead: threading.Thread | None = None
        self._reserved_ahead = threading.Event()
        self._reserved_ahead.set()

    @abstractmethod
    def _ask(self, request: Request) -> tuple[Answer, Sequence[int]]:
        """The keeper's answer; its descriptors are ours to close."""

    @abstractmethod
    def close(self) -> None:
        """Let the keeper go; what it was told to write is written."""

    # --- filling ----------------------------------------------------------------------------

    def reserve(self, kind: PartKind, size: int) -> None:
        """Have memory for parts of up to ``size`` bytes; raises :class:`NoRoom`.

        ``begin`` calls it if need be.
        """
        pair = self._pairs.get(kind)
        if pair is not None and pair.capacity >= size:
            return
        _, descriptors = self._expect(Reserved, Reserve(kind=kind, size=size))
        if pair is not None:
            pair.close()
        self._pairs[kind] = SlotPair(descriptors)

    def reserve_ahead(self, sizes: Mapping[PartKind, int]) -> None:
        """The same without waiting for it, so that the first snapshot costs what the later ones do.

        Trouble is not told here: ``begin`` will meet it again. Other requests wait meanwhile.
        """
        reserved = self._reserved_ahead = threading.Event()

        def reserve() -> None:
            try:
                for kind, size in sizes.items():
                    with contextlib.suppress(CheckpointError):
                        self.reserve(kind, size)
                pairs = list(self._pairs.values())
            finally:
                reserved.set()
            for pair in pairs:
                pair.populate()

        self._ahead = threading.Thread(target=reserve, name="resile-reserve", daemon=True)
        self._ahead.start()

    def begin(self, kind: PartKind, *, step: int, size: int) -> Begun:
        """Memory for this worker's part of ``step``; see :meth:`SlotPair.begin`."""
        self._reserved_ahead.wait()
        self.reserve(kind, size)
        worker = self.worker
        label = Label(place=worker.place(kind), step=step, round=worker.round, world=worker.world)
        return self._pairs[kind].begin(label, size, waiting=lambda: self._say_waiting(kind, step))

    def _say_waiting(self, kind: PartKind, step: int) -> None:
        self._expect(Done, Waiting(kind=kind, step=step))

    def complete(self, *kinds: PartKind) -> tuple[Label, ...]:
        """These parts are all there: from here on they survive this worker, and are copied to a
        peer. What storage has trouble with is known afterwards."""
        labels = tuple(self._pairs[kind].complete() for kind in kinds)
        status, _ = self._expect(Status, Completed(labels=labels))
        self.trouble = status.trouble_line
        return labels

    # --- what is held -----------------------------------------------------------------------

    def inventory(self) -> tuple[Held, ...]:
        """All whole parts of the group on this node, its own and copies of others'."""
        answer, _ = self._expect(Inventory, List())
        return answer.parts

    def open_all(self, labels: Sequence[Label]) -> list[HeldPart]:
        """Parts on this node, all or none, with as few requests as can be; raises
        :class:`KeeperRefused` if one is not there (any more)."""
        with ExitStack() as undo:
            parts = []
            for some in _batches(labels):
                answer, descriptors = self._expect(Opened, Open(labels=some))
                for part in opened_parts(some, answer.sizes, descriptors=descriptors):
                    parts.append(undo.enter_context(part))
            undo.pop_all()
        return parts

    def fetch(self, address: str, label: Label) -> HeldPart:
        """A part from another node's keeper, by way of this node's memory. Its bytes may still
        be coming: :meth:`HeldPart.need` waits for them.

        Raises :class:`KeeperRefused` with the reason, or :class:`NoRoom`. Fetched once a node,
        however many of its workers ask.
        """
        answer, descriptors = self._answer(Fetch(address=address, label=label))
        if isinstance(answer, Opened):
            return opened_parts((label,), answer.sizes, descriptors=descriptors)[0]
        assert isinstance(answer, Arriving), f"{answer} is no answer to a fetch"
        received(descriptors, 1)
        wait = partial(self._wait, answer.arrival)
        return ArrivingPart(label, descriptors[0], size=answer.size, wait=wait)

    def _wait(self, arrival: int, until: int) -> int:
        come, _ = self._expect(Come, Await(arrival=arrival, until=until))
        return come.count

    def headers(self, address: str, labels: Sequence[Label]) -> list[bytes]:
        """What parts at another node's keeper say of themselves, without their bytes: a part's
        first bytes as far as its header goes, nothing for a part that is not there (any more).

        Raises :class:`KeeperRefused` with the reason, or :class:`NoRoom`. Asked for once a node.
        """
        found: list[bytes] = []
        for some in _batches(labels):
            request = FetchHeaders(address=address, labels=some)
            answer, descriptors = self._expect(Headers, request)
            received(descriptors, 1)
            found += headers.unpack(descriptors[0], answer.lengths)
        return found

    def resumed(self, step: int, *, next: str | None = None) -> HandoverPage:
        """Training goes on from ``step``: later parts on this node are forgotten. ``next``: the
        address of the keeper that this node's parts are copied to, empty for no copies; None to
        leave that to another worker.

        Returns the page on which this worker is asked to save; looking at it costs nothing.
        """
        _, (descriptor,) = self._expect(Watched, Resumed(step=step, next=next))
        return HandoverPage(descriptor)

    # --- planned changes --------------------------------------------------------------------

    def hold(self, step: int, *, handover: int) -> None:
        """Say that ``step`` is saved for the planned change, and that this worker waits."""
        self._expect(Done, Holding(step=step, handover=handover))

    # --- storage ----------------------------------------------------------------------------

    def persist(
        self,
        url: str | os.PathLike[str],
        *,
        step: int,
        kinds: Sequence[PartKind],
        attempt: str,
        publication: Publication | None = None,
        options: Mapping[str, Any] | None = None,
        patience: float = 300.0,
    ) -> Accepted | Busy:
        """Have this worker's parts of ``step`` written, in the background.

        ``publication`` for the one worker of the job whose writer waits for all parts and makes the
        checkpoint exist. :class:`Busy` if an earlier step of these parts is not written yet.
        Raises :class:`KeeperRefused` if ``step`` is not in memory.
        """
        target = Target(
            url=_absolute(os.fspath(url)),
            group=self.worker.group,
            step=step,
            attempt=attempt,
            options=dict(options or {}),
            patience=patience,
        )
        answer = self._answer(Persist(target=target, kinds=tuple(kinds), publication=publication))[
            0
        ]
        assert isinstance(answer, Accepted | Busy)
        return answer

    def status(self) -> Status:
        """How the writing is going."""
        answer, _ = self._expect(Status, StatusWanted())
        return answer

    # --- asking -----------------------------------------------------------------------------

    def _expect(self, kind: type[A], request: Request) -> tuple[A, Sequence[int]]:
        answer, descriptors = self._answer(request)
        assert isinstance(answer, kind), f"{answer} is no answer to {request}"
        return answer, descriptors

    def _answer(self, request: Request) -> tuple[Answer, Sequence[int]]:
        answer, descriptors = self._ask(request)
        if isinstance(answer, NotEnoughRoom):
            raise NoRoom(answer.reason)
        if isinstance(answer, Refused):
            raise KeeperRefused(answer.reason)
        return answer, descriptors

    def _close_pairs(self) -> None:
        if self._ahead is not None:
            self._ahead.join()
        for pair in self._pairs.values():
            pair.close()
        self._pairs.clear()


def _batches(labels: Sequence[Label]) -> Iterator[tuple[Label, ...]]:
    for begin in range(0, len(labels), AT_ONCE):
        yield tuple(labels[begin : begin + AT_ONCE])


def _absolute(url: str) -> str:
    """The process that writes may have another working folder."""
    return url if "://" in url else str(Path(url).expanduser().absolute())
