"""The membership protocol, one rule a test, on a virtual clock."""

from __future__ import annotations

from resile.wire.messages import Drain, Fenced, JobDone, Outcome, Prepare, Wait
from tests.unit.master.model import Model


def texts(model: Model) -> list[str]:
    return [event.text for event in model.membership.effects.events]


def test_a_round_closes_at_once_when_all_nodes_are_there() -> None:
    model = Model(min_nodes=2, max_nodes=2)
    model.join()
    assert not model.running
    model.join()
    assert model.running == {"n1", "n2"}


def test_the_first_round_waits_for_the_last_call_when_more_may_come() -> None:
    model = Model(min_nodes=1, max_nodes=3, last_call=3)
    model.join()
    model.advance(2.9)
    assert not model.running
    model.advance(0.2)
    assert model.running == {"n1"}


def test_nobody_waits_for_more_nodes_than_the_platform_was_asked_for() -> None:
    model = Model(min_nodes=1, max_nodes=8)
    model.membership.want(2, now=model.now)
    model.join()
    model.join()
    assert model.running == {"n1", "n2"}


def test_a_job_below_min_says_for_what_it_waits_and_gives_up() -> None:
    model = Model(min_nodes=2, max_nodes=2, join_timeout=10)
    agent = model.join()
    assert any("1 of at least 2" in m.reason for m in agent.told if isinstance(m, Wait))
    model.advance(10.1)
    assert isinstance(agent.told[-1], JobDone)
    assert agent.told[-1].outcome is Outcome.FAILED
    assert "timed out after 10 s" in agent.told[-1].reason


def test_the_patience_of_a_job_begins_with_its_first_node() -> None:
    model = Model(min_nodes=2, max_nodes=2, join_timeout=10)
    model.advance(100)
    assert model.membership.job.outcome is None
    agent = model.join()
    model.advance(10.1)
    assert isinstance(agent.told[-1], JobDone)
    assert "timed out after 10 s" in agent.told[-1].reason


def test_a_job_that_is_suspended_while_it_waits_does_not_give_up() -> None:
    model = Model(min_nodes=2, max_nodes=2, join_timeout=10)
    first, second = model.join(), model.join()
    model.membership.rest(True, now=model.now)
    model.leave(first)
    model.leave(second)
    model.crash_master()
    model.advance(100)
    assert model.membership.job.outcome is None
    model.membership.rest(False, now=model.now)
    model.advance(5)
    model.join()
    model.join()
    assert model.membership.job.outcome is None
    assert len(model.running) == 2


def test_a_worker_failure_starts_a_new_round_at_once_with_the_same_nodes() -> None:
    model = Model(min_nodes=2, max_nodes=2)
    first, _ = model.join(), model.join()
    model.fail(first, -9)
    assert model.membership.round.number == 2
    assert model.running == {"n1", "n2"}
    assert model.membership.job.restarts == 1


def test_a_failure_with_no_restart_left_fails_the_job_and_names_the_first() -> None:
    model = Model(min_nodes=1, max_nodes=1, max_restarts=1)
    agent = model.join()
    model.fail(agent)
    model.fail(agent, 7, "boom")
    model.advance(0.3)
    done = agent.told[-1]
    assert isinstance(done, JobDone)
    assert done.report is not None
    assert (done.report.failure.exit_code, done.report.failure.message) == (7, "boom")


def test_a_late_report_of_an_older_round_is_refused() -> None:
    model = Model(min_nodes=2, max_nodes=2)
    first, second = model.join(), model.join()
    stale = model.fence(second)
    model.fail(first)
    refusal = model.membership.reports.failed(stale, (), now=model.now)
    assert refusal is not None
    assert "round 1 is over" in refusal
    assert model.running == {"n1", "n2"}


def test_a_node_beyond_max_waits_as_a_spare_and_takes_a_lost_ones_rank() -> None:
    model = Model(min_nodes=2, max_nodes=2)
    first, second, spare = model.join(), model.join(), model.join()
    assert model.running == {first.name, second.name}
    assert any("spare" in m.reason for m in spare.told if isinstance(m, Wait))
    model.leave(first)
    assert model.running == {second.name, spare.name}
    assert spare.start is not None
    assert spare.start.group_rank == 0


def test_the_world_is_a_multiple_of_the_node_unit() -> None:
    model = Model(min_nodes=2, max_nodes=6, node_unit=2, last_call=1)
    for _ in range(5):
        model.join()
    model.advance(2)
    assert len(model.running) == 4
    model.join()
    model.advance(1)
    assert len(model.running) == 6


def test_a_newcomer_is_taken_into_a_running_job() -> None:
    model = Model(min_nodes=1, max_nodes=2, last_call=0)
    model.join()
    assert model.running == {"n1"}
    model.join()
    model.advance(0.2)
    assert model.running == {"n1", "n2"}
    assert model.membership.job.restarts == 0


def test_newcomers_of_one_moment_cost_one_round() -> None:
    model = Model(min_nodes=1, max_nodes=4, last_call=0)
    model.join()
    for _ in range(3):
        model.join()
    model.advance(0.2)
    assert model.membership.round.number == 2
    assert len(model.running) == 4


def test_a_leaving_node_is_not_waited_for() -> None:
    model = Model(min_nodes=1, max_nodes=2)
    first, second = model.join(), model.join()
    model.leave(second)
    assert model.running == {first.name}
    assert "n2" in texts(model)[-3]


def test_the_job_succeeds_when_every_member_did() -> None:
    model = Model(min_nodes=2, max_nodes=2)
    first, second = model.join(), model.join()
    model.succeed(first)
    assert model.membership.job.outcome is None
    model.succeed(second)
    assert model.membership.job.outcome is Outcome.SUCCEEDED


def test_losing_a_node_that_has_finished_does_not_disturb_the_others() -> None:
    model = Model(min_nodes=2, max_nodes=2)
    first, second = model.join(), model.join()
    model.succeed(first)
    model.kill(first)
    model.advance(1)
    assert model.membership.round.number == 1
    model.succeed(second)
    assert model.membership.job.outcome is Outcome.SUCCEEDED


def test_no_newcomer_is_taken_once_members_have_finished() -> None:
    model = Model(min_nodes=2, max_nodes=3, last_call=0)
    first, _ = model.join(), model.join()
    model.succeed(first)
    model.join()
    model.advance(1)
    assert model.membership.round.number == 1


def test_a_replacement_for_a_slot_puts_its_predecessor_out_at_once() -> None:
    model = Model(min_nodes=2, max_nodes=2)
    model.join(rank=0, generation=0)
    old = model.join(rank=1, generation=1)
    model.cut(old)
    new = model.join(rank=1, generation=2)
    assert model.running == {"n1", new.name}
    assert new.start is not None
    assert new.start.group_rank == 1


def test_ranks_follow_slots_and_count_every_nodes_workers() -> None:
    model = Model(min_nodes=2, max_nodes=2)
    late = model.join(rank=1, nproc=2)
    early = model.join(rank=0, nproc=3)
    assert early.start is not None
    assert late.start is not None
    assert (early.start.first_rank, late.start.first_rank) == (0, 3)
    assert early.start.world_size == 5


def test_a_member_that_cannot_get_ready_is_put_out() -> None:
    model = Model(min_nodes=1, max_nodes=2, forming_timeout=10)
    model.join()
    model.answering = False
    stuck = model.join()
    first = model.agents["n1"]
    model.answer_prepare(first)
    model.answering = True
    model.advance(10.1)
    assert model.running == {first.name}
    assert any(isinstance(message, Fenced) for message in stuck.told)


def test_workers_that_never_reach_the_process_group_break_the_round() -> None:
    model = Model(min_nodes=2, max_nodes=2, start_timeout=5)
    first, second = model.join(), model.join()
    model.membership.reports.reached(model.fence(first), (0,), (), now=model.now)
    model.membership.reports.reached(model.fence(second), (), (1,), now=model.now)
    model.advance(5.1)
    assert model.membership.round.number == 2
    assert any("rank 1 did not reach the process group" in text for text in texts(model))


def test_a_script_without_process_group_is_never_late() -> None:
    model = Model(min_nodes=1, max_nodes=1, start_timeout=5)
    agent = model.join(nproc=2)
    model.membership.reports.reached(model.fence(agent), (), (0, 1), now=model.now)
    model.advance(60)
    assert model.membership.round.number == 1


def test_another_jobs_agent_is_refused() -> None:
    model = Model(min_nodes=1, max_nodes=1)
    agent = model.join()
    answer = model.membership.hello(agent.hello(model.elasticity, job="other"), now=0)
    assert not isinstance(answer, int)
    assert "serves the job 'j'" in answer.reason


def test_a_drained_node_is_asked_to_leave() -> None:
    model = Model(min_nodes=1, max_nodes=1)
    agent = model.join()
    assert agent.node is not None
    assert model.membership.drain(agent.node, "why not")
    model.settle()
    assert any(isinstance(message, Drain) for message in agent.told)
    assert not model.membership.drain(99, "nobody")


def test_a_round_says_why_it_forms() -> None:
    model = Model(min_nodes=1, max_nodes=2)
    _, second = model.join(), model.join()
    model.leave(second)
    prepares = [m for m in model.agents["n1"].told if isinstance(m, Prepare)]
    assert prepares[-1].reason == "node 1 (n2) left"


def test_nobody_who_trains_stops_for_a_newcomer_that_is_not_warm() -> None:
    model = Model(min_nodes=1, max_nodes=2, last_call=0)
    first = model.join()
    newcomer = model.join(warm=False)
    model.advance(10)
    assert model.running == {first.name}
    assert model.membership.round.number == 1
    model.warm_up(newcomer)
    model.advance(0.2)
    assert model.running == {first.name, newcomer.name}


def test_a_recovery_does_not_wait_for_a_node_that_is_not_warm_unless_it_is_needed() -> None:
    model = Model(min_nodes=1, max_nodes=2, last_call=0)
    first = model.join()
    newcomer = model.join(warm=False)
    model.fail(first)
    assert model.running == {first.name}
    model.leave(first)
    assert model.running == {newcomer.name}


def test_a_thousand_nodes_that_wait_are_told_once_each() -> None:
    model = Model(min_nodes=300, max_nodes=300)
    agents = [model.join() for _ in range(300)]
    assert len(model.running) == 300
    assert all(sum(isinstance(m, Wait) for m in agent.told) <= 1 for agent in agents)


def test_whatever_a_node_says_is_a_sign_of_life() -> None:
    model = Model(min_nodes=1, max_nodes=1, lease=5)
    agent = model.join()
    for _ in range(20):
        model.membership.reports.heard(model.fence(agent), now=model.now)
        model.advance(1, renew=False)
    assert model.running == {agent.name}
    assert model.membership.round.number == 1
