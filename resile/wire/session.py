"""A node's side of the protocol: its state in the job, and the effect of each message.

A :class:`NodeSession` has one owner, which talks to the master and runs workers. The owner passes
on each message from the master (:meth:`~NodeSession.obey`) and gets an instruction to carry out;
it reports changes of its workers and gets the message to send, or None when it is no longer
relevant. The session does no I/O and reads no clock, so it works with an event loop and with
threads alike. It does not depend on torch: for a node whose workers need no TCPStore, nothing
listens at the address of the store that it reports (``StoreAddress.hosted``).

::

              Prepare             ready()         Start             failed()
    IDLE ------------> preparing ---------> READY -------> RUNNING -----------> FAILED
                                                              `----------------> SUCCEEDED
                                                                  succeeded()

From each of these states a Prepare for another round leads to preparing, ``Wait(stop_workers)`` to
IDLE, and Fenced out of the job. A state is changed before the message about it is sent: should that
be lost with the connection, the next Hello says the same. Messages that come late or twice change
nothing. One that no master sends at that point raises ProtocolError, with the session's latest
events in it; an impossible report of the owner raises InvalidReport.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import msgspec

from resile.job.elasticity import Elasticity
from resile.wire.errors import ProtocolError
from resile.wire.instructions import (
    EndWithJob,
    HandoverInstruction,
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
    Drain,
    Fence,
    Fenced,
    FromMaster,
    Handover,
    Hello,
    JobDone,
    Leave,
    Leaving,
    LocalState,
    NodeInfo,
    Prepare,
    Ready,
    Refused,
    Start,
    StoreAddress,
    Wait,
    Warmed,
    Welcome,
    WorkerFailure,
    WorkersFailed,
    WorkersSucceeded,
)

__all__ = ["InvalidReport", "NodeSession"]

HISTORY = 40
"""Number of the latest events in an error: a few rounds."""


class InvalidReport(RuntimeError):
    """The owner of a session made an impossible report: a bug in our own code."""


class SessionState(msgspec.Struct, frozen=True, kw_only=True):
    """A node's place in the job, as one value: another thread never reads half of a change."""

    fence: Fence
    state: LocalState = LocalState.IDLE
    preparing: bool = False
    """True if the owner is getting ready for the round."""

    store: StoreAddress | None = None
    """Of the round the node is ready for or runs, if the node hosts it."""

    start: Start | None = None
    """The last one it was sent: a master that lost its state recovers it from these."""

    failures: tuple[WorkerFailure, ...] = ()
    failed_at: float = 0.0
    """The time of the report, on the owner's clock."""


class NodeSession:
    """A node's place in one job, from before its first Hello to its last message.

    Created with what does not change: the job, the node, and the settings of its user.
    """

    def __init__(
        self,
        job: str,
        info: NodeInfo,
        *,
        elasticity: Elasticity,
        group: str = "",
        warm: bool = True,
    ) -> None:
        """``group``: empty for the main one; ``warm``: whether the node can start workers at once,
        see :meth:`warmed`."""
        self._job = job
        self._info = info
        self._group = group
        self._wanted = elasticity
        self._held: SessionState | None = None
        self._left = False
        self._leaving = ""
        self._newest_handover = 0
        self._history: deque[str] = deque(maxlen=HISTORY)
        self.elasticity = elasticity
        """The settings of the job; until the node has joined, those of its user."""

        self.warm = warm
        self.ever_joined = False
        """True if a master has ever welcomed this node."""

        self.newest_round = 0
        """The newest round ever, under any id: later rounds have higher numbers."""

        self.broken_rounds = 0
        """The number of rounds in which this node reported a failure."""

        self.done: JobDone | None = None
        """The outcome of the job, once it has ended."""

    # --- its state --------------------------------------------------------------------------

    @property
    def held(self) -> Fence | None:
        """The id and round for messages of the node; None outside the job."""
        held = self._held
        return None if held is None or self._left else held.fence

    @property
    def fence(self) -> Fence:
        """The same for a node that is in the job; raises InvalidReport outside."""
        if (held := self.held) is None:
            raise InvalidReport(self._told("a node outside the job cannot send it a message"))
        return held

    @property
    def state(self) -> LocalState:
        """The state of the node in its round."""
        held = self._held
        return LocalState.IDLE if held is None else held.state

    @property
    def runs(self) -> bool:
        """Return whether workers of the held round run."""
        return self.state is LocalState.RUNNING and self.done is None

    @property
    def start(self) -> Start | None:
        """The last Start that this node was sent."""
        held = self._held
        return None if held is None else held.start

    def hello(self, *, now: float) -> Hello:
        """Return everything that a master which lost its state has to know."""
        held = self._held
        if held is None:
            held, fence, terms = SessionState(fence=Fence(0, 0)), None, self._wanted
        else:
            # The settings of the job: this master may not know them.
            fence, terms = held.fence, self.elasticity
        return Hello(
            job=self._job,
            info=self._info,
            elasticity=terms,
            held=fence,
            warm=self.warm,
            state=held.state,
            store=held.store,
            failures=_aged(held.failures, now - held.failed_at),
            start=held.start,
            seen=self.newest_round,
            leaving=self._leaving,
            handover=self._newest_handover,
            group=self._group,
        )

    def give_up_after(self, *, to_join: float, working: bool) -> float:
        """Return for how many seconds to look for a master: forever while workers train."""
        if self.held is None:
            return to_join
        return float("inf") if working else self.elasticity.join_timeout

    # --- messages from the master -----------------------------------------------------------

    def obey(self, message: FromMaster) -> Instruction | None:
        """Take a message; return the instruction for the owner, None if there is none."""
        self._note(_brief(message))
        if self.done is not None:
            return None
        if isinstance(message, JobDone):
            self.done = message
            return EndWithJob(message)
        if self._left:
            return None
        match message:
            case Welcome():
                return self._welcomed(message)
            case Fenced(reason=reason):
                self._hold(None)
                return Rejoin(reason)
            case Drain(reason=reason):
                return LeaveJob(reason)
            case Refused():
                return None
        if self._held is None:
            raise ProtocolError(self._told(f"{_brief(message)} for a node that is in no job"))
        return self._obey_as_member(self._held, message)

    def _welcomed(self, welcome: Welcome) -> Joined:
        new = self._held is None or self._held.fence.node != welcome.node
        if new:
            self._hold(SessionState(fence=Fence(welcome.node, 0)))
        self.elasticity, self.ever_joined = welcome.elasticity, True
        return Joined(welcome.node, new=new, note=welcome.note, handover=welcome.handover)

    def _obey_as_member(
        self,
        held: SessionState,
        message: Prepare | Start | Wait | HandoverInstruction,
    ) -> Instruction | None:
        match message:
            case Prepare():
                return self._prepare(held, message)
            case Start():
                return self._start(held, message)
            case Wait(reason=reason, stop_workers=True):
                self._put_down(held)
                return StopWorkers(reason)
            case Wait(reason=reason):
                return KeepWaiting(reason)
            case Handover(handover=number):
                self._newest_handover = max(self._newest_handover, number)
        return message

    def _prepare(self, held: SessionState, prepare: Prepare) -> PrepareRound | RepeatReady | None:
        at_it = held.preparing or held.state is not LocalState.IDLE
        if at_it and prepare.round == held.fence.round:
            # A restarted master asks again. Other nodes may know the store by now: keep it.
            return RepeatReady(_ready(held)) if held.state is LocalState.READY else None
        self.newest_round = max(self.newest_round, prepare.round)
        fence = Fence(held.fence.node, prepare.round)
        self._hold(SessionState(fence=fence, preparing=True, start=held.start))
        return PrepareRound(prepare.round, prepare.host_store, prepare.reason)

    def _start(self, held: SessionState, start: Start) -> StartWorkers | None:
        if start.round != held.fence.round or held.state is not LocalState.READY:
            return None
        self._hold(msgspec.structs.replace(held, state=LocalState.RUNNING, start=start))
        return StartWorkers(start)

    # --- reports of the owner ---------------------------------------------------------------

    def warmed(self) -> Warmed | None:
        """Workers can be started at once from now on."""
        self.warm = True
        return None if self.held is None else Warmed(fence=self.fence)

    def ready(self, round: int, store: StoreAddress | None = None) -> Ready | None:
        """The node is ready for the round it was asked to prepare; None if another one came.

        ``store``: the address of the round's store, from the node that was asked to host it.
        """
        if round > self.newest_round:
            raise InvalidReport(
                self._told(f"ready for round {round}, which the master did not ask for")
            )
        held = self._held
        over = self.done is not None
        if over or held is None or not held.preparing or round != held.fence.round:
            return None
        fields = {"state": LocalState.READY, "preparing": False, "store": store}
        held = msgspec.structs.replace(held, **fields)
        self._hold(held)
        return _ready(held)

    def failed(self, failures: tuple[WorkerFailure, ...], *, now: float) -> WorkersFailed | None:
        """Workers of the running round failed, or something that they depend on did."""
        held = self._held
        if held is None or not self.runs:
            return None
        self.broken_rounds += 1
        fields = {"state": LocalState.FAILED, "failures": failures, "failed_at": now}
        self._hold(msgspec.structs.replace(held, **fields))
        return WorkersFailed(fence=held.fence, failures=failures)

    def succeeded(self) -> WorkersSucceeded | None:
        """All workers of the running round succeeded."""
        held = self._held
        if held is None or not self.runs:
            return None
        self._hold(msgspec.structs.replace(held, state=LocalState.SUCCEEDED))
        return WorkersSucceeded(fence=held.fence)

    def idle(self) -> bool:
        """The owner stops its running workers by itself, as when it is cut off from all others;
        False where none run. There is no message to send: the next Hello says it."""
        held = self._held
        if held is None or not self.runs:
            return False
        self._put_down(held)
        return True

    def offer_to_leave(self, reason: str) -> Leaving | None:
        """The node is about to leave, and waits for all members to save; repeated in each Hello
        until :meth:`offer_ended`."""
        if self.held is None:
            return None
        self._leaving = reason
        return Leaving(fence=self.fence, reason=reason)

    def offer_ended(self) -> None:
        """The node waits no longer, whatever it does next."""
        self._leaving = ""

    def leave(self, reason: str) -> Leave | None:
        """The node leaves on purpose: it stops its workers, and takes no more instructions."""
        held = self._held
        if held is None or self._left or self.done is not None:
            return None
        self._put_down(held)
        self._left = True
        return Leave(fence=held.fence, reason=reason)

    # --- changes of state -------------------------------------------------------------------

    def _put_down(self, held: SessionState) -> None:
        """Drop the state of the round, except its number and the last Start."""
        self._hold(SessionState(fence=held.fence, start=held.start))

    def _hold(self, held: SessionState | None) -> None:
        self._held = held
        self._note(_summary(held))

    # --- its history, for errors ------------------------------------------------------------

    def _note(self, event: str) -> None:
        self._history.append(event)

    def _told(self, problem: str) -> str:
        history = "; ".join(self._history) or "nothing yet"
        return f"{problem}. Session of job '{self._job}', latest events last: {history}"


def _ready(held: SessionState) -> Ready:
    return Ready(fence=held.fence, store=held.store)


def _aged(failures: Iterable[WorkerFailure], seconds: float) -> tuple[WorkerFailure, ...]:
    """Return the same failures, reported ``seconds`` later."""
    return tuple(
        msgspec.structs.replace(failure, age=failure.age + seconds) for failure in failures
    )


def _brief(message: FromMaster) -> str:
    """Return a message's name, and its round if it has one: some are long."""
    number = getattr(message, "round", None)
    name = type(message).__name__
    return name if number is None else f"{name} of round {number}"


def _summary(held: SessionState | None) -> str:
    if held is None:
        return "-> in no job"
    state = "preparing" if held.preparing else held.state.value
    return f"-> node {held.fence.node}, round {held.fence.round}, {state}"
