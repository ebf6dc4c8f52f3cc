"""Save of a step: a copy into memory that outlives the worker, written to storage from there.

Training waits only for the copy. Where memory has no room, a due checkpoint is written to storage
by this worker itself, and training waits for that.

A round claims its checkpoint folder in a background thread: older rounds must not publish as soon
as this one trains, but training does not wait for storage. If the claim cannot be written now, the
first publication writes it.

``await_commit`` waits until a step is committed, with the same result on all workers. Every worker
watches its own node's writes. Rank 0's writer commits the checkpoint, so rank 0 reports success. A
worker that fails reports the failure itself: rank 0's writer would wait for the missing parts
until its timeout. The first report is the result for all.

In a handover all workers save the step chosen for a planned change, then hold. The agent sends the
request on a page of shared memory. Once every worker of the job has the request, rank 0 publishes
the chosen step in the round's store: the next one. It does so before that step's collective, and
the others check after it, so all of them know in time, without a message in ordinary steps. A
handover may be cancelled, and another may follow in the same round: each has a number. Holding
ends when the process ends, when the agent cancels it, or at the deadline on the page, so that
training never stalls because of a master that died.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from resile.checkpoint.catalog import CheckpointCatalog
from resile.checkpoint.commit import publish, write_part
from resile.checkpoint.errors import CheckpointError, NoMemoryForSnapshot
from resile.checkpoint.fence import RoundClaim, claim
from resile.checkpoint.part import PartKind
from resile.checkpoint.prune import prune_after_publishing, remove_remains, write_or_make_room
from resile.checkpoint.storage.base import Storage
from resile.snapshots.client import SnapshotClient
from resile.snapshots.handover import HandoverPage
from resile.snapshots.messages import Accepted, Busy, CheckpointPublication
from resile.train.checkpoint.errors import NotSaved
from resile.train.checkpoint.round_channel import RankInfo, RoundChannel
from resile.train.checkpoint.save.capture import Capture, Captured, Portion
from resile.train.checkpoint.state.script_classes import ScriptClasses

__all__ = [
    "Saver",
    "WorkerHandover",
    "await_commit",
    "claim_in_background",
]


_PAUSE = 0.01
"""Seconds between two checks for a free writer: short compared to any write to storage."""

_WORTH_SAYING = 0.1
"""Seconds that training must have waited for storage before a message is printed."""


class Saver:
    """Saves one worker's state, step by step."""

    def __init__(
        self,
        place: RankInfo,
        *,
        memory: SnapshotClient | None,
        storage: Storage | None,
        options: Mapping[str, Any],
        attempt: str,
        claim: RoundClaim | None,
        keep: int,
        trust: bool,
        classes: ScriptClasses,
        tell: Callable[[str], None],
        warn: Callable[[str], None],
    ) -> None:
        """``options``: the storage options for the writer process. ``claim``: this round's claim on
        the folder; sent with every request to publish. ``classes``: the script's classes that a
        restore will know. ``tell``: prints a message on one worker for all; ``warn``: on each
        worker."""
        self._place = place
        self._memory = memory
        self._storage = storage
        self._options = options
        self._attempt = attempt
        self._claim = claim
        self._keep = keep
        self._tell = tell
        self._warn = warn
        self._durable = -1
        self._tries = 0
        """Number of attempts to save the last durable step; the same on all workers."""
        self._ordered = -1
        """The last step that the writer process was asked to write."""
        self._written_here = -1
        self._trouble_here = ""
        self._said: set[str] = set()
        """The messages about old checkpoints that were printed."""
        self._capture = Capture(
            rank=place.rank,
            world=place.world,
            local_rank=place.local_rank,
            local_world=place.local_world,
            group=place.group,
            trust=trust,
            classes=classes,
        )

    def reserve(self, state: Mapping[str, Any], *, step: int) -> None:
        """Reserve the memory before the first snapshot is due."""
        if self._memory is None:
            return
        captured = self._capture.take(state, step=step)
        self._with_room(lambda memory: _reserve(memory, captured))

    def snapshot(self, state: Mapping[str, Any], *, step: int, durable: bool) -> None:
        """Copy ``state`` into memory; ``durable``: also write it to storage."""
        captured = self._capture.take(state, step=step)
        in_memory = self._with_room(lambda memory: self._fill(memory, captured, step))
        if durable and self._storage is not None:
            self._tries = self._tries + 1 if step == self._durable else 1
            self._durable = step
            if in_memory:
                self._persist(step)
            else:
                self._write_here(captured, step)

    def verdict(self, step: int) -> str | None:
        """Return the result of writing ``step``: None while it is in progress, empty if this
        worker's parts are on storage (on rank 0, which publishes it, the whole checkpoint), else
        the error."""
        if self._written_here == step:
            return self._trouble_here
        if self._memory is None or self._ordered != step:
            return "it could not be passed to the writer process"
        status = self._memory.status()
        if step in status.writing:
            return None
        reached = status.committed if self._place.rank == 0 else status.written
        if reached == step and status.troubled_step != step:
            return ""
        why = status.trouble if status.troubled_step == step else status.trouble_line
        return why or "see the log of its agent"

    @property
    def _try(self) -> str:
        """The name of this attempt: parts of two attempts are never mixed."""
        return self._attempt if self._tries == 1 else f"{self._attempt}-{self._tries}"

    def _with_room(self, use: Callable[[SnapshotClient], None]) -> bool:
        """Use the memory; False if there is none, or no room in it, which is reported once."""
        if self._memory is None:
            return False
        try:
            use(self._memory)
        except NoMemoryForSnapshot as error:
            self._memory = None
            instead = "training waits for each write" if self._storage else "nothing is saved"
            self._warn(f"no snapshots in memory: {error}; instead {instead}")
            return False
        return True

    def _fill(self, memory: SnapshotClient, captured: Captured, step: int) -> None:
        waited = 0.0
        for kind, portion in _portions(captured):
            begun = memory.begin(kind, step=step, size=portion.size)
            waited += begun.waited
            portion.write(begun.buffer)
        memory.complete(*PartKind)
        self._say_waited(waited, step, "an earlier snapshot to be written or copied")

    def _persist(self, step: int) -> None:
        """Request the write; waits while an earlier step of the same part is still being
        written."""
        assert self._memory is not None
        assert self._storage is not None
        started = time.monotonic()
        while True:
            answer: Accepted | Busy = self._memory.persist(
                self._storage.address,
                step=step,
                kinds=self._kinds(),
                attempt=self._try,
                publication=self._publication(),
                options=self._options,
            )
            if isinstance(answer, Accepted):
                self._ordered = step
                break
            time.sleep(_PAUSE)
        self._say_waited(time.monotonic() - started, step, "an earlier snapshot to be written")

    def _kinds(self) -> tuple[PartKind, ...]:
        """Replica parts are the same on all nodes, so only the first node writes them."""
        if self._place.group_rank == 0:
            return (PartKind.REPLICA, PartKind.RANK)
        return (PartKind.RANK,)

    def _publication(self) -> CheckpointPublication | None:
        if self._place.rank != 0:
            return None
        return CheckpointPublication(
            world=self._place.world,
            replicas=self._place.local_world,
            job=self._place.job,
            round=self._place.round,
            keep=self._keep,
            claim=self._claim,
        )

    def _write_here(self, captured: Captured, step: int) -> None:
        """Write to storage synchronously, one part at a time, where there is no snapshot."""
        assert self._storage is not None
        self._written_here, self._trouble_here = step, ""
        catalog = CheckpointCatalog(self._storage, self._place.group)
        try:
            for kind, portion in _portions(captured):
                if kind in self._kinds():
                    buffer = memoryview(bytearray(portion.size))
                    portion.write(buffer)
                    write = partial(write_part, self._storage, buffer, attempt=self._try)
                    write_or_make_room(catalog, write, tell=self._warn)
            if publication := self._publication():
                publish(
                    self._storage,
                    step=step,
                    world=publication.world,
                    replicas=publication.replicas,
                    attempt=self._try,
                    group=self._place.group,
                    job=publication.job,
                    round=publication.round,
                    claim=publication.claim,
                )
                prune_after_publishing(catalog, keep=self._keep, said=self._said, tell=self._warn)
        except CheckpointError as error:
            self._trouble_here = str(error)
            self._warn(f"no checkpoint of step {step}: {error}")

    def _say_waited(self, seconds: float, step: int, what: str) -> None:
        if seconds >= _WORTH_SAYING:
            self._tell(
                f"training waited {seconds:.1f} s at step {step} for {what}: checkpoint less "
                "often, or use faster storage"
            )


def _reserve(memory: SnapshotClient, captured: Captured) -> None:
    memory.reserve_ahead({kind: portion.size for kind, portion in _portions(captured)})


def _portions(captured: Captured) -> tuple[tuple[PartKind, Portion], ...]:
    return (PartKind.REPLICA, captured.replica), (PartKind.RANK, captured.rank)


def claim_in_background(storage: Storage, mine: RoundClaim, *, warn: Callable[[str], None]) -> None:
    """Start the thread and return. Warns if another round already resumed from an earlier step."""

    def make() -> None:
        try:
            fence = claim(storage, mine)
            remove_remains(CheckpointCatalog(storage, mine.group))  # of rounds that are over now
        except CheckpointError:
            return
        if why := fence.superseded(mine.attempt, mine.step + 1):
            warn(f"checkpoints saved from here on cannot be used: {why}")

    threading.Thread(target=make, name="resile-claim", daemon=True).start()


_POLL = 0.02
"""Seconds between two checks: short compared to any write to storage."""

_WELL = ""


def await_commit(
    channel: RoundChannel, saver: Saver, *, step: int, topic: str, timeout: float
) -> None:
    """Return on every worker when the checkpoint of ``step`` exists.

    ``topic`` is the key of the result. Raises :class:`NotSaved` on every worker if one of them
    cannot write its parts, and TimeoutError.
    """
    place = channel.place
    deadline = time.monotonic() + timeout
    mine: str | None = None
    while not channel.has(topic):
        if mine is None and (mine := saver.verdict(step)) is not None:
            if mine != _WELL:
                channel.put(topic, f"rank {place.rank}: {mine}" if place.world > 1 else mine)
            elif place.rank == 0:
                channel.put(topic, _WELL)
        elif time.monotonic() > deadline:
            raise TimeoutError(f"storage took longer than {timeout:g} s")
        else:
            time.sleep(_POLL)
    result = channel.get(topic, str)
    if result != _WELL:
        raise NotSaved(f"step {step} is not on storage: {result}")


_LOOK = 0.01


class WorkerHandover:
    """A worker's part in the planned change of a round, if one comes."""

    def __init__(self, channel: RoundChannel, memory: SnapshotClient, page: HandoverPage) -> None:
        self._channel = channel
        self._memory = memory
        self._page = page
        self._chosen = self._due = 0

    def is_due(self, done: int) -> bool:
        """Return whether the step just done is the one to save; called after every step."""
        place = self._channel.place
        self._due = number = self._page.asked(place.round)
        if not number:
            return False
        key = f"handover/{number}"
        if self._channel.has(key):
            return self._channel.get(key, int) == done
        if place.rank == 0 and self._page.may_choose(number) and self._chosen != number:
            self._chosen = number
            self._channel.put(key, done + 1)
        return False

    def hold(self, done: int) -> None:
        """Report the step as saved and wait until the change stops this process or is cancelled."""
        self._memory.hold(done, handover=self._due)
        while self._page.asked(self._channel.place.round) == self._due:
            time.sleep(_LOOK)
