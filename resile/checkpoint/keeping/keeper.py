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

from resile.checkpoint.errors import NoRoom
from resile.checkpoint.handover import HandoverDesk
from resile.checkpoint.keeping.errors import KeeperRefused, PeerTrouble
from resile.checkpoint.keeping.headers import pack_headers
from resile.checkpoint.keeping.holdings import Holdings
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
from resile.checkpoint.keeping.neighbourhood import Neighbourhood, NoNeighbours
from resile.checkpoint.keeping.writings import Writings
from resile.checkpoint.memory import same_memory
from resile.checkpoint.slots import Label, PartPlace
from resile.checkpoint.writing import Carrier, CollapsePages, Write
from resile.groupname import told_group

__all__ = ["Keeper", "News"]

News = Callable[[int, str], None]
"""Called with a logging level and a log line."""

Reply = tuple[Answer, list[int]]


@dataclass
class Keeper:
    """Holds a node's snapshots, and answers its workers."""

    holdings: Holdings
    carrier: Carrier
    neighbours: Neighbourhood = field(default_factory=NoNeighbours)
    news: News = field(default=logging.getLogger("resile.checkpoint").log)

    def __post_init__(self) -> None:
        self._round = 0
        self._group: str | None = None
        """The group of this node's workers; None before the first request."""
        self._current: set[PartPlace] = set()
        self._lock = threading.Lock()
        self._writings = Writings(self.news)
        self._desk = HandoverDesk()

    def new_round(self, number: int) -> None:
        """Start a round: requests of older rounds' workers are refused from now on."""
        with self._lock:
            if number > self._round:
                self._round, self._current = number, set()
                self._desk.new_round(number)
                self.neighbours.settle()
                self.neighbours.workers_hold(False)

    def answer(self, worker: WorkerHello, request: Request) -> Reply:
        """Answer a request; returns the answer and its descriptors, which the caller must close."""
        if refusal := self._refusal(worker):
            return _refused(refusal), []
        match request:
            case WorkerHello():
                self.new_round(request.round)
                return WorkerWelcome(address=self.neighbours.address), []
            case Reserve():
                return self._reserve(worker, request)
            case List():
                held = self.holdings.inventory()
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
                self.neighbours.wanted(worker.place(kind), step)
                return Done(), []
            case HoldingStep(step=step, handover=number):
                with self._lock:
                    self._desk.holds(worker.local_rank, step, handover=number)
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
                own = told_group(self._group)
                return f"this node holds snapshots of {own}, not of {told_group(worker.group)}"
        return ""

    @property
    def can_hand_over(self) -> bool:
        """Whether all workers of the round watch the handover page."""
        with self._lock:
            return self._desk.able

    def ask_handover(self, number: int, *, round: int, patience: float) -> bool:
        """Ask the workers to save for a handover (phase PREPARE); returns whether all of them can.

        Workers hold until at most ``patience`` seconds from now, whatever happens.
        """
        with self._lock:
            if round != self._round or not self._desk.able:
                return False
            self._desk.ask(number, patience=patience)
        self.neighbours.workers_hold(True)
        return True

    def let_choose(self, number: int, *, round: int) -> None:
        """Allow rank 0, if it is here, to choose the step (phase CHOOSE): all workers were
        asked."""
        with self._lock:
            if round == self._round:
                self._desk.page.let_choose(number)

    def call_off_handover(self) -> None:
        """Cancel the handover: holding workers continue."""
        with self._lock:
            self._desk.call_off()
        self.neighbours.workers_hold(False)

    @property
    def held(self) -> int | None:
        """The step that all workers of this node saved for the handover and hold; None if not
        yet."""
        with self._lock:
            return self._desk.held

    def is_copied(self, step: int) -> bool:
        """Whether the next node has copies of a step; True if there is no next node."""
        copied = self.neighbours.copied
        return not self.neighbours.next or (copied is not None and copied >= step)

    @property
    def copies_pending(self) -> bool:
        """Whether parts of this node remain to be copied to the next one."""
        return self.neighbours.pending

    @property
    def newest_copied(self) -> int | None:
        """The newest step of which the next node has copies of all parts of this node."""
        return self.neighbours.copied

    @property
    def newest_stored(self) -> int | None:
        """The newest step of which this node's parts are in storage; if it publishes, the newest
        complete checkpoint."""
        return self._writings.stored

    def _resumed(self, worker: WorkerHello, request: TrainingResumed) -> Reply:
        self.neighbours.settle()
        self.neighbours.forget_after(request.step)
        self.holdings.discard_after(request.step)
        if request.next is not None:
            self.neighbours.turn_to(request.next)
        with self._lock:
            self._desk.watches(worker.local_rank, nproc=worker.nproc)
            return Watched(), [same_memory(self._desk.page.descriptor)]

    def close(self) -> None:
        """Release all memory."""
        self.neighbours.close()
        self.carrier.close()
        self.holdings.close()
        self._desk.page.close()

    def _reserve(self, worker: WorkerHello, request: Reserve) -> Reply:
        place = worker.place(request.kind)
        with self._lock:
            self._current.add(place)
        try:
            reservation = self.holdings.reserve(place, request.size)
        except NoRoom as error:
            with self._lock:
                self._current.discard(place)
            return NotEnoughRoom(reason=str(error)), []
        if reservation.grown:
            self._gather(reservation.descriptors)
        return Reserved(), reservation.descriptors

    def _gather(self, slots: list[int]) -> None:
        """Collapse new memory into large pages, in the background after it was handed out in small
        ones: workers that restore from it then map it at almost no cost."""
        self.carrier.submit(CollapsePages(), [os.dup(slot) for slot in slots], lambda _: None)

    def _open(self, labels: tuple[Label, ...]) -> Reply:
        if len(labels) > AT_ONCE:
            return _refused(f"cannot open {len(labels)} parts at once; at most {AT_ONCE}"), []
        try:
            holds = self.holdings.hold_all(labels)
        except KeeperRefused as error:
            return _refused(str(error)), []
        return Opened(sizes=tuple(size for _, size in holds)), [held for held, _ in holds]

    def _status(self) -> Status:
        copied, trouble = self.neighbours.copied, self.neighbours.trouble
        return self._writings.status(copied=copied, copy_trouble=trouble)

    def _completed(self, worker: WorkerHello, labels: Iterable[Label]) -> None:
        with self._lock:
            current, number = frozenset(self._current), self._round
            holding = bool(self._desk.page.asked(number))
        self.neighbours.workers_hold(holding)
        for label in labels:
            self.neighbours.send(label, parts=worker.nproc)
        self.holdings.forget(current, round=number)

    def _persist(self, worker: WorkerHello, request: Persist) -> Answer:
        step = request.target.step
        labels = [
            Label(place=worker.place(kind), step=step, round=worker.round, world=worker.world)
            for kind in request.kinds
        ]
        places = tuple(label.place for label in labels)
        busy = self._writings.begin(places, step)
        if busy is not None:
            return Busy(step=busy)
        try:
            holds = self.holdings.hold_all(labels)
        except KeeperRefused as error:
            self._writings.give_up(places, step)
            return _refused(str(error))
        order = Write(
            target=request.target,
            lengths=tuple(length for _, length in holds),
            publication=request.publication,
        )
        hear = self._writings.hear(places, order)
        self.carrier.submit(order, [descriptor for descriptor, _ in holds], hear)
        return Accepted()

    def _fetch(self, address: str, label: Label) -> Reply:
        try:
            coming = self.neighbours.fetch(address, label)
            if coming is None:
                return self._open((label,))
            slot, size = coming.opened()
            return Arriving(arrival=coming.number, size=size), [slot]
        except NoRoom as error:
            return NotEnoughRoom(reason=str(error)), []
        except PeerTrouble as error:
            return _refused(str(error)), []

    def _await(self, arrival: int, until: int) -> Reply:
        try:
            return Come(count=self.neighbours.arrived(arrival, until)), []
        except (NoRoom, PeerTrouble) as error:
            return _refused(str(error)), []

    def _fetch_headers(self, address: str, labels: tuple[Label, ...]) -> Reply:
        if len(labels) > AT_ONCE:
            return _refused(f"cannot fetch {len(labels)} headers at once; at most {AT_ONCE}"), []
        try:
            found = self.neighbours.headers(address, labels)
            return Headers(lengths=tuple(map(len, found))), [pack_headers(found)]
        except NoRoom as error:
            return NotEnoughRoom(reason=str(error)), []
        except PeerTrouble as error:
            return _refused(str(error)), []


def _refused(reason: str) -> RequestRefused:
    return RequestRefused(reason=reason)
