"""The snapshot server: answers workers' requests, and sends orders to the writer process.

It is the same in an agent and in a worker without one; only the transport of requests differs.
Requests from workers of an older round are refused: their memory belongs to others by now. So are
those of another group than the first worker's, because a node is in one group for its lifetime; a
process that a worker started inherits its environment, and may name another group.

Failures of storage or of other nodes are not errors of the request; they appear in the status, and
are reported once to ``news`` as a log line.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from resile.checkpoint.errors import NoMemoryForSnapshot
from resile.group_name import describe_group
from resile.snapshots.errors import PeerError, SnapshotRequestRefused
from resile.snapshots.handover import HandoverTracker
from resile.snapshots.held_part import pack_headers
from resile.snapshots.memory import reopen
from resile.snapshots.messages import (
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
    HoldingStep,
    Inventory,
    List,
    NotEnoughRoom,
    Open,
    Opened,
    Persist,
    Request,
    RequestRefused,
    Reserve,
    Reserved,
    Status,
    StatusWanted,
    TrainingResumed,
    Waiting,
    Watched,
    WorkerHello,
    WorkerWelcome,
)
from resile.snapshots.peer_api import NoPeers, PeerApi
from resile.snapshots.slot_table import SlotTable
from resile.snapshots.slots import Label, PartPlace
from resile.snapshots.write_tracker import WriteTracker
from resile.snapshots.writer import CollapsePages, Write, WriterProcess

__all__ = ["SnapshotServer", "News"]

News = Callable[[int, str], None]
"""Called with a logging level and a log line."""

Reply = tuple[Answer, list[int]]


@dataclass
class SnapshotServer:
    """Holds a node's snapshots, and answers its workers."""

    slots: SlotTable
    writer: WriterProcess
    peers: PeerApi = field(default_factory=NoPeers)
    news: News = field(default=logging.getLogger("resile.checkpoint").log)

    def __post_init__(self) -> None:
        self._round = 0
        self._group: str | None = None
        """The group of this node's workers; None before the first request."""
        self._current: set[PartPlace] = set()
        self._lock = threading.Lock()
        self._write_tracker = WriteTracker(self.news)
        self._handover = HandoverTracker()

    def new_round(self, number: int) -> None:
        """Start a round: requests of older rounds' workers are refused from now on."""
        with self._lock:
            if number > self._round:
                self._round, self._current = number, set()
                self._handover.new_round(number)
                self.peers.settle()
                self.peers.workers_hold(False)

    def answer(self, worker: WorkerHello, request: Request) -> Reply:
        """Answer a request; returns the answer and its descriptors, which the caller must close."""
        if refusal := self._refusal(worker):
            return _refused(refusal), []
        match request:
            case WorkerHello():
                self.new_round(request.round)
                return WorkerWelcome(address=self.peers.address), []
            case Reserve():
                return self._reserve(worker, request)
            case List():
                held = self.slots.inventory()
                own = tuple(one for one in held if one.label.place.group == worker.group)
                return Inventory(parts=own), []
            case Open(labels=labels):
                return self._open(labels)
            case Completed(labels=labels):
                self._completed(worker, labels)
                return self._status(), []
            case Persist():
                return self._persist(worker, request), []
            case StatusWanted():
                return self._status(), []
            case Fetch(address=address, label=label):
                return self._fetch(address, label)
            case Await(arrival=number, until=until):
                return self._await(number, until)
            case FetchHeaders(address=address, labels=labels):
                return self._fetch_headers(address, labels)
            case Waiting(kind=kind, step=step):
                self.peers.wanted(worker.place(kind), step)
                return Done(), []
            case HoldingStep(step=step, handover=number):
                with self._lock:
                    self._handover.holds(worker.local_rank, step, handover=number)
                return Done(), []
            case TrainingResumed():
                return self._resumed(worker, request)

    def _refusal(self, worker: WorkerHello) -> str:
        """The reason to refuse a worker's requests; empty to accept them."""
        with self._lock:
            if worker.round < self._round:
                return f"round {worker.round} is over: round {self._round} is running"
            if self._group is None:
                self._group = worker.group
            if worker.group != self._group:
                own = describe_group(self._group)
                return f"this node holds snapshots of {own}, not of {describe_group(worker.group)}"
        return ""

    @property
    def can_hand_over(self) -> bool:
        """Whether all workers of the round watch the handover page."""
        with self._lock:
            return self._handover.able

    def ask_handover(self, number: int, *, round: int, timeout: float) -> bool:
        """Ask the workers to save for a handover (phase PREPARE); returns whether all of them can.

        Workers hold until at most ``timeout`` seconds from now, whatever happens.
        """
        with self._lock:
            if round != self._round or not self._handover.able:
                return False
            self._handover.ask(number, timeout=timeout)
        self.peers.workers_hold(True)
        return True

    def let_choose(self, number: int, *, round: int) -> None:
        """Allow rank 0, if it is here, to choose the step (phase CHOOSE): all workers were
        asked."""
        with self._lock:
            if round == self._round:
                self._handover.page.let_choose(number)

    def call_off_handover(self) -> None:
        """Cancel the handover: holding workers continue."""
        with self._lock:
            self._handover.call_off()
        self.peers.workers_hold(False)

    @property
    def held(self) -> int | None:
        """The step that all workers of this node saved for the handover and hold; None if not
        yet."""
        with self._lock:
            return self._handover.held

    def is_copied(self, step: int) -> bool:
        """Whether the next node has copies of a step; True if there is no next node."""
        copied = self.peers.copied
        return not self.peers.next or (copied is not None and copied >= step)

    @property
    def copies_pending(self) -> bool:
        """Whether parts of this node remain to be copied to the next one."""
        return self.peers.pending

    @property
    def newest_copied(self) -> int | None:
        """The newest step of which the next node has copies of all parts of this node."""
        return self.peers.copied

    @property
    def newest_stored(self) -> int | None:
        """The newest step of which this node's parts are in storage; if it publishes, the newest
        complete checkpoint."""
        return self._write_tracker.stored

    def _resumed(self, worker: WorkerHello, request: TrainingResumed) -> Reply:
        self.peers.settle()
        self.peers.forget_after(request.step)
        self.slots.discard_after(request.step)
        if request.next is not None:
            self.peers.set_endpoint(request.next)
        with self._lock:
            self._handover.watches(worker.local_rank, nproc=worker.nproc)
            return Watched(), [reopen(self._handover.page.descriptor)]

    def close(self) -> None:
        """Release all memory."""
        self.peers.close()
        self.writer.close()
        self.slots.close()
        self._handover.page.close()

    def _reserve(self, worker: WorkerHello, request: Reserve) -> Reply:
        place = worker.place(request.kind)
        with self._lock:
            self._current.add(place)
        try:
            reservation = self.slots.reserve(place, request.size)
        except NoMemoryForSnapshot as error:
            with self._lock:
                self._current.discard(place)
            return NotEnoughRoom(reason=str(error)), []
        if reservation.grown:
            self._gather(reservation.descriptors)
        return Reserved(), reservation.descriptors

    def _gather(self, slots: list[int]) -> None:
        """Collapse new memory into large pages, in the background after it was handed out in small
        ones: workers that restore from it then map it at almost no cost."""
        self.writer.submit(CollapsePages(), [os.dup(slot) for slot in slots], lambda _: None)

    def _open(self, labels: tuple[Label, ...]) -> Reply:
        if len(labels) > AT_ONCE:
            return _refused(f"cannot open {len(labels)} parts at once; at most {AT_ONCE}"), []
        try:
            holds = self.slots.hold_all(labels)
        except SnapshotRequestRefused as error:
            return _refused(str(error)), []
        return Opened(sizes=tuple(size for _, size in holds)), [held for held, _ in holds]

    def _status(self) -> Status:
        copied, trouble = self.peers.copied, self.peers.trouble
        return self._write_tracker.status(copied=copied, copy_trouble=trouble)

    def _completed(self, worker: WorkerHello, labels: Iterable[Label]) -> None:
        with self._lock:
            current, number = frozenset(self._current), self._round
            holding = bool(self._handover.page.asked(number))
        self.peers.workers_hold(holding)
        for label in labels:
            self.peers.send(label, parts=worker.nproc)
        self.slots.forget(current, round=number)

    def _persist(self, worker: WorkerHello, request: Persist) -> Answer:
        step = request.target.step
        labels = [
            Label(place=worker.place(kind), step=step, round=worker.round, world=worker.world)
            for kind in request.kinds
        ]
        places = tuple(label.place for label in labels)
        busy = self._write_tracker.begin(places, step)
        if busy is not None:
            return Busy(step=busy)
        try:
            holds = self.slots.hold_all(labels)
        except SnapshotRequestRefused as error:
            self._write_tracker.give_up(places, step)
            return _refused(str(error))
        order = Write(
            target=request.target,
            lengths=tuple(length for _, length in holds),
            publication=request.publication,
        )
        hear = self._write_tracker.hear(places, order)
        self.writer.submit(order, [descriptor for descriptor, _ in holds], hear)
        return Accepted()

    def _fetch(self, address: str, label: Label) -> Reply:
        try:
            coming = self.peers.fetch(address, label)
            if coming is None:
                return self._open((label,))
            slot, size = coming.opened()
            return Arriving(arrival=coming.number, size=size), [slot]
        except NoMemoryForSnapshot as error:
            return NotEnoughRoom(reason=str(error)), []
        except PeerError as error:
            return _refused(str(error)), []

    def _await(self, arrival: int, until: int) -> Reply:
        try:
            return Come(count=self.peers.arrived(arrival, until)), []
        except (NoMemoryForSnapshot, PeerError) as error:
            return _refused(str(error)), []

    def _fetch_headers(self, address: str, labels: tuple[Label, ...]) -> Reply:
        if len(labels) > AT_ONCE:
            return _refused(f"cannot fetch {len(labels)} headers at once; at most {AT_ONCE}"), []
        try:
            found = self.peers.headers(address, labels)
            return Headers(lengths=tuple(map(len, found))), [pack_headers(found)]
        except NoMemoryForSnapshot as error:
            return NotEnoughRoom(reason=str(error)), []
        except PeerError as error:
            return _refused(str(error)), []


def _refused(reason: str) -> RequestRefused:
    return RequestRefused(reason=reason)
