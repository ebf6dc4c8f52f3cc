"""A node of a job, shared by the line's thread and torchrun's.

The line delivers the master's messages and requests the Hello for a new master; torchrun's thread
waits for orders and reports how the workers ended. The node's state is kept by its session
(``wire/session.py``), under one lock.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable

from torch.distributed.elastic.rendezvous import (
    RendezvousClosedError,
    RendezvousConnectionError,
)

from resile.group_name import group_from_environment
from resile.job.elasticity import Elasticity
from resile.wire.errors import WireError
from resile.wire.instructions import (
    Instruction,
    Joined,
    KeepWaiting,
    LeaveJob,
    PrepareRound,
    Rejoin,
    RepeatReady,
    StartWorkers,
    StopWorkers,
)
from resile.wire.messages import (
    FromAgent,
    FromMaster,
    Handover,
    HandoverTold,
    Hello,
    JobDone,
    LocalState,
    NodeInfo,
    Outcome,
    Renew,
    StoreAddress,
    WorkerFailure,
)
from resile.wire.session import NodeSession

log = logging.getLogger("resile.rendezvous")

SAID_HOW_THEY_ENDED = (LocalState.SUCCEEDED, LocalState.FAILED)


class JobSucceeded(Exception):
    """The job succeeded while this node waited: it has nothing left to do."""


class Member:
    """A node of a job, from its first Hello to its last message."""

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
        """``say`` and ``rejoin`` are the line's methods; callable from any thread."""
        self._session = NodeSession(
            job, info, elasticity=elasticity, group=group_from_environment(os.environ)
        )
        self._connect_timeout = connect_timeout
        self._say_at_once = say
        self._rejoin = rejoin
        self._changed = threading.Condition()
        self._order: PrepareRound | StartWorkers | Rejoin | None = None
        """The newest order that torchrun's thread has not taken."""
        self._trouble: WireError | None = None

    # --- called by the line -----------------------------------------------------------------

    def hello(self) -> Hello:
        """Return the node's full state, for a master that may have lost it."""
        with self._changed:
            return self._session.hello(now=time.monotonic())

    def renewal(self) -> FromAgent | None:
        """Return a lease renewal, once the node has joined."""
        with self._changed:
            held = self._session.held
            return None if held is None else Renew(fence=held)

    def give_up_after(self) -> float:
        """Return the timeout for an unreachable master: infinite while workers train."""
        with self._changed:
            return self._session.give_up_after(
                to_join=self._connect_timeout, working=self._session.runs
            )

    def deliver(self, message: FromMaster) -> None:
        """Handle a message from the master."""
        with self._changed:
            self._carry_out(self._session.obey(message))
            self._changed.notify_all()

    def broken(self, trouble: WireError) -> None:
        """Record that the master is unreachable."""
        with self._changed:
            self._trouble = trouble
            self._changed.notify_all()

    def _carry_out(self, instruction: Instruction | None) -> None:
        """Do what can be done immediately, and leave the rest to torchrun's thread."""
        match instruction:
            case Joined(note=note):
                if note:
                    log.warning("%s", note)
            case PrepareRound():
                log.info("round %d is forming: %s", instruction.round, instruction.reason)
                self._order = instruction
            case StartWorkers():
                self._order = instruction
            case RepeatReady(ready=ready):
                self._say(ready)
            case KeepWaiting(reason=reason):
                log.warning("%s", reason)
            case StopWorkers(reason=reason):
                log.warning("%s", reason)
                self._order = None
            case Rejoin(reason=reason):
                log.warning("evicted: %s; rejoining as a new node", reason)
                self._order = instruction
            case LeaveJob(reason=reason):
                log.warning("leaving the job: %s", reason)
                os.kill(os.getpid(), signal.SIGTERM)
            case Handover(handover=number):
                # torchrun's agent holds no snapshots: the handover need not wait for its workers.
                fence = self._session.fence
                self._say(HandoverTold(fence=fence, able=False, handover=number))

    # --- called by torchrun's thread --------------------------------------------------------

    @property
    def trains(self) -> bool:
        """Whether the workers of the current round may continue."""
        with self._changed:
            return self._session.runs and self._trouble is None

    @property
    def first_rank(self) -> int:
        """The global rank of this node's first worker in the latest round."""
        with self._changed:
            start = self._session.start
            return 0 if start is None else start.first_rank

    @property
    def is_over(self) -> bool:
        """Whether no further round will form."""
        with self._changed:
            return self._session.done is not None or self._trouble is not None

    def next_order(self) -> PrepareRound | StartWorkers:
        """Wait for the next order; called when the workers are stopped.

        Raises JobSucceeded, or torch's errors for a failed job and for an unreachable master.
        """
        with self._changed:
            while True:
                self._raise_if_over()
                order, self._order = self._order, None
                if isinstance(order, Rejoin):
                    self._rejoin()
                elif order is not None:
                    return order
                else:
                    self._changed.wait()

    def ready(self, prepare: PrepareRound, store: StoreAddress | None) -> None:
        """Report that the node is ready for a round, unless there is a newer one."""
        with self._changed:
            self._say(self._session.ready(prepare.round, store))

    def failed(self, failures: tuple[WorkerFailure, ...]) -> None:
        """Report failed workers of the current round."""
        with self._changed:
            self._say(self._session.failed(failures, now=time.monotonic()))

    def succeeded(self) -> None:
        """Report that all workers of the current round succeeded."""
        with self._changed:
            self._say(self._session.succeeded())

    def await_verdict(self, timeout: float | None) -> bool:
        """Wait for the job's end. False if it continues, with or without this node."""
        with self._changed:
            if self._session.state in SAID_HOW_THEY_ENDED:
                self._changed.wait_for(
                    lambda: self._session.done or self._trouble or self._order, timeout
                )
            return self._session.done is not None

    def leave(self, reason: str) -> None:
        """Leave the job, so that the master need not wait for the lease to expire."""
        with self._changed:
            self._say(self._session.leave(reason))

    def _say(self, message: FromAgent | None) -> None:
        if message is not None:
            self._say_at_once(message)

    def _raise_if_over(self) -> None:
        if self._trouble is not None:
            raise RendezvousConnectionError(str(self._trouble))
        done = self._session.done
        if done is None:
            return
        if done.outcome is Outcome.SUCCEEDED:
            raise JobSucceeded(done.reason)
        raise RendezvousClosedError(describe_end(done))


def describe_end(done: JobDone) -> str:
    """Describe the end of a job that did not succeed, and the first failed worker."""
    if done.outcome is Outcome.STOPPED:
        return f"the job was stopped: {done.reason}"
    if done.report is None:
        return f"the job failed: {done.reason}"
    report, failure = done.report, done.report.failure
    first = f"rank {failure.rank} on node {report.node} ({report.name})"
    words = f"\n{failure.message}" if failure.message else ""
    return f"the job failed: {done.reason}; first {first}, exit code {failure.exit_code}{words}"
