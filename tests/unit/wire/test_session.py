"""A session: the instruction that follows from each message, and the reply to each report."""

from __future__ import annotations

import msgspec
import pytest

from resile.job.elasticity import Elasticity
from resile.wire.errors import ProtocolError
from resile.wire.instructions import (
    EndWithJob,
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
    HandoverCancelled,
    HandoverOver,
    HandoverPublish,
    HandoverStep,
    Hello,
    JobDone,
    Leave,
    Leaving,
    LocalState,
    Outcome,
    Ready,
    Refused,
    StoreAddress,
    Wait,
    Warmed,
    WorkersFailed,
    WorkersSucceeded,
)
from resile.wire.session import InvalidReport, NodeSession
from tests.unit.wire.sessions import (
    FAILURE,
    INFO,
    STORE,
    prepare,
    run_round,
    session,
    start,
    welcome,
)

DONE = JobDone(outcome=Outcome.SUCCEEDED, reason="all ended well")
STOP = Wait(reason="too few nodes", stop_workers=True)


def joined() -> NodeSession:
    member = session()
    member.obey(welcome())
    return member


def running(number: int = 1) -> NodeSession:
    member = joined()
    run_round(member, number)
    return member


def in_state(state: LocalState) -> NodeSession:
    """A session of round 1 in this state."""
    member = joined()
    if state is not LocalState.IDLE:
        member.obey(prepare())
        member.ready(1, STORE)
    if state not in (LocalState.IDLE, LocalState.READY):
        member.obey(start())
    if state is LocalState.FAILED:
        member.failed((FAILURE,), now=0)
    if state is LocalState.SUCCEEDED:
        member.succeeded()
    assert member.state is state
    return member


# --- joining ----------------------------------------------------------------------------------


def test_a_newcomer_says_who_it_is_and_what_its_user_wants() -> None:
    wanted = Elasticity(min_nodes=2, max_nodes=3)
    newcomer = session(elasticity=wanted, warm=False)
    assert newcomer.hello(now=0) == Hello(job="job", info=INFO, elasticity=wanted, warm=False)
    assert not newcomer.ever_joined
    assert newcomer.held is None


def test_a_member_says_what_the_job_agreed_on() -> None:
    agreed = Elasticity(min_nodes=2, max_nodes=9)
    member = session()
    assert member.obey(welcome(5, elasticity=agreed, note="differs")) == Joined(
        5, new=True, note="differs"
    )
    assert member.elasticity == member.hello(now=0).elasticity == agreed
    assert member.hello(now=0).held == member.held == Fence(5, 0)
    assert member.ever_joined


def test_a_welcome_after_a_lost_connection_changes_nothing_that_is_held() -> None:
    member = running()
    before = member.hello(now=0)
    assert member.obey(welcome(5)) == Joined(5, new=False)
    assert member.hello(now=0) == before


def test_a_node_that_got_another_number_holds_nothing_of_the_old_one() -> None:
    member = running(3)
    assert member.obey(welcome(6)) == Joined(6, new=True)
    hello = member.hello(now=0)
    assert (hello.held, hello.state, hello.start) == (Fence(6, 0), LocalState.IDLE, None)
    assert hello.seen == 3


def test_it_says_when_workers_can_start_at_once() -> None:
    node = session(warm=False)
    assert node.warmed() is None  # not connected yet: the Hello will carry it
    assert node.hello(now=0).warm
    node.obey(welcome())
    assert node.warmed() == Warmed(fence=Fence(5, 0))


# --- rounds -----------------------------------------------------------------------------------


def test_a_round_is_prepared_then_run() -> None:
    member = joined()
    assert member.obey(prepare(1)) == PrepareRound(round=1, host_store=True, reason="why not")
    assert member.state is LocalState.IDLE
    assert member.ready(1, STORE) == Ready(fence=Fence(5, 1), store=STORE)
    assert member.hello(now=0).store == STORE
    assert member.obey(start(1)) == StartWorkers(start(1))
    assert member.runs
    assert member.hello(now=0).start == start(1)


def test_a_node_without_a_store_is_ready_without_one() -> None:
    member = joined()
    member.obey(prepare(1, host_store=False))
    assert member.ready(1) == Ready(fence=Fence(5, 1), store=None)


def test_a_node_that_needs_no_store_names_an_address_where_nobody_listens() -> None:
    member = joined()
    member.obey(prepare(1))
    unserved = StoreAddress("10.0.0.1", 1, hosted=False)
    assert member.ready(1, unserved) == Ready(fence=Fence(5, 1), store=unserved)


@pytest.mark.parametrize("state", LocalState)
def test_another_round_is_prepared_from_every_state(state: LocalState) -> None:
    member = in_state(state)
    assert member.obey(prepare(2)) == PrepareRound(round=2, host_store=True, reason="why not")
    hello = member.hello(now=0)
    assert (hello.held, hello.state) == (Fence(5, 2), LocalState.IDLE)
    assert (hello.store, hello.failures) == (None, ())


def test_the_last_start_is_kept_while_the_next_round_forms() -> None:
    member = running(1)
    member.obey(prepare(2))
    assert member.start == start(1)


@pytest.mark.parametrize("state", LocalState)
def test_told_to_stop_it_holds_nothing_of_the_round(state: LocalState) -> None:
    member = in_state(state)
    assert member.obey(STOP) == StopWorkers("too few nodes")
    assert member.state is LocalState.IDLE
    assert member.obey(start(1)) is None


def test_a_wait_alone_stops_nothing() -> None:
    member = running()
    assert member.obey(Wait(reason="two more nodes come")) == KeepWaiting("two more nodes come")
    assert member.runs


# --- late and repeated messages ---------------------------------------------------------------


def test_a_master_that_asks_again_hears_of_the_same_store() -> None:
    member = in_state(LocalState.READY)
    assert member.obey(prepare(1)) == RepeatReady(Ready(fence=Fence(5, 1), store=STORE))


def test_a_round_that_is_being_prepared_is_not_begun_twice() -> None:
    member = joined()
    member.obey(prepare(1))
    assert member.obey(prepare(1)) is None
    assert member.ready(1, STORE) is not None


@pytest.mark.parametrize("state", [LocalState.RUNNING, LocalState.FAILED, LocalState.SUCCEEDED])
def test_a_late_prepare_does_not_stop_the_round(state: LocalState) -> None:
    member = in_state(state)
    assert member.obey(prepare(1)) is None
    assert member.state is state


def test_a_round_that_was_given_up_can_be_asked_for_again() -> None:
    member = running()
    assert member.idle()
    assert isinstance(member.obey(prepare(1)), PrepareRound)


@pytest.mark.parametrize("state", [state for state in LocalState if state is not LocalState.READY])
def test_a_start_counts_only_when_the_node_is_ready(state: LocalState) -> None:
    member = in_state(state)
    before = member.hello(now=0)
    assert member.obey(start(1)) is None
    assert member.hello(now=0) == before


def test_a_start_of_another_round_is_no_start() -> None:
    member = in_state(LocalState.READY)
    assert member.obey(start(2)) is None
    assert member.obey(start(0)) is None
    assert member.state is LocalState.READY


def test_a_start_before_the_node_is_ready_is_no_start() -> None:
    member = joined()
    member.obey(prepare(1))
    assert member.obey(start(1)) is None


def test_ready_for_a_round_that_was_overtaken_is_not_said() -> None:
    member = joined()
    member.obey(prepare(1))
    member.obey(prepare(2))
    assert member.ready(1, STORE) is None
    assert member.ready(2, STORE) == Ready(fence=Fence(5, 2), store=STORE)
    assert member.ready(2, STORE) is None


def test_ready_after_being_told_to_stop_is_not_said() -> None:
    member = joined()
    member.obey(prepare(1))
    member.obey(STOP)
    assert member.ready(1, STORE) is None


def test_a_refusal_changes_nothing() -> None:
    member = running()
    assert member.obey(Refused(reason="late")) is None
    assert member.runs


# --- how workers end --------------------------------------------------------------------------


def test_a_failure_is_said_once_and_repeated_with_its_age() -> None:
    member = running()
    said = member.failed((FAILURE,), now=100)
    assert said == WorkersFailed(fence=Fence(5, 1), failures=(FAILURE,))
    assert member.failed((FAILURE,), now=101) is None
    assert member.broken_rounds == 1
    (repeated,) = member.hello(now=103).failures
    assert repeated == msgspec.structs.replace(FAILURE, age=FAILURE.age + 3)


def test_success_is_said_once() -> None:
    member = running()
    assert member.succeeded() == WorkersSucceeded(fence=Fence(5, 1))
    assert member.succeeded() is None
    assert member.failed((FAILURE,), now=0) is None
    assert member.state is LocalState.SUCCEEDED


@pytest.mark.parametrize(
    "state", [state for state in LocalState if state is not LocalState.RUNNING]
)
def test_workers_end_only_in_a_round_that_runs(state: LocalState) -> None:
    member = in_state(state)
    before = member.hello(now=0)
    assert member.failed((FAILURE,), now=0) is None
    assert member.succeeded() is None
    assert not member.idle()
    assert member.hello(now=0) == before


def test_a_node_that_stopped_by_itself_says_so_at_the_next_hello() -> None:
    member = running()
    assert member.idle()
    hello = member.hello(now=0)
    assert (hello.held, hello.state) == (Fence(5, 1), LocalState.IDLE)
    assert not member.idle()


# --- going ------------------------------------------------------------------------------------


def test_an_evicted_node_holds_nothing_but_how_far_the_job_was() -> None:
    member = running(7)
    member.obey(Handover(round=7, reason="a node joins", handover=4))
    assert member.obey(Fenced(reason="it slept")) == Rejoin("it slept")
    assert member.held is None
    assert member.hello(now=0) == Hello(
        job="job", info=INFO, elasticity=Elasticity(), seen=7, handover=4
    )
    assert member.failed((FAILURE,), now=0) is None
    assert member.ready(7, STORE) is None


def test_a_node_asked_to_go_may_wait_for_others_to_save() -> None:
    member = running()
    assert member.obey(Drain(reason="scaled down")) == LeaveJob("scaled down")
    assert member.offer_to_leave("SIGTERM") == Leaving(fence=Fence(5, 1), reason="SIGTERM")
    assert member.hello(now=0).leaving == "SIGTERM"
    member.offer_ended()
    assert member.hello(now=0).leaving == ""


def test_a_node_outside_the_job_offers_nothing() -> None:
    node = session()
    assert node.offer_to_leave("SIGTERM") is None
    assert node.hello(now=0).leaving == ""
    assert node.leave("SIGTERM") is None


def test_a_node_that_left_takes_nothing_more() -> None:
    member = running()
    assert member.leave("bye") == Leave(fence=Fence(5, 1), reason="bye")
    assert member.leave("once is enough") is None
    assert member.held is None
    for message in (prepare(2), welcome(), STOP, Fenced(reason="gone"), Drain(reason="go")):
        assert member.obey(message) is None
    assert member.state is LocalState.IDLE
    assert member.hello(now=0).held == Fence(5, 1)  # not to be taken in as a new node


def test_the_end_of_the_job_ends_everything() -> None:
    member = running()
    assert member.obey(DONE) == EndWithJob(DONE)
    assert member.done == DONE
    assert not member.runs
    assert member.obey(DONE) is None
    assert member.obey(prepare(2)) is None
    assert member.failed((FAILURE,), now=0) is None
    assert member.leave("bye") is None


def test_a_node_is_not_ready_for_a_round_of_a_job_that_is_over() -> None:
    member = joined()
    member.obey(prepare(1))
    member.obey(DONE)
    assert member.ready(1, STORE) is None


def test_the_end_of_the_job_may_be_the_first_thing_a_node_hears() -> None:
    node = session()
    assert node.obey(DONE) == EndWithJob(DONE)


def test_a_master_may_be_away_for_ever_only_while_workers_train() -> None:
    node = session(elasticity=Elasticity(join_timeout=77))
    assert node.give_up_after(to_join=33, working=False) == 33
    node.obey(welcome(elasticity=Elasticity(join_timeout=77)))
    assert node.give_up_after(to_join=33, working=False) == 77
    assert node.give_up_after(to_join=33, working=True) == float("inf")


# --- planned changes --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [
        Handover(round=1, reason="a node joins", handover=2),
        HandoverStep(round=1, handover=2),
        HandoverPublish(round=1, handover=2),
        HandoverOver(round=1),
        HandoverCancelled(round=1, handover=2, reason="the node is gone"),
    ],
    ids=lambda message: type(message).__name__,
)
def test_what_is_said_of_a_planned_change_is_passed_on(message: FromMaster) -> None:
    assert running().obey(message) is message


def test_the_newest_planned_change_is_remembered() -> None:
    member = running()
    member.obey(Handover(round=1, reason="", handover=2))
    member.obey(Handover(round=1, reason="", handover=1))
    assert member.hello(now=0).handover == 2


# --- what cannot be ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [prepare(), start(), STOP, Wait(reason=""), HandoverOver(round=1)],
    ids=lambda message: type(message).__name__,
)
def test_a_message_to_a_node_that_is_in_no_job_is_an_error(message: FromMaster) -> None:
    with pytest.raises(ProtocolError, match="for a node that is in no job"):
        session().obey(message)


def test_an_error_tells_the_history_of_the_session() -> None:
    member = running(3)
    member.failed((FAILURE,), now=0)
    member.obey(Fenced(reason="it slept"))
    with pytest.raises(ProtocolError) as caught:
        member.obey(start(4))
    history = str(caught.value)
    events = [
        "Start of round 4 for a node that is in no job",
        "job 'job'",
        "-> node 5, round 3, preparing",
        "-> node 5, round 3, running",
        "-> node 5, round 3, failed",
        "Fenced",
        "-> in no job",
    ]
    places = [history.index(event) for event in events]
    assert places == sorted(places)


def test_ready_for_a_round_nobody_asked_for_is_a_fault_of_the_owner() -> None:
    member = running(1)
    with pytest.raises(InvalidReport, match="ready for round 2, which the master did not ask for"):
        member.ready(2, STORE)


def test_a_node_outside_the_job_has_no_fence() -> None:
    with pytest.raises(InvalidReport, match="outside the job"):
        _ = session().fence
