"""The evidence that a node is lost, how soon it counts, and its effect on budgets."""

from __future__ import annotations

from resile.wire.messages import Fenced
from tests.unit.master.model import Model


def test_a_closed_connection_is_proof_only_after_its_grace() -> None:
    model = Model(min_nodes=1, max_nodes=2, connection_grace=0.5)
    first, second = model.join(), model.join()
    model.cut(second)
    model.advance(0.4)
    assert model.membership.round.number == 1
    model.advance(0.2)
    assert model.running == {first.name}
    assert model.membership.job.restarts == 0


def test_a_node_that_reconnects_within_the_grace_goes_on_undisturbed() -> None:
    model = Model(min_nodes=2, max_nodes=2)
    first, second = model.join(), model.join()
    model.cut(second)
    model.advance(0.3)
    model.connect(second)
    model.advance(10)
    assert model.membership.round.number == 1
    assert model.running == {first.name, second.name}


def test_workers_failing_elsewhere_shorten_the_grace_and_cost_no_restart() -> None:
    model = Model(min_nodes=1, max_nodes=2, connection_grace=60, max_restarts=0)
    first, second = model.join(), model.join()
    model.kill(second)
    model.fail(first)
    model.advance(0.06)
    assert model.running == {first.name}
    assert model.membership.job.restarts == 0


def test_a_failure_reported_just_before_its_cause_is_known_costs_no_restart() -> None:
    model = Model(min_nodes=1, max_nodes=2, connection_grace=60)
    first, second = model.join(), model.join()
    model.answering = False
    model.fail(first)
    assert model.membership.job.restarts == 1
    model.kill(second)
    model.answering = True
    model.advance(0.06)
    assert model.membership.job.restarts == 0
    assert model.running == {first.name}


def test_with_no_restart_left_a_failure_waits_for_news_of_a_lost_node() -> None:
    model = Model(min_nodes=1, max_nodes=2, max_restarts=0)
    first, second = model.join(), model.join()
    model.fail(first)
    assert model.membership.job.outcome is None
    model.kill(second)
    model.advance(1)
    assert model.membership.job.outcome is None
    assert model.running == {first.name}


def test_silence_is_proof_when_the_lease_is_over() -> None:
    model = Model(min_nodes=1, max_nodes=2, lease=5)
    first, second = model.join(), model.join()
    silent = model.agents.pop(second.name)
    model.advance(4.9)
    assert model.membership.round.number == 1
    model.advance(0.7)
    assert model.running == {first.name}
    assert isinstance(silent.told[-1], Fenced)


def test_a_fenced_node_rejoins_under_a_new_id() -> None:
    model = Model(min_nodes=1, max_nodes=2, lease=5)
    _, second = model.join(), model.join()
    old = second.node
    model.agents.pop(second.name)
    model.advance(6)
    model.agents[second.name] = second
    model.connect(second)
    model.advance(1)
    assert second.node is not None
    assert second.node != old
    assert model.running == {"n1", "n2"}


def test_a_node_that_was_away_too_long_is_told_that_it_is_fenced() -> None:
    model = Model(min_nodes=1, max_nodes=2)
    _, second = model.join(), model.join()
    model.cut(second)
    model.advance(1)
    model.connect(second)
    assert isinstance(second.told[-1], Fenced)


def test_a_lost_node_is_the_reason_of_the_next_round_and_not_its_survivors_workers() -> None:
    model = Model(min_nodes=1, max_nodes=2)
    first, second = model.join(), model.join()
    model.kill(second)
    model.fail(first, message="Connection closed by peer")
    model.advance(0.1)
    assert model.running == {first.name}
    assert model.membership.round.record.reason == f"node 1 ({second.name}) was lost"


def test_a_job_that_gives_up_after_a_loss_names_the_lost_node() -> None:
    model = Model(min_nodes=2, max_nodes=2, join_timeout=30)
    first, second = model.join(), model.join()
    model.kill(second)
    model.fail(first, message="Connection closed by peer")
    model.advance(40)
    report = model.membership.job.report
    assert report is not None
    assert (report.name, report.others) == (second.name, 1)
    assert report.failure.message == "the node was lost: connection lost"


def test_a_job_without_restarts_does_not_speak_of_those_it_used_up() -> None:
    reasons = []
    for restarts in range(3):
        model = Model(min_nodes=1, max_nodes=1, max_restarts=restarts)
        agent = model.join()
        for _ in range(restarts + 1):
            model.fail(agent)
        model.advance(1)
        reasons.append(model.membership.job.reason)
    assert reasons == [
        "a worker failed and --max-restarts is 0",
        "a worker failed and the only restart is used up",
        "a worker failed and all 2 restarts are used up",
    ]
