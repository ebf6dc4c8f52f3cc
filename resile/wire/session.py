"""A node's side of the protocol: what it holds of the job, and what follows from each message.

A :class:`NodeSession` has one owner, which talks to the master and runs workers. The owner passes
on each message from the master (:meth:`~NodeSession.obey`) and gets an instruction to carry out;
it reports what became of its workers and gets the message to send, or None when there is nobody
left who waits for it. The session does no I/O and reads no clock, so it serves an event loop and a
pair of threads alike. It knows nothing of torch either: for a node whose workers need no TCPStore,
the store it reports is an address that nobody listens at (``StoreAddress.hosted``).

::

              Prepare             ready()         Start             failed()
    IDLE ------------> preparing ---------> READY -------> RUNNING -----------> FAILED
                                                              `----------------> SUCCEEDED
                                                                  succeeded()

From each of these states a Prepare for another round leads to preparing, ``Wait(stop_workers)`` to
IDLE, and Fenced out of the job. A state is changed before the message about it is sent: should that
be lost with the connection, the next Hello says the same. Messages that come late or twice change
nothing. One that no master sends at that point raises ProtocolError, with the session's latest
history in it; a report that no owner can make raises InvalidReport.
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
"""How many of the latest events an error tells: a few rounds."""


class InvalidReport(RuntimeError):
    """The owner of a session reported what cannot have happened: a fault in our own code."""


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """A node's place in the job, as one value: another thread never reads half of a change."""

    fence: Fence
    state: LocalState = LocalState.IDLE
    preparing: bool = False
    """Whether the owner is getting ready for the round."""

    store: StoreAddress | None = None
    """Of the round the node is ready for or runs, if the node hosts it."""

    start: Start | None = None
    """The last one it was given: a master that lost its memory learns its job from these."""

    failures: tuple[WorkerFailure, ...] = ()
    failed_at: float = 0.0
    """When they were reported, on the owner's clock."""


class NodeSession:
    """One node's place in one job, from before its first Hello to its last word.

    Made with what does not change: the job, the node, and what its user asked for.
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
        """``group``: whose rounds it joins, empty for the main one; ``warm``: whether the node can
        start workers at once, see :meth:`warmed`."""
        self._job = job
        self._info = info
        self._group = group
        self._wanted = elasticity
        self._held: Held | None = None
        self._left = False
        self._leaving = ""
        self._newest_handover = 0
        self._history: deque[str] = deque(maxlen=HISTORY)
        self.elasticity = elasticity
        """What the job was agreed on; until the node is in it, what its user asked for."""

        self.warm = warm
        self.ever_joined = False
        """Whether a master has ever welcomed this node."""

        self.newest_round = 0
        """The newest round ever, also as another node: no later one may be older."""

        self.broken_rounds = 0
        """How many rounds this node reported a failure in."""

        self.done: JobDone | None = None
        """How the job ended, once it has."""

    # --- what it holds ----------------------------------------------------------------------

    @property
    def held(self) -> Fence | None:
        """For whom and of which round the node may speak; None outside the job."""
        held = self._held
        return None if held is None or self._left else held.fence

    @property
    def fence(self) -> Fence:
        """The same, of a node that is in the job."""
        if (held := self.held) is None:
            raise InvalidReport(self._told("a node outside the job has nothing to say to it"))
        return held

    @property
    def state(self) -> LocalState:
        """What the node has of its round."""
        held = self._held
        return LocalState.IDLE if held is None else held.state

    @property
    def runs(self) -> bool:
        """Whether workers of the held round may go on."""
        return self.state is LocalState.RUNNING and self.done is None

    @property
    def start(self) -> Start | None:
        """The last Start this node was given."""
        held = self._held
        return None if held is None else held.start

    def hello(self, *, now: float) -> Hello:
        """All that a master has to know which may have forgotten it."""
        held = self._held
        if held is None:
            held, fence, terms = Held(fence=Fence(0, 0)), None, self._wanted
        else:
            # What the job was agreed on: this master may not know.
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

    def patience(self, *, to_join: float, working: bool) -> float:
        """For how many seconds to look for a master: for ever while workers train."""
        if self.held is None:
            return to_join
        return float("inf") if working else self.elasticity.join_timeout

    # --- messages from the master -----------------------------------------------------------

    def obey(self, message: FromMaster) -> Instruction | None:
        """Take a message; returns what the owner has to do about it, if anything."""
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
            self._hold(Held(fence=Fence(welcome.node, 0)))
        self.elasticity, self.ever_joined = welcome.elasticity, True
        return Joined(welcome.node, new=new, note=welcome.note, handover=welcome.handover)

    def _obey_as_member(
        self,
        held: Held,
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

    def _prepare(self, held: Held, prepare: Prepare) -> PrepareRound | RepeatReady | None:
        at_it = held.preparing or held.state is not LocalState.IDLE
        if at_it and prepare.round == held.fence.round:
            # A master that returned asks again. The store is known to others by now: keep it.
            return RepeatReady(_ready(held)) if held.state is LocalState.READY else None
        self.newest_round = max(self.newest_round, prepare.round)
        fence = Fence(held.fence.node, prepare.round)
        self._hold(Held(fence=fence, preparing=True, start=held.start))
        return PrepareRound(prepare.round, prepare.host_store, prepare.reason)

    def _start(self, held: Held, start: Start) -> StartWorkers | None:
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
        """The node is ready for the round it was told to prepare, unless that was overtaken.

        ``store``: where the round's store is, from the node that was asked to host it.
        """
        if round > self.newest_round:
            raise InvalidReport(self._told(f"ready for round {round}, which nobody asked for"))
        held = self._held
        over = self.done is not None
        if over or held is None or not held.preparing or round != held.fence.round:
            return None
        fields = {"state": LocalState.READY, "preparing": False, "store": store}
        held = msgspec.structs.replace(held, **fields)
        self._hold(held)
        return _ready(held)

    def failed(self, failures: tuple[WorkerFailure, ...], *, now: float) -> WorkersFailed | None:
        """Workers of the running round failed, or something they cannot do without did."""
        held = self._held
        if held is None or not self.runs:
            return None
        self.broken_rounds += 1
        fields = {"state": LocalState.FAILED, "failures": failures, "failed_at": now}
        self._hold(msgspec.structs.replace(held, **fields))
        return WorkersFailed(fence=held.fence, failures=failures)

    def succeeded(self) -> WorkersSucceeded | None:
        """All workers of the running round ended well."""
        held = self._held
        if held is None or not self.runs:
            return None
        self._hold(msgspec.structs.replace(held, state=LocalState.SUCCEEDED))
        return WorkersSucceeded(fence=held.fence)

    def idle(self) -> bool:
        """The owner stops its running workers by itself, as when it is cut off from everybody;
        False where none run. There is nothing to send: the next Hello says it."""
        held = self._held
        if held is None or not self.runs:
            return False
        self._put_down(held)
        return True

    def offer_to_leave(self, reason: str) -> Leaving | None:
        """The node would go, and waits for everybody to save; told again in each Hello until
        :meth:`offer_ended`."""
        if self.held is None:
            return None
        self._leaving = reason
        return Leaving(fence=self.fence, reason=reason)

    def offer_ended(self) -> None:
        """The node waits no longer, whatever it does next."""
        self._leaving = ""

    def leave(self, reason: str) -> Leave | None:
        """The node goes on purpose: it stops whatever it has, and takes no more instructions."""
        held = self._held
        if held is None or self._left or self.done is not None:
            return None
        self._put_down(held)
        self._left = True
        return Leave(fence=held.fence, reason=reason)

    # --- one place for each change ----------------------------------------------------------

    def _put_down(self, held: Held) -> None:
        """Nothing of the round is kept but that it was the latest, and the last Start."""
        self._hold(Held(fence=held.fence, start=held.start))

    def _hold(self, held: Held | None) -> None:
        self._held = held
        self._note(_summary(held))

    # --- its history, for errors ------------------------------------------------------------

    def _note(self, event: str) -> None:
        self._history.append(event)

    def _told(self, problem: str) -> str:
        history = "; ".join(self._history) or "nothing yet"
        return f"{problem}. Session of job '{self._job}', latest events last: {history}"


def _ready(held: Held) -> Ready:
    return Ready(fence=held.fence, store=held.store)


def _aged(failures: Iterable[WorkerFailure], seconds: float) -> tuple[WorkerFailure, ...]:
    """The same failures, reported so much later."""
    return tuple(
        msgspec.structs.replace(failure, age=failure.age + seconds) for failure in failures
    )


def _brief(message: FromMaster) -> str:
    """A message's name, and its round if it has one: some are long."""
    number = getattr(message, "round", None)
    name = type(message).__name__
    return name if number is None else f"{name} of round {number}"


def _summary(held: Held | None) -> str:
    if held is None:
        return "-> in no job"
    state = "preparing" if held.preparing else held.state.value
    return f"-> node {held.fence.node}, round {held.fence.round}, {state}"
