"""Several groups in one master: each has its own ids, rounds, restarts and end."""

from __future__ import annotations

import pytest

from resile.job.elasticity import Elasticity, RoleSize
from resile.master import groups as groups_module
from resile.master.effects import Address
from resile.master.groups import SLACK, DeadlineQueue, Groups
from resile.master.membership import Membership
from resile.master.records import DIRECTIVES_KEY, JobRecord, decode_state, group_key
from resile.master.state import GroupState
from resile.wire.directive import GroupDirective
from resile.wire.messages import Fenced, Hello, JobDone, NodeInfo, Outcome, Refused, Welcome
from tests.unit.master.model import Model, PretendAgent

ALONE = Elasticity(independent=True, max_restarts=1, join_timeout=30)
EVALUATION = Elasticity(min_nodes=2, max_nodes=2)
TERMS = {"evaluate": EVALUATION, "worker/3": ALONE, "ps/0": ALONE}


def of_all_kinds() -> tuple[Model, dict[str, list[PretendAgent]]]:
    """A main group of two nodes, an evaluation of two, an independent worker and a server."""
    model = Model(min_nodes=2, max_nodes=2, terms=dict(TERMS))
    agents = {"": [model.join(), model.join()]}
    agents["evaluate"] = [model.join(group="evaluate"), model.join(group="evaluate")]
    agents["worker/3"] = [model.join(group="worker/3", rank=3, generation=5)]
    agents["ps/0"] = [model.join(group="ps/0", rank=0, generation=6)]
    for group, members in agents.items():
        assert model.running_in(group) == {agent.name for agent in members}
    return model, agents


def group(model: Model, name: str) -> Membership:
    found = model.groups.get(name)
    assert found is not None
    return found


def rounds(model: Model) -> dict[str, int]:
    return {one.name: one.round.number for one in model.groups}


def test_every_group_counts_its_own_ids_and_rounds() -> None:
    model, agents = of_all_kinds()
    assert rounds(model) == {"": 1, "evaluate": 1, "worker/3": 1, "ps/0": 1}
    assert [agent.node for agent in agents["evaluate"]] == [0, 1]
    assert [agent.node for agent in agents["worker/3"]] == [0]


def test_a_failure_in_one_group_disturbs_no_other() -> None:
    model, agents = of_all_kinds()
    for name in ("evaluate", "worker/3"):
        said = {agent.name: len(agent.told) for agent in model.agents.values()}
        model.fail(agents[name][0])
        assert group(model, name).round.number == 2
        for agent in model.agents.values():
            assert agent.group == name or len(agent.told) == said[agent.name]
    model.kill(agents["ps/0"][0])
    model.advance(10)
    assert rounds(model) == {"": 1, "evaluate": 2, "worker/3": 2, "ps/0": 1}
    assert {one.name: one.job.restarts for one in model.groups} == {
        "": 0,
        "evaluate": 1,
        "worker/3": 1,
        "ps/0": 0,
    }


def test_runs_of_groups_are_not_the_same() -> None:
    model, _ = of_all_kinds()
    runs = [one.job.run for one in model.groups]
    assert len(set(runs)) == len(runs), "rounds of different groups are counted apart"


def test_the_end_of_a_group_is_told_to_its_own_nodes() -> None:
    model, agents = of_all_kinds()
    for agent in agents["evaluate"]:
        model.succeed(agent)
    assert group(model, "evaluate").job.outcome is Outcome.SUCCEEDED
    assert not model.ended
    assert model.last_event == "evaluate: the group succeeded: all workers succeeded"
    assert model.groups.effects.events[-1].kind == "GroupSucceeded"
    done = [a.name for a in model.agents.values() if isinstance(a.told[-1], JobDone)]
    assert done == [agent.name for agent in agents["evaluate"]]
    assert not model.groups.over


def test_a_master_that_returns_knows_every_group() -> None:
    model, agents = of_all_kinds()
    model.fail(agents["worker/3"][0])
    before = rounds(model)
    ids = {agent.name: agent.node for agent in model.agents.values()}
    model.crash_master()
    model.reconnect_all()
    model.advance(10)
    assert rounds(model) == before, "nobody stops"
    assert {agent.name: agent.node for agent in model.agents.values()} == ids
    assert group(model, "worker/3").job.restarts == 1
    returned = [e for e in model.groups.effects.events if e.kind == "MasterReturned"]
    assert len(returned) == 1, "one story of it"


def test_a_master_that_lost_its_memory_learns_every_group_from_its_own_agents() -> None:
    model, agents = of_all_kinds()
    model.fail(agents["evaluate"][1])
    before = rounds(model)
    model.lose_memory()
    for _ in range(2):
        model.reconnect_all()
        model.advance(0.1)
    assert rounds(model) == before
    for name, members in agents.items():
        assert model.running_in(name) == {agent.name for agent in members}


def test_a_newcomer_waits_for_a_group_that_a_forgetful_master_was_told_of() -> None:
    model, agents = of_all_kinds()
    model.lose_memory(after_round=1)
    early = model.join(group="evaluate")
    assert isinstance(early.told[-1], Refused)
    model.reconnect_all()
    model.advance(0.1)
    model.reconnect_all()
    assert model.running_in("evaluate") == {agent.name for agent in agents["evaluate"]}
    assert early.node == 2 + 1000, "ids of those who are away are not given again"


def test_records_of_other_groups_are_kept_below_their_names() -> None:
    model, _ = of_all_kinds()
    keys = {key for key in model.kept if not key.startswith("event/")}
    assert {"job", "round", "node/0", "node/1"} <= keys
    assert {group_key("worker/3", key) for key in ("job", "round", "node/0")} <= keys
    assert group_key("worker/3", "node/0") == "group/worker%2F3/node/0"
    memory = decode_state(model.kept)
    assert memory is not None
    assert [one.group for one in memory.groups] == ["evaluate", "worker/3", "ps/0"]
    assert [len(one.nodes) for one in memory.groups] == [2, 1, 1]
    assert len(memory.nodes) == 2


# --- how a group comes into being ---------------------------------------------------------------


def test_the_sizes_of_a_group_are_what_its_controller_published() -> None:
    model = Model(min_nodes=1, max_nodes=1)
    wanted = Elasticity(min_nodes=2, max_nodes=4)
    directives = {"evaluate": GroupDirective(elasticity=wanted, wanted_nodes=2)}
    model.groups.direct(directives, now=model.now)
    model.terms["evaluate"] = wanted
    first = model.join(group="evaluate", terms=Elasticity())
    welcome = next(message for message in first.told if isinstance(message, Welcome))
    assert welcome.elasticity == wanted
    assert "min_nodes=2" in welcome.note
    model.join(group="evaluate")
    assert len(model.running_in("evaluate")) == 2, "nobody waits for more than are wanted"
    larger = Elasticity(min_nodes=2, max_nodes=4, lease=9)
    model.groups.direct({"evaluate": GroupDirective(elasticity=larger)}, now=model.now)
    assert group(model, "evaluate").elasticity == larger
    model.settle()
    assert DIRECTIVES_KEY in model.kept
    model.crash_master()
    assert group(model, "evaluate").elasticity == larger


def test_an_unknown_job_or_role_makes_no_group() -> None:
    model = Model(min_nodes=1, max_nodes=1)
    stranger = PretendAgent(name="x", group="evaluate")
    answer = model.groups.hello(stranger.hello(EVALUATION, job="other"), now=0)
    assert isinstance(answer, Refused)
    assert answer.final
    roles = Elasticity(roles=(RoleSize(name="chief"),))
    assert isinstance(model.groups.hello(stranger.hello(roles), now=0), Refused)
    assert len(model.groups) == 1
    assert model.groups.hello(stranger.hello(EVALUATION), now=0) == 0
    assert len(model.groups) == 2


def test_the_first_agent_names_the_job_also_from_another_group() -> None:
    record = JobRecord(job="", elasticity=Elasticity(), agreed=False)
    groups = Groups(Membership(GroupState(record)))
    info = NodeInfo(name="n", host="h", address="a", nproc=1)
    two = Elasticity(min_nodes=2, max_nodes=2)
    evaluator = Hello(job="j", info=info, elasticity=ALONE, group="evaluate")
    assert groups.hello(evaluator, now=0) == 0
    assert groups.main.job.job == "j"
    other = Hello(job="other", info=info, elasticity=two)
    assert isinstance(groups.hello(other, now=0), Refused)
    assert groups.hello(Hello(job="j", info=info, elasticity=two), now=0) == 0
    assert groups.main.elasticity == two, "its sizes are still its own agents' to say"


def test_no_more_groups_are_made_than_a_job_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups_module, "MOST_GROUPS", 3)
    model = Model(min_nodes=1, max_nodes=1)
    model.join(group="a")
    model.join(group="b")
    refused = model.join(group="c").told[-1]
    assert isinstance(refused, Refused)
    assert refused.final
    assert "3 groups" in refused.reason
    assert isinstance(model.join(group="b").told[0], Welcome), "those that are there go on"


# --- independent groups -------------------------------------------------------------------------


def failed_worker() -> tuple[Model, PretendAgent]:
    """An independent worker whose restarts are used up, beside a main group that trains."""
    model = Model(min_nodes=1, max_nodes=1, terms=dict(TERMS))
    model.join()
    worker = model.join(group="worker/3", rank=3, generation=5)
    for _ in range(2):
        model.fail(worker)
    model.advance(1)
    assert group(model, "worker/3").job.outcome is Outcome.FAILED
    return model, worker


def test_an_independent_group_begins_anew_for_a_replacement() -> None:
    model, worker = failed_worker()
    assert model.groups.next_deadline() is not None, "the main group's"
    fresh = model.join(group="worker/3", rank=3, generation=7)
    again = group(model, "worker/3")
    assert model.running_in("worker/3") == {fresh.name}
    assert (again.job.restarts, again.job.outcome, again.job.report) == (0, None, None)
    assert again.round.number == 3, "rounds count on"
    assert fresh.node == 1, "ids too"
    assert worker.node not in again.nodes
    assert membership_story(model, "GroupRestarted")
    assert model.membership.round.number == 1
    model.fail(fresh)
    assert again.job.restarts == 1
    model.crash_master()
    model.reconnect_all()
    assert group(model, "worker/3").round.number == 4


def membership_story(model: Model, kind: str) -> list[str]:
    return [event.text for event in model.groups.effects.events if event.kind == kind]


@pytest.mark.parametrize("generation", [3, 5])
def test_an_older_node_hears_how_its_group_ended(generation: int) -> None:
    model, _ = failed_worker()
    old = model.join(group="worker/3", rank=3, generation=generation)
    assert isinstance(old.told[-1], JobDone)
    assert group(model, "worker/3").job.outcome is Outcome.FAILED


def test_a_node_that_a_person_starts_again_lets_an_independent_group_go_on() -> None:
    model, _ = failed_worker()
    fresh = model.join(group="worker/3")
    assert model.running_in("worker/3") == {fresh.name}


def test_a_group_in_lockstep_stays_ended() -> None:
    model, agents = of_all_kinds()
    for agent in agents["evaluate"]:
        model.succeed(agent)
    late = model.join(group="evaluate", generation=99)
    assert isinstance(late.told[-1], JobDone)
    fresh = model.join(group="evaluate")
    assert isinstance(refused := fresh.told[-1], Refused)
    assert refused.final
    assert "the group 'evaluate' of the job 'j' is over" in refused.reason


def test_a_group_that_was_stopped_does_not_begin_anew() -> None:
    model, _ = of_all_kinds()
    model.groups.stop("by a user", now=model.now)
    model.settle()
    assert model.groups.over
    late = model.join(group="worker/3", rank=3, generation=99)
    assert isinstance(late.told[-1], JobDone)


def test_a_lost_independent_node_is_replaced_within_its_group() -> None:
    model, agents = of_all_kinds()
    model.kill(agents["ps/0"][0])
    model.advance(2)
    fresh = model.join(group="ps/0", rank=0, generation=9)
    assert model.running_in("ps/0") == {fresh.name}
    assert group(model, "ps/0").job.restarts == 0


def test_nobody_waits_for_an_independent_node_that_is_not_wanted() -> None:
    model, agents = of_all_kinds()
    directives = {"worker/3": GroupDirective(elasticity=ALONE, wanted_nodes=0)}
    model.groups.direct(directives, now=model.now)
    model.leave(agents["worker/3"][0])
    model.advance(10 * ALONE.join_timeout)
    assert group(model, "worker/3").job.outcome is None, "it was taken away, it did not fail"
    model.kill(agents["ps/0"][0])
    model.advance(10 * ALONE.join_timeout)
    assert group(model, "ps/0").job.outcome is Outcome.FAILED


def test_what_a_node_of_an_ended_life_says_is_refused() -> None:
    model, worker = failed_worker()
    late = model.fence(worker)
    model.join(group="worker/3", rank=3, generation=7)
    again = group(model, "worker/3")
    assert again.reports.succeeded(late, now=model.now)
    assert again.reports.renew(late, None, now=model.now)
    assert again.job.outcome is None


# --- the whole job ------------------------------------------------------------------------------


def test_a_suspended_job_waits_in_no_group() -> None:
    model, agents = of_all_kinds()
    model.groups.rest(True, now=model.now)
    for members in agents.values():
        for agent in members:
            model.leave(agent)
    model.advance(10 * model.elasticity.join_timeout)
    assert not any(one.job.outcome for one in model.groups)
    late = model.join(group="worker/9")
    assert group(model, "worker/9").job.resting
    model.leave(late)


def test_what_a_job_needs_its_master_for() -> None:
    model, agents = of_all_kinds()
    assert model.groups.occupied
    for agent in agents[""]:
        model.succeed(agent)
    assert model.ended
    assert not model.groups.over, "an evaluation may outlive the training"
    for name in ("worker/3", "ps/0"):
        model.succeed(agents[name][0])
    assert model.groups.occupied
    for agent in agents["evaluate"]:
        model.leave(agent)
    assert not model.groups.occupied
    assert model.groups.deserted


def test_a_message_of_one_group_does_not_reach_the_same_id_of_another() -> None:
    model, agents = of_all_kinds()
    (node,) = {agents["worker/3"][0].node, agents["ps/0"][0].node}
    group(model, "worker/3").drain(node or 0, "why not")
    addresses = [address for address, _ in model.groups.pending_effects().sends]
    assert addresses == [Address("worker/3", 0)]


def test_an_evicted_node_of_another_group_is_fenced_by_its_own() -> None:
    model, agents = of_all_kinds()
    away = agents["evaluate"][0]
    model.cut(away)
    model.advance(2)
    model.connect(away)
    assert any(isinstance(message, Fenced) for message in away.told)
    assert all(not isinstance(m, Fenced) for a in agents[""] for m in a.told)


# --- deadlines ----------------------------------------------------------------------------------


def test_each_name_has_one_deadline() -> None:
    agenda = DeadlineQueue()
    agenda.set("a", 3.0)
    agenda.set("b", 2.0)
    agenda.set("a", 1.0)
    assert agenda.next() == 1.0
    assert agenda.take_due(2.5) == ["a", "b"]
    assert agenda.next() is None
    agenda.set("c", 1.0)
    agenda.set("c", None)
    assert agenda.take_due(9.0) == []


def test_deadlines_that_change_all_the_time_take_no_more_room() -> None:
    agenda = DeadlineQueue()
    for number in range(10_000):
        agenda.set("a", 1e6 - number)
    assert len(agenda._heap) <= 2 + SLACK + 1
    assert agenda.next() == 1e6 - 9_999
