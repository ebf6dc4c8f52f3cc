"""A torchrun node's state, messages and waits; the test simulates the master."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from torch.distributed.elastic.rendezvous import RendezvousClosedError, RendezvousConnectionError

from resile.job.elasticity import Elasticity
from resile.train.torchrun.member import JobSucceeded, Member
from resile.wire.errors import RefusedByPeer
from resile.wire.instructions import PrepareRound, StartWorkers
from resile.wire.messages import (
    FailureReport,
    Fence,
    Fenced,
    FromAgent,
    Handover,
    HandoverTold,
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

STORE = StoreAddress("10.0.0.1", 4000)
FAILURE = WorkerFailure(local_rank=0, rank=2, pid=7, exit_code=-9, message="its last words")


class Stage:
    """A member whose master is simulated by the test."""

    def __init__(self) -> None:
        self.said: list[FromAgent] = []
        self.rejoined = 0
        self.when_rejoined: Callable[[], object] = lambda: None
        """The master's reaction to a rejoin."""
        self.member = Member(
            "job",
            NodeInfo(name="n", host="h", address="10.0.0.1", nproc=2),
            elasticity=Elasticity(join_timeout=77),
            connect_timeout=33,
            say=self.said.append,
            rejoin=self._rejoin,
        )

    def _rejoin(self) -> None:
        self.rejoined += 1
        self.when_rejoined()

    def welcome(self, node: int = 5) -> None:
        self.member.deliver(
            Welcome(node=node, round=0, lease=5, elasticity=Elasticity(join_timeout=77))
        )

    def prepare(self, number: int = 1) -> PrepareRound:
        self.member.deliver(Prepare(round=number, group_rank=0, host_store=True, reason="why not"))
        return PrepareRound(round=number, host_store=True, reason="why not")

    def start(self, number: int = 1) -> StartWorkers:
        start = Start(
            round=number,
            group_rank=1,
            group_world_size=2,
            first_rank=2,
            world_size=4,
            store=STORE,
            restart_count=0,
            max_restarts=3,
        )
        self.member.deliver(start)
        return StartWorkers(start)

    def train(self) -> None:
        """Go as far as a running round."""
        self.welcome()
        order = self.prepare()
        assert self.member.next_order() == order
        self.member.ready(order, STORE)
        assert self.start() == self.member.next_order()
        self.said.clear()


def test_a_round_is_prepared_then_started() -> None:
    stage = Stage()
    stage.welcome()
    order = stage.prepare()
    assert stage.member.next_order() == order
    assert not stage.member.trains
    stage.member.ready(order, STORE)
    assert stage.said == [Ready(fence=Fence(5, 1), store=STORE)]
    assert stage.member.hello().state is LocalState.READY
    assert stage.member.hello().store == STORE
    started = stage.start()
    assert stage.member.next_order() == started
    assert stage.member.trains
    assert stage.member.first_rank == 2


def test_a_round_overtaken_by_a_newer_one_is_not_started() -> None:
    stage = Stage()
    stage.welcome()
    old = stage.prepare(1)
    assert stage.member.next_order() == old
    new = stage.prepare(2)
    stage.member.ready(old, STORE)
    assert stage.said == []
    assert stage.member.next_order() == new
    stage.member.ready(new, None)
    stage.start(1)
    assert not stage.member.trains
    stage.start(2)
    assert stage.member.trains


def test_a_round_asked_for_twice_is_prepared_once() -> None:
    stage = Stage()
    stage.welcome()
    order = stage.prepare()
    assert stage.member.next_order() == order
    stage.prepare()
    stage.member.ready(order, STORE)
    stage.prepare()
    assert stage.said == [Ready(fence=Fence(5, 1), store=STORE)] * 2
    assert stage.start() == stage.member.next_order()


def test_a_start_nobody_asked_for_is_no_start() -> None:
    stage = Stage()
    stage.welcome()
    stage.prepare()
    stage.start()
    assert not stage.member.trains


def test_a_new_round_stops_the_workers_of_the_old_one() -> None:
    stage = Stage()
    stage.train()
    stage.prepare(2)
    assert not stage.member.trains
    assert stage.member.hello().held == Fence(5, 2)
    assert stage.member.hello().state is LocalState.IDLE


def test_a_failure_is_said_once_and_repeated_to_a_master_that_forgot() -> None:
    stage = Stage()
    stage.train()
    stage.member.failed((FAILURE,))
    stage.member.failed((FAILURE,))
    assert stage.said == [WorkersFailed(fence=Fence(5, 1), failures=(FAILURE,))]
    hello = stage.member.hello()
    assert (hello.state, hello.held) == (LocalState.FAILED, Fence(5, 1))
    (repeated,) = hello.failures
    assert repeated.age > FAILURE.age
    assert msgspec.structs.replace(repeated, age=FAILURE.age) == FAILURE


def test_a_master_without_memory_learns_the_running_round() -> None:
    stage = Stage()
    stage.train()
    hello = stage.member.hello()
    assert hello.state is LocalState.RUNNING
    assert hello.start is not None
    assert hello.start.round == 1


def test_a_node_that_said_goodbye_takes_no_more_orders() -> None:
    stage = Stage()
    stage.train()
    stage.member.leave("torchrun ended")
    stage.prepare(2)
    assert [type(message) for message in stage.said] == [Leave]
    assert stage.member.renewal() is None
    assert stage.member.hello().held == Fence(5, 1)


def test_a_planned_change_does_not_wait_for_torchrun() -> None:
    stage = Stage()
    stage.train()
    stage.member.deliver(Handover(round=1, reason="a node joins", handover=3))
    assert stage.said == [HandoverTold(fence=Fence(5, 1), able=False, handover=3)]
    assert stage.member.hello().handover == 3


def test_a_failure_of_a_round_that_is_over_is_not_said() -> None:
    stage = Stage()
    stage.train()
    stage.prepare(2)
    stage.member.failed((FAILURE,))
    stage.member.succeeded()
    assert stage.said == []


def test_a_node_that_was_put_out_joins_again_when_its_workers_are_stopped() -> None:
    stage = Stage()
    stage.train()
    stage.member.deliver(Fenced(reason="it slept"))
    assert not stage.member.trains
    assert stage.member.hello().held is None
    assert stage.member.renewal() is None
    assert stage.rejoined == 0

    def take_in() -> None:
        stage.welcome(6)
        stage.prepare(4)

    stage.when_rejoined = take_in
    order = stage.member.next_order()
    assert order == PrepareRound(round=4, host_store=True, reason="why not")
    assert stage.rejoined == 1
    assert stage.member.hello().held == Fence(6, 4)
    assert stage.member.hello().seen == 4


def test_a_node_told_to_wait_stops_its_workers() -> None:
    stage = Stage()
    stage.train()
    stage.member.deliver(Wait(reason="too few nodes"))
    assert stage.member.trains
    stage.member.deliver(Wait(reason="too few nodes", stop_workers=True))
    assert not stage.member.trains


def test_a_success_waits_for_the_end_of_the_job() -> None:
    stage = Stage()
    stage.train()
    stage.member.succeeded()
    assert stage.said == [WorkersSucceeded(fence=Fence(5, 1))]
    assert not stage.member.await_verdict(0.01)
    stage.member.deliver(JobDone(outcome=Outcome.SUCCEEDED, reason="all ended well"))
    assert stage.member.await_verdict(None)
    stage.member.leave("bye")
    assert stage.said == [WorkersSucceeded(fence=Fence(5, 1))]
    with pytest.raises(JobSucceeded):
        stage.member.next_order()


def test_a_success_is_in_vain_when_others_need_a_new_round() -> None:
    stage = Stage()
    stage.train()
    stage.member.succeeded()
    stage.prepare(2)
    assert not stage.member.await_verdict(None)
    stage.member.leave("torchrun does not start them again")
    stage.member.leave("once is enough")
    assert [type(message) for message in stage.said] == [WorkersSucceeded, Leave]


def test_a_failed_job_is_told_with_its_first_failure() -> None:
    stage = Stage()
    stage.train()
    report = FailureReport(node=3, name="far", host="h", failure=FAILURE, when=0.0)
    stage.member.deliver(JobDone(outcome=Outcome.FAILED, reason="no restart left", report=report))
    assert not stage.member.trains
    assert stage.member.is_over
    words = r"no restart left; first rank 2 on node 3 \(far\), exit code -9\nits last words"
    with pytest.raises(RendezvousClosedError, match=words):
        stage.member.next_order()


def test_a_stopped_job_is_told_to_be_one() -> None:
    stage = Stage()
    stage.member.deliver(JobDone(outcome=Outcome.STOPPED, reason="stopped by a user"))
    with pytest.raises(RendezvousClosedError, match="the job was stopped: stopped by a user"):
        stage.member.next_order()


def test_a_master_that_refuses_is_an_error_of_the_connection() -> None:
    stage = Stage()
    stage.member.broken(RefusedByPeer("wrong token", final=True))
    assert stage.member.is_over
    with pytest.raises(RendezvousConnectionError, match="wrong token"):
        stage.member.next_order()


def test_patience_is_endless_only_while_workers_train() -> None:
    stage = Stage()
    assert stage.member.give_up_after() == 33
    stage.train()
    assert stage.member.give_up_after() == float("inf")
    assert stage.member.renewal() == Renew(fence=Fence(5, 1))
    stage.prepare(2)
    assert stage.member.give_up_after() == 77
