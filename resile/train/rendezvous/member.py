"""What this node holds in the job: shared by the line's thread and torchrun's.

The line delivers the master's words and asks what to say to a new master; torchrun's thread waits
for its turn and says what became of the workers. A state is changed before it is said, so a message
that is lost with a connection is in the next Hello.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable

from torch.distributed.elastic.rendezvous import (
    RendezvousClosedError,
    RendezvousConnectionError,
)

from resile.job.elasticity import Elasticity
from resile.wire.errors import WireError
from resile.wire.messages import (
    Drain,
    Fence,
    Fenced,
    FromAgent,
    FromMaster,
    Handover,
    HandoverTold,
    Hello,
    JobDone,
    Leave,
    LocalState,
    NodeInfo,
    Outcome,
    Prepare,
    Ready,
    Renew,
    Start,
    StoreAddress,
    Wait,
    Welcome,
    WorkerFailure,
    WorkersFailed,
    WorkersSucceeded,
)

log = logging.getLogger("resile.rendezvous")


class JobSucceeded(Exception):
    """The job ended well while this node waited: there is nothing left to do for it."""


class Member:
    """One node of a job, from its first Hello to its last word."""

    def __init__(
        self,
        job: str,
        info: NodeInfo,
        *,
        elasticity: Elasticity,
        connect_timeout: float,
        say: Callable[[FromAgent], None],
        rejoin: Callable[[], None],
    ) -> None:
        """``say`` and ``rejoin`` are the line's; they may be called from any thread."""
        self._job = job
        self._info = info
        self._elasticity = elasticity
        self._connect_timeout = connect_timeout
        self._say = say
        self._rejoin = rejoin
        self._changed = threading.Condition()
        self._node: int | None = None
        self._round = self._seen = 0
        self._state = LocalState.IDLE
        self._store: StoreAddress | None = None
        self._failures: tuple[WorkerFailure, ...] = ()
        self._prepare: Prepare | None = None
        self._start: Start | None = None
        self._fenced = False
        self._done: JobDone | None = None
        self._trouble: WireError | None = None

    # --- asked and told by the line ---------------------------------------------------------

    def hello(self) -> Hello:
        """What a master has to know that may have forgotten."""
        with self._changed:
            return Hello(
                job=self._job,
                info=self._info,
                elasticity=self._elasticity,
                held=None if self._node is None else self._fence(),
                state=self._state,
                store=self._store,
                failures=self._failures,
                seen=self._seen,
            )

    def renewal(self) -> FromAgent | None:
        """A sign of life, once there is a node to speak for."""
        with self._changed:
            return None if self._node is None else Renew(fence=self._fence())

    def patience(self) -> float:
        """How long the master may be away: for ever while workers train."""
        with self._changed:
            if self._node is None:
                return self._connect_timeout
            if self._state is LocalState.RUNNING:
                return float("inf")
            return self._elasticity.join_timeout

    def deliver(self, message: FromMaster) -> None:
        """One word of the master's."""
        with self._changed:
            self._obey(message)
            self._changed.notify_all()

    def broken(self, trouble: WireError) -> None:
        """The master cannot be had."""
        with self._changed:
            self._trouble = trouble
            self._changed.notify_all()

    def _obey(self, message: FromMaster) -> None:
        match message:
            case Welcome():
                self._node, self._elasticity = message.node, message.elasticity
                if message.note:
                    log.warning("%s", message.note)
            case Prepare():
                self._form(message)
            case Start(round=number):
                if number == self._round and self._state is LocalState.READY:
                    self._start, self._state = message, LocalState.RUNNING
            case Wait(reason=reason, stop_workers=stop):
                log.warning("%s", reason)
                if stop and self._state is LocalState.RUNNING:
                    self._put_down(self._round)
            case Handover(handover=number):
                # torchrun's agent keeps no snapshots: nobody need wait for its workers.
                self._say(HandoverTold(fence=self._fence(), able=False, handover=number))
            case Fenced(reason=reason):
                log.warning("put out of the job: %s; joining again as a new node", reason)
                self._put_down(0)
                self._node, self._fenced = None, True
            case Drain(reason=reason):
                log.warning("leaving the job: %s", reason)
                os.kill(os.getpid(), signal.SIGTERM)
            case JobDone():
                self._done = message

    def _form(self, prepare: Prepare) -> None:
        if prepare.round != self._round:
            log.info("round %d forms: %s", prepare.round, prepare.reason)
            self._seen = max(self._seen, prepare.round)
            self._put_down(prepare.round)
            self._prepare = prepare
        elif self._state is LocalState.READY:
            # Asked twice, by a master that read our Hello before we were ready. The store that was
            # opened then is the one the others are told of.
            self._say(Ready(fence=self._fence(), store=self._store))

    def _put_down(self, number: int) -> None:
        """Nothing is held of any round any more; ``number`` is the one to come."""
        self._round, self._state = number, LocalState.IDLE
        self._prepare = self._start = self._store = None
        self._failures = ()

    # --- asked and told by torchrun's thread ------------------------------------------------

    @property
    def trains(self) -> bool:
        """Whether the workers of the held round may go on."""
        with self._changed:
            over = self._done is not None or self._trouble is not None
            return self._state is LocalState.RUNNING and not over

    @property
    def first_rank(self) -> int:
        """The global rank of this node's first worker in the held round."""
        with self._changed:
            return 0 if self._start is None else self._start.first_rank

    @property
    def is_over(self) -> bool:
        """Whether no round can come any more."""
        with self._changed:
            return self._done is not None or self._trouble is not None

    def next_order(self) -> Prepare | Start:
        """Wait for what this node has to do next, its workers being stopped.

        Raises JobSucceeded, or torch's errors for a job that failed and for a master that is gone.
        """
        with self._changed:
            while True:
                self._raise_if_over()
                if self._fenced:
                    self._fenced = False
                    self._rejoin()
                if self._prepare is not None:
                    order, self._prepare = self._prepare, None
                    return order
                if self._start is not None:
                    return self._start
                self._changed.wait()

    def ready(self, prepare: Prepare, store: StoreAddress | None) -> None:
        """The node is ready for the round it was told to prepare, unless there is a newer one."""
        with self._changed:
            if prepare.round == self._round:
                self._state, self._store = LocalState.READY, store
                self._say(Ready(fence=self._fence(), store=store))

    def failed(self, failures: tuple[WorkerFailure, ...]) -> None:
        """Workers of the held round failed."""
        with self._changed:
            if self._state is LocalState.RUNNING:
                self._state, self._failures, self._start = LocalState.FAILED, failures, None
                self._say(WorkersFailed(fence=self._fence(), failures=failures))

    def succeeded(self) -> None:
        """All workers of the held round ended well."""
        with self._changed:
            if self._state is LocalState.RUNNING:
                self._state = LocalState.SUCCEEDED
                self._say(WorkersSucceeded(fence=self._fence()))

    def await_verdict(self, timeout: float | None) -> bool:
        """Wait for the job's end. False if it goes on, with or without this node."""
        with self._changed:
            said = (LocalState.SUCCEEDED, LocalState.FAILED)
            self._changed.wait_for(
                lambda: self._done or self._trouble or self._state not in said, timeout
            )
            return self._done is not None

    def leave(self, reason: str) -> None:
        """Go, so that nobody waits for proof."""
        with self._changed:
            if self._node is not None and self._done is None:
                self._say(Leave(fence=self._fence(), reason=reason))
                self._node = None

    def _fence(self) -> Fence:
        return Fence(self._node or 0, self._round)

    def _raise_if_over(self) -> None:
        if self._trouble is not None:
            raise RendezvousConnectionError(str(self._trouble))
        if self._done is None:
            return
        if self._done.outcome is Outcome.SUCCEEDED:
            raise JobSucceeded(self._done.reason)
        raise RendezvousClosedError(describe_end(self._done))


def describe_end(done: JobDone) -> str:
    """How a job ended that did not succeed, and which worker failed first."""
    if done.outcome is Outcome.STOPPED:
        return f"the job was stopped: {done.reason}"
    if done.report is None:
        return f"the job failed: {done.reason}"
    report, failure = done.report, done.report.failure
    first = f"rank {failure.rank} on node {report.node} ({report.name})"
    words = f"\n{failure.message}" if failure.message else ""
    return f"the job failed: {done.reason}; first {first}, exit code {failure.exit_code}{words}"
