"""Random sequences of messages and reports never make a node send something untrue.

The messages come late, twice and in any order that a connection allows: after an eviction the first
message to a node is a Welcome. The messages that the session may send are computed here a second
time, only from the list of events.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from resile.wire.codec import decode_from_agent, encode_from_agent
from resile.wire.instructions import EndWithJob, PrepareRound, Rejoin, RepeatReady, StartWorkers
from resile.wire.messages import (
    Drain,
    Fence,
    Fenced,
    FromAgent,
    Handover,
    JobDone,
    LocalState,
    Outcome,
    StoreAddress,
    Wait,
)
from tests.unit.wire.sessions import FAILURE, prepare, session, start, welcome

ages = st.integers(-1, 3)
"""By how many rounds a message or a report is late: many are in time."""

in_job = precondition(lambda machine: machine.node is not None)


class Histories(RuleBasedStateMachine):
    """One session, and what it may send."""

    def __init__(self) -> None:
        super().__init__()
        self.session = session(warm=False)
        self.clock = 0.0
        self.node: int | None = None
        self.seen = self.handover = 0
        self.asked: int | None = None
        """The round that the node was last asked to prepare, if nothing came in between."""
        self.said_ready: int | None = None
        """The round that it reported to be ready for, if nothing came in between."""
        self.store: StoreAddress | None = None
        self.trains: int | None = None
        """The round whose workers it was ordered to start, if nothing ended that."""
        self.over = False

    # --- the master -------------------------------------------------------------------------

    @rule(node=st.integers(0, 3))
    def welcome(self, node: int) -> None:
        self.session.obey(welcome(node))
        if not self.over:
            if node != self.node:
                self._interrupted()
            self.node = node

    @in_job
    @rule(late=ages, host=st.booleans())
    def prepare(self, late: int, host: bool) -> None:
        number = max(1, self.seen - late)
        instruction = self.session.obey(prepare(number, host_store=host))
        if isinstance(instruction, PrepareRound):
            assert instruction == PrepareRound(number, host, "why not")
            assert number not in (self.said_ready, self.trains)
            self._interrupted()
            self.asked, self.seen = number, max(self.seen, number)
        elif isinstance(instruction, RepeatReady):
            assert number == self.said_ready
            self._said(instruction.ready)

    @in_job
    @rule(late=ages)
    def start(self, late: int) -> None:
        number = max(0, self.seen - late)
        instruction = self.session.obey(start(number))
        told = isinstance(instruction, StartWorkers)
        assert told == (number == self.said_ready and not self.over)
        if told:
            self._interrupted()
            self.trains = number

    @in_job
    @rule(stop=st.booleans())
    def wait(self, stop: bool) -> None:
        self.session.obey(Wait(reason="", stop_workers=stop))
        if stop:
            self._interrupted()

    @rule()
    def fence_off(self) -> None:
        instruction = self.session.obey(Fenced(reason=""))
        assert isinstance(instruction, Rejoin) == (not self.over)
        if not self.over:
            self._interrupted()
            self.node = None

    @in_job
    @rule(number=st.integers(0, 3))
    def plan_a_change(self, number: int) -> None:
        if self.session.obey(Handover(round=1, reason="", handover=number)) is not None:
            self.handover = max(self.handover, number)

    @rule()
    def drain(self) -> None:
        self.session.obey(Drain(reason=""))

    @precondition(lambda machine: machine.steps > 20)
    @rule()
    def end_job(self) -> None:
        done = JobDone(outcome=Outcome.SUCCEEDED, reason="")
        first = self.session.done is None
        assert isinstance(self.session.obey(done), EndWithJob) == first
        self._interrupted()
        self.over = True

    # --- the owner --------------------------------------------------------------------------

    @rule(late=st.integers(0, 3), host=st.booleans())
    def ready(self, late: int, host: bool) -> None:
        number = max(0, self.seen - late)
        store = StoreAddress("10.0.0.1", 4000 + number) if host else None
        message = self.session.ready(number, store)
        assert (message is not None) == (number == self.asked and not self.over)
        if message is not None:
            self._said(message)
            assert message.store == store
            self._interrupted()
            self.said_ready, self.store = number, store

    @rule()
    def fail(self) -> None:
        self._ended(self.session.failed((FAILURE,), now=self.clock))

    @rule()
    def succeed(self) -> None:
        self._ended(self.session.succeeded())

    @rule()
    def stop_alone(self) -> None:
        assert self.session.idle() == (self.trains is not None)
        self.trains = None

    @rule()
    def warm_up(self) -> None:
        self._said(self.session.warmed())

    @rule()
    def offer(self) -> None:
        self._said(self.session.offer_to_leave("SIGTERM"))
        self.session.offer_ended()

    @precondition(lambda machine: machine.steps > 20)
    @rule()
    def leave(self) -> None:
        held = self.session.hello(now=self.clock).held
        message = self.session.leave("bye")
        assert (message is not None) == (held is not None and not self.over)
        if message is not None:
            assert message.fence == held
            self._interrupted()
            self.over = True

    # --- the facts --------------------------------------------------------------------------

    def _interrupted(self) -> None:
        self.asked = self.said_ready = self.store = self.trains = None

    def _ended(self, message: FromAgent | None) -> None:
        assert (message is not None) == (self.trains is not None)
        self._said(message)
        self.trains = None

    def _said(self, message: FromAgent | None) -> None:
        """Check that every message is from this node, about the round it holds."""
        if message is not None:
            assert getattr(message, "fence", None) == self.session.fence
            assert self.session.fence.node == self.node

    @property
    def steps(self) -> int:
        return int(self.clock)

    @invariant()
    def it_runs_only_what_it_was_told_to_start(self) -> None:
        assert self.session.runs == (self.trains is not None)
        if self.trains is not None:
            assert self.session.fence == Fence(self.node, self.trains)  # type: ignore[arg-type]

    @invariant()
    def its_hello_says_what_is_so(self) -> None:
        self.clock += 1
        hello = self.session.hello(now=self.clock)
        assert decode_from_agent(encode_from_agent(0, hello)).body == hello
        assert (hello.seen, hello.handover) == (self.seen, self.handover)
        assert (None if hello.held is None else hello.held.node) == self.node
        if hello.held is None:
            assert (hello.state, hello.start) == (LocalState.IDLE, None)
            return
        assert hello.held.round <= hello.seen
        if hello.state is LocalState.READY:
            assert hello.store == self.store or self.over
        if hello.state in (LocalState.RUNNING, LocalState.FAILED, LocalState.SUCCEEDED):
            # From these a master that lost its state takes the round for one that runs.
            assert hello.start is not None
            assert hello.start.round == hello.held.round
        assert bool(hello.failures) == (hello.state is LocalState.FAILED)

    @invariant()
    def it_is_ready_only_for_what_it_was_asked(self) -> None:
        ready = self.session.state is LocalState.READY
        assert ready == (self.said_ready is not None) or self.over


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=200, stateful_step_count=60)
