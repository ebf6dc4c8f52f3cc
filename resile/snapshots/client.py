"""A worker's client for its node's snapshots, in the agent or in its own process.

A checkpointer uses `SnapshotClient` to fill memory (``begin``, ``complete``), to find and open
parts on this node (``inventory``, ``open_all``) and on others (``headers``, ``fetch``), and to have
them written (``persist``, ``status``). Its two subclasses differ in how a request reaches the
server:

* `AgentSnapshotClient` connects to the agent's. Plain blocking requests, a few microseconds each. A
  forked child opens a connection of its own: it must not use its parent's. When the agent is dead
  every request raises :class:`SnapshotServerGone`; memory that was being filled stays valid.
* `LocalSnapshotClient` works without an agent: the worker holds its own snapshots, and has its own
  writer process. The memory dies with the worker, so after a crash only storage is left to restore
  from. The benefit: saving costs one copy, and a checkpoint in progress is finished by a process
  that outlives the worker.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from resile.checkpoint.errors import CheckpointError, NoMemoryForSnapshot
from resile.checkpoint.part import PartKind
from resile.decoding import MsgpackDecoder
from resile.snapshots import packets
from resile.snapshots.errors import SnapshotRequestRefused, SnapshotServerGone
from resile.snapshots.handover import HandoverPage
from resile.snapshots.held_part import (
    ArrivingPart,
    HeldPart,
    opened_parts,
    received,
    unpack_headers,
)
from resile.snapshots.messages import (
    AT_ONCE,
    Accepted,
    Answer,
    Arriving,
    Await,
    Busy,
    CheckpointPublication,
    Come,
    Completed,
    Done,
    Fetch,
    FetchHeaders,
    Headers,
    HeldPartInfo,
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
    Target,
    TrainingResumed,
    Waiting,
    Watched,
    WorkerHello,
    WorkerWelcome,
)
from resile.snapshots.server import SnapshotServer
from resile.snapshots.slot_pair import SlotBuffer, SlotPair
from resile.snapshots.slot_table import SlotTable
from resile.snapshots.slots import Label
from resile.snapshots.writer import WriterProcess

__all__ = [
    "AgentSnapshotClient",
    "LocalSnapshotClient",
    "SNAPSHOTS_VARIABLE",
    "SnapshotClient",
]


A = TypeVar("A")


class SnapshotClient(ABC):
    """The snapshots of this worker's node.

    Methods raise :class:`~resile.snapshots.errors.SnapshotServerGone` when the server is dead.
    """

    address: str = ""
    """The address at which other nodes' servers reach this node's; empty if they cannot."""

    trouble: str = ""
    """The storage error reported when the last part was completed, with the step; empty for
    none."""

    def __init__(self, worker: WorkerHello) -> None:
        self.worker = worker
        self._pairs: dict[PartKind, SlotPair] = {}
        self._ahead: threading.Thread | None = None
        self._reserved_ahead = threading.Event()
        self._reserved_ahead.set()

    @abstractmethod
    def _ask(self, request: Request) -> tuple[Answer, Sequence[int]]:
        """Send a request; returns the answer and its descriptors, which the caller must close."""

    @abstractmethod
    def close(self) -> None:
        """Disconnect from the server; accepted writes are still carried out."""

    # --- filling ----------------------------------------------------------------------------

    def reserve(self, kind: PartKind, size: int) -> None:
        """Reserve memory for parts of up to ``size`` bytes; raises :class:`NoMemoryForSnapshot`.

        ``begin`` calls it if needed.
        """
        pair = self._pairs.get(kind)
        if pair is not None and pair.capacity >= size:
            return
        _, descriptors = self._expect(Reserved, Reserve(kind=kind, size=size))
        if pair is not None:
            pair.close()
        self._pairs[kind] = SlotPair(descriptors)

    def reserve_ahead(self, sizes: Mapping[PartKind, int]) -> None:
        """The same in the background, so that the first snapshot costs no more than later ones.

        Errors are not reported here: ``begin`` will meet them again. Other requests wait meanwhile.
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

    def begin(self, kind: PartKind, *, step: int, size: int) -> SlotBuffer:
        """Memory for this worker's part of ``step``; see :meth:`SlotPair.begin`."""
        self._reserved_ahead.wait()
        self.reserve(kind, size)
        worker = self.worker
        label = Label(place=worker.place(kind), step=step, round=worker.round, world=worker.world)
        return self._pairs[kind].begin(label, size, waiting=lambda: self._say_waiting(kind, step))

    def _say_waiting(self, kind: PartKind, step: int) -> None:
        self._expect(Done, Waiting(kind=kind, step=step))

    def complete(self, *kinds: PartKind) -> tuple[Label, ...]:
        """Mark these parts as complete: from here on they survive this worker, and are copied to a
        peer. Updates ``trouble``."""
        labels = tuple(self._pairs[kind].complete() for kind in kinds)
        status, _ = self._expect(Status, Completed(labels=labels))
        self.trouble = status.trouble_line
        return labels

    # --- what is held -----------------------------------------------------------------------

    def inventory(self) -> tuple[HeldPartInfo, ...]:
        """All complete parts of the group on this node, its own and copies from other nodes."""
        answer, _ = self._expect(Inventory, List())
        return answer.parts

    def open_all(self, labels: Sequence[Label]) -> list[HeldPart]:
        """Open parts on this node, all or none, with as few requests as possible; raises
        :class:`SnapshotRequestRefused` if one is missing."""
        with ExitStack() as undo:
            parts = []
            for some in _batches(labels):
                answer, descriptors = self._expect(Opened, Open(labels=some))
                for part in opened_parts(some, answer.sizes, descriptors=descriptors):
                    parts.append(undo.enter_context(part))
            undo.pop_all()
        return parts

    def fetch(self, address: str, label: Label) -> HeldPart:
        """Fetch a part from another node's server into this node's memory. Its bytes may still be
        on their way: :meth:`HeldPart.need` waits for them.

        Raises :class:`SnapshotRequestRefused` with the reason, or :class:`NoMemoryForSnapshot`.
        Each part is fetched once per node, however many of its workers ask.
        """
        answer, descriptors = self._answer(Fetch(address=address, label=label))
        if isinstance(answer, Opened):
            return opened_parts((label,), answer.sizes, descriptors=descriptors)[0]
        assert isinstance(answer, Arriving), f"{answer} is not an answer to a fetch"
        received(descriptors, 1)
        wait = partial(self._wait, answer.arrival)
        return ArrivingPart(label, descriptors[0], size=answer.size, wait=wait)

    def _wait(self, arrival: int, until: int) -> int:
        come, _ = self._expect(Come, Await(arrival=arrival, until=until))
        return come.count

    def headers(self, address: str, labels: Sequence[Label]) -> list[bytes]:
        """Get the headers of parts held by another node's server, without their data: the bytes of
        each part up to the end of its header, empty for a missing part.

        Raises :class:`SnapshotRequestRefused` with the reason, or :class:`NoMemoryForSnapshot`.
        Fetched once per node.
        """
        found: list[bytes] = []
        for some in _batches(labels):
            request = FetchHeaders(address=address, labels=some)
            answer, descriptors = self._expect(Headers, request)
            received(descriptors, 1)
            found += unpack_headers(descriptors[0], answer.lengths)
        return found

    def resumed(self, step: int, *, next: str | None = None) -> HandoverPage:
        """Training continues from ``step``: later parts on this node are discarded. ``next``: the
        address of the server that this node's parts are copied to, empty for no copies; None to
        leave that to another worker.

        Returns the page through which this worker is asked to save; reading it costs nothing.
        """
        _, (descriptor,) = self._expect(Watched, TrainingResumed(step=step, next=next))
        return HandoverPage(descriptor)

    # --- handover ---------------------------------------------------------------------------

    def hold(self, step: int, *, handover: int) -> None:
        """Report that ``step`` is saved for the handover, and that this worker holds."""
        self._expect(Done, HoldingStep(step=step, handover=handover))

    # --- storage ----------------------------------------------------------------------------

    def persist(
        self,
        url: str | os.PathLike[str],
        *,
        step: int,
        kinds: Sequence[PartKind],
        attempt: str,
        publication: CheckpointPublication | None = None,
        options: Mapping[str, Any] | None = None,
        retry_seconds: float = 300.0,
    ) -> Accepted | Busy:
        """Write this worker's parts of ``step`` to storage, in the background.

        ``publication``: for the one worker of the group whose writer waits for all parts and
        publishes the checkpoint. :class:`Busy` if an earlier step of these parts is not written
        yet. Raises :class:`SnapshotRequestRefused` if ``step`` is not in memory.
        """
        target = Target(
            url=_absolute(os.fspath(url)),
            group=self.worker.group,
            step=step,
            attempt=attempt,
            options=dict(options or {}),
            retry_seconds=retry_seconds,
        )
        answer = self._answer(Persist(target=target, kinds=tuple(kinds), publication=publication))[
            0
        ]
        assert isinstance(answer, Accepted | Busy)
        return answer

    def status(self) -> Status:
        """The status of writes and copies."""
        answer, _ = self._expect(Status, StatusWanted())
        return answer

    # --- asking -----------------------------------------------------------------------------

    def _expect(self, kind: type[A], request: Request) -> tuple[A, Sequence[int]]:
        answer, descriptors = self._answer(request)
        assert isinstance(answer, kind), f"{answer} is not an answer to {request}"
        return answer, descriptors

    def _answer(self, request: Request) -> tuple[Answer, Sequence[int]]:
        answer, descriptors = self._ask(request)
        if isinstance(answer, NotEnoughRoom):
            raise NoMemoryForSnapshot(answer.reason)
        if isinstance(answer, RequestRefused):
            raise SnapshotRequestRefused(answer.reason)
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
    """Make a path absolute: the writer process may have another working folder."""
    return url if "://" in url else str(Path(url).expanduser().absolute())


SNAPSHOTS_VARIABLE = "RESILE_SNAPSHOTS"
"""The server's socket, set by the agent for its workers; ``@`` means the abstract namespace."""


class AgentSnapshotClient(SnapshotClient):
    """A client of the server at ``name``. Raises :class:`SnapshotServerGone` if there is none."""

    def __init__(self, name: str, worker: WorkerHello) -> None:
        super().__init__(worker)
        self._name = name
        self._line: socket.socket | None = None
        self._owner = 0
        self._asking = threading.Lock()
        self._decoder = MsgpackDecoder[Answer](Answer)
        with self._asking:
            self._connected()

    @classmethod
    def from_environment(
        cls, worker: WorkerHello, environment: Mapping[str, str] = os.environ
    ) -> AgentSnapshotClient | None:
        """Connect to the agent's server, if the environment names one."""
        name = environment.get(SNAPSHOTS_VARIABLE)
        return cls(name, worker) if name else None

    def close(self) -> None:
        """Disconnect; the server keeps its snapshots."""
        self._close_pairs()
        if self._line is not None:
            self._line.close()
            self._line = None

    def _ask(self, request: Request) -> tuple[Answer, Sequence[int]]:
        if self._owner != os.getpid():
            # A forked child: a lock held by its parent would never be released here.
            self._asking = threading.Lock()
        with self._asking:
            return self._exchange(self._connected(), request)

    def _connected(self) -> socket.socket:
        if self._line is not None and self._owner == os.getpid():
            return self._line
        if self._line is not None:
            self._line.close()
        line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            line.connect("\0" + self._name[1:] if self._name.startswith("@") else self._name)
        except OSError as error:
            line.close()
            self._line = None
            raise SnapshotServerGone(
                f"the agent's snapshot server does not answer: {error.strerror}"
            ) from None
        self._line, self._owner = line, os.getpid()
        answer, _ = self._exchange(line, self.worker)
        if isinstance(answer, RequestRefused):
            raise SnapshotServerGone(
                f"the agent's snapshot server refuses this worker: {answer.reason}"
            )
        assert isinstance(answer, WorkerWelcome)
        self.address = answer.address
        return line

    def _exchange(self, line: socket.socket, request: Request) -> tuple[Answer, Sequence[int]]:
        why = "connection closed"
        try:
            packets.send(line, request)
            received = packets.receive(line, self._decoder)
            if received is not None:
                return received
        except OSError as error:
            why = error.strerror or str(error)
        line.close()
        self._line = None
        raise SnapshotServerGone(f"lost the agent's snapshot server: {why}")


class LocalSnapshotClient(SnapshotClient):
    """Snapshots of one worker, in its own process. ``limit``: maximum bytes of all of them."""

    def __init__(self, worker: WorkerHello, *, limit: int | None = None) -> None:
        super().__init__(worker)
        self._server = SnapshotServer(SlotTable(limit=limit), WriterProcess(outlives=True))
        self._server.new_round(worker.round)

    def close(self) -> None:
        """Release the memory. The writer process finishes alone."""
        self._close_pairs()
        self._server.close()

    def _ask(self, request: Request) -> tuple[Answer, Sequence[int]]:
        return self._server.answer(self.worker, request)
