"""Before a planned change all workers save the same step; it is optional and bounded in time."""

from __future__ import annotations

from resile.wire.messages import Drain, Handover, HandoverPublish, HandoverStep
from tests.unit.master.model import Model, PretendAgent


def told(agent: PretendAgent, kind: type) -> int:
    return sum(isinstance(message, kind) for message in agent.told)


def events(model: Model) -> list[str]:
    return [event.kind for event in model.membership.effects.events]


def test_members_save_before_a_newcomer_is_taken() -> None:
    model = Model(min_nodes=1, max_nodes=3, last_call=1)
    first, second = model.join(saves=True), model.join(saves=True)
    model.advance(1)
    model.join()
    model.advance(0.2)
    assert model.membership.round.number == 2
    assert len(model.running) == 3
    assert events(model).index("HandedOver") < len(events(model)) - 1
    assert (told(first, Handover), told(second, Handover)) == (1, 1)


def test_the_step_is_chosen_by_one_node_once_all_know() -> None:
    model = Model(min_nodes=1, max_nodes=3, last_call=1)
    agents = [model.join(saves=True), model.join(saves=True)]
    model.advance(1)
    model.join()
    model.advance(0.2)
    assert sorted(told(agent, HandoverStep) for agent in agents) == [0, 1]


def test_workers_that_cannot_save_are_not_waited_for() -> None:
    model = Model(min_nodes=1, max_nodes=3, last_call=1)
    model.join(saves=True), model.join(saves=False)
    model.advance(1)
    model.join()
    model.advance(0.2)
    assert len(model.running) == 3
    assert "HandedOver" not in events(model)


def test_workers_that_take_too_long_are_waited_for_only_so_long() -> None:
    model = Model(min_nodes=1, max_nodes=3, last_call=1, handover_timeout=10)
    model.join(saves=True), model.join(saves=True, slow=True)
    model.advance(1)
    model.join()
    model.advance(9)
    assert model.membership.round.number == 1, "training goes on meanwhile"
    model.advance(2)
    assert len(model.running) == 3
    assert "1 of 2 nodes saved in time" in model.membership.effects.events[-3].text


def test_a_node_that_is_asked_to_leave_goes_when_all_have_saved() -> None:
    model = Model(min_nodes=1, max_nodes=2)
    first, second = model.join(saves=True), model.join(saves=True)
    model.ask_to_leave(second)
    assert model.running == {first.name}
    assert "all 2 nodes hold step 7" in " ".join(e.text for e in model.membership.effects.events)


def test_a_node_that_does_not_train_may_leave_at_once() -> None:
    model = Model(min_nodes=1, max_nodes=1)
    first, spare = model.join(saves=True), model.join(saves=True)
    model.ask_to_leave(spare)
    assert spare.name not in model.agents
    assert model.running == {first.name}
    assert model.membership.round.number == 1


def test_a_loss_in_the_middle_ends_the_preparation() -> None:
    model = Model(min_nodes=1, max_nodes=3, last_call=1)
    first, second = model.join(saves=True), model.join(saves=True, slow=True)
    model.advance(1)
    third = model.join()
    model.advance(0.2)
    model.kill(second)
    model.advance(1)
    assert model.running == {first.name, third.name}


def test_a_master_that_returns_prepares_the_change_again() -> None:
    model = Model(min_nodes=1, max_nodes=2, last_call=0)
    first = model.join(saves=True, slow=True)
    model.join()
    model.advance(0.2)
    model.crash_master()
    first.slow = False
    model.reconnect_all()
    model.advance(1)
    assert len(model.running) == 2


# --- replaced while they train ------------------------------------------------------------------


def replaced(model: Model, old: PretendAgent) -> PretendAgent:
    """The platform starts another node to replace one."""
    return model.join(rank=old.rank, generation=(old.generation or 0) + 1, saves=True)


def test_a_node_that_is_replaced_while_it_trains_is_let_save_first() -> None:
    model = Model(min_nodes=2, max_nodes=2)
    first = model.join(saves=True, rank=0, generation=0)
    second = model.join(saves=True, rank=1, generation=1)
    successor = replaced(model, second)
    assert model.running == {first.name, successor.name}
    assert "all 2 nodes hold step 7" in " ".join(e.text for e in model.membership.effects.events)
    assert "NodeLost" not in events(model)


def test_a_replaced_node_that_does_not_leave_is_put_out_when_its_time_is_over() -> None:
    model = Model(min_nodes=2, max_nodes=2, handover_timeout=10)
    first = model.join(saves=True, rank=0, generation=0)
    second = model.join(saves=True, rank=1, generation=1, stubborn=True)
    successor = replaced(model, second)
    model.advance(19)
    assert model.running == {first.name, second.name}, "training goes on meanwhile"
    model.advance(2)
    assert model.running == {first.name, successor.name}


def test_a_replaced_node_whose_connection_is_gone_is_not_waited_for() -> None:
    model = Model(min_nodes=2, max_nodes=2, connection_grace=60)
    first = model.join(saves=True, rank=0, generation=0)
    second = model.join(saves=True, rank=1, generation=1)
    model.cut(second)
    successor = replaced(model, second)
    assert model.running == {first.name, successor.name}


def drained(model: Model) -> tuple[PretendAgent, PretendAgent]:
    """Two nodes that are asked to leave while their master dies."""
    agents = (
        model.join(saves=True, rank=0, generation=0),
        model.join(saves=True, rank=1, generation=1),
    )
    for agent in agents:
        agent.leaving = True
    return agents


def test_a_master_that_returns_hears_again_who_wants_to_leave() -> None:
    model = Model(min_nodes=2, max_nodes=2)
    drained(model)
    model.crash_master()
    model.reconnect_all()
    model.advance(1)
    assert model.agents == {}
    assert "all 2 nodes hold step 7" in " ".join(e.text for e in model.membership.effects.events)


def test_replacements_that_reach_a_returned_master_first_put_nobody_out() -> None:
    model = Model(min_nodes=2, max_nodes=2)
    old = drained(model)
    model.crash_master()
    new = {replaced(model, agent).name for agent in old}
    model.advance(1)
    model.reconnect_all()
    model.advance(1)
    assert model.running == new
    assert "all 2 nodes hold step 7" in " ".join(e.text for e in model.membership.effects.events)


def test_replacements_that_reach_a_master_without_memory_first_wait_for_the_others() -> None:
    model = Model(min_nodes=2, max_nodes=2)
    old = drained(model)
    model.lose_memory(after_round=1)
    new = {replaced(model, agent).name for agent in old}
    assert model.running == set()
    model.reconnect_all()
    model.advance(1)
    model.reconnect_all()
    model.advance(1)
    assert model.running == new
    assert model.membership.round.number > 1
    assert "all 2 nodes hold step 7" in " ".join(e.text for e in model.membership.effects.events)


def test_a_master_without_memory_goes_on_alone_when_nobody_comes_back() -> None:
    model = Model(min_nodes=2, max_nodes=2, lease=5)
    old = drained(model)
    for agent in old:
        model.kill(agent)
    model.lose_memory(after_round=3)
    new = {replaced(model, agent).name for agent in old}
    model.advance(24)
    model.reconnect_all()
    assert model.running == set(), "the old master may have nodes that still save"
    model.advance(2)
    model.reconnect_all()
    assert model.running == new
    assert model.membership.round.number == 4


def test_a_master_without_memory_waits_for_nobody_once_all_who_were_there_are_gone() -> None:
    model = Model(min_nodes=2, max_nodes=2)
    old = drained(model)
    for agent in old:
        model.kill(agent)
    model.lose_memory(after_round=3)
    new = {replaced(model, agent).name for agent in old}
    assert model.running == set()
    model.membership.nobody_holds_anything(now=model.now)
    model.advance(0.1)
    model.reconnect_all()
    assert model.running == new
    assert model.membership.round.number == 4


def test_a_node_that_wants_to_leave_is_let_go_when_the_round_breaks_meanwhile() -> None:
    model = Model(min_nodes=1, max_nodes=3, last_call=1)
    first, second = model.join(saves=True), model.join(saves=True)
    third = model.join(saves=True, slow=True)
    model.advance(1)
    model.ask_to_leave(second)
    assert second.name in model.agents, "it waits for the third to save"
    model.fail(first)
    assert model.running == {first.name, third.name}
    assert model.membership.round.number == 2, "nobody takes it along first"


def test_a_newcomer_of_a_role_puts_out_nobody_who_only_has_its_slot() -> None:
    model = Model(min_nodes=1, max_nodes=5, last_call=1)
    model.join(role="chief", rank=0, generation=0, saves=True)
    workers = [
        model.join(role="worker", rank=rank, generation=1 + rank, saves=True) for rank in range(3)
    ]
    model.advance(1)
    moved = model.membership.nodes[workers[0].node or 0].record.slot
    assert moved not in (None, 0), "the chief has the slot that it wished for"
    model.join(role="worker", rank=moved, generation=9, saves=True)
    model.advance(1)
    assert len(model.running) == 5
    assert not any(told(agent, Drain) for agent in workers)


def test_a_member_that_was_away_hears_of_the_planned_change_when_it_is_back() -> None:
    model = Model(min_nodes=1, max_nodes=2, connection_grace=60)
    first, second = model.join(saves=True), model.join(saves=True)
    model.cut(first)
    model.ask_to_leave(second)
    assert second.name in model.agents, "it waits for the others"
    model.connect(first)
    assert model.running == {first.name}
    assert "all 2 nodes hold step 7" in " ".join(e.text for e in model.membership.effects.events)


def leaving_together(model: Model) -> list[PretendAgent]:
    """Two of three nodes are asked to leave while all nodes still save."""
    agents = [model.join(saves=True, slow=True) for _ in range(3)]
    model.advance(1)
    for agent in agents[1:]:
        model.ask_to_leave(agent)
    for agent in agents:
        model.save(agent)
    model.settle()
    return agents


def test_nodes_that_leave_together_wait_until_everybody_has_published() -> None:
    model = Model(min_nodes=1, max_nodes=3, last_call=1)
    agents = leaving_together(model)
    assert [told(agent, HandoverPublish) for agent in agents] == [1, 1, 1]
    for agent in agents[1:]:
        model.publish(agent)
    model.settle()
    assert model.running == {agent.name for agent in agents}, "the copies of one would be lost"
    model.publish(agents[0])
    model.settle()
    assert model.running == {agents[0].name}


def test_nodes_that_leave_together_do_not_wait_for_slow_storage_for_ever() -> None:
    model = Model(min_nodes=1, max_nodes=3, last_call=1, handover_timeout=10)
    agents = leaving_together(model)
    model.advance(9)
    assert len(model.running) == 3
    model.advance(2)
    assert model.running == {agents[0].name}


def test_a_node_that_leaves_alone_need_not_publish() -> None:
    model = Model(min_nodes=1, max_nodes=3, last_call=1)
    agents = [model.join(saves=True) for _ in range(3)]
    model.advance(1)
    model.ask_to_leave(agents[2])
    assert not any(told(agent, HandoverPublish) for agent in agents)
    assert model.running == {agent.name for agent in agents[:2]}


# --- what leaves with a node --------------------------------------------------------------------


def story(model: Model) -> str:
    return " ".join(event.text for event in model.membership.effects.events)


def leaving_uncopied(model: Model, **others: bool) -> list[PretendAgent]:
    """One of two nodes leaves, and the copies of what it holds are on their way."""
    agents = [model.join(saves=True, slow=True, copies=False, **others) for _ in range(2)]
    model.ask_to_leave(agents[1])
    for agent in agents:
        model.save(agent)
    model.settle()
    return agents


def test_a_node_that_leaves_waits_for_the_copies_of_what_it_holds() -> None:
    model = Model(min_nodes=1, max_nodes=2)
    stays, leaves = leaving_uncopied(model)
    model.advance(9)
    assert len(model.running) == 2, "its memory would be lost"
    leaves.copies = True
    model.save(leaves)
    model.settle()
    assert model.running == {stays.name}
    assert "all 2 nodes hold step 7" in story(model)


def test_copies_of_what_stays_are_not_waited_for() -> None:
    model = Model(min_nodes=1, max_nodes=2)
    stays, leaves = model.join(saves=True, copies=False), model.join(saves=True)
    model.ask_to_leave(leaves)
    assert model.running == {stays.name}


def test_a_node_whose_copies_do_not_arrive_leaves_when_the_step_is_in_storage() -> None:
    model = Model(min_nodes=1, max_nodes=2)
    agents = leaving_uncopied(model)
    for agent in agents:
        model.publish(agent)
    model.settle()
    assert model.running == {agents[0].name}
    assert "all 2 nodes hold step 7, which is in storage" in story(model)


def test_without_storage_the_copies_are_waited_for_until_the_time_is_over() -> None:
    model = Model(min_nodes=1, max_nodes=2, handover_timeout=10)
    agents = leaving_uncopied(model)
    for agent in agents:
        model.publish(agent, None)
    model.settle()
    model.advance(9)
    assert len(model.running) == 2
    model.advance(2)
    assert model.running == {agents[0].name}
    assert "hold step" not in story(model)
    assert "step 7 is lost, training resumes from an earlier one" in story(model)
    assert "no step of its parts was copied to another node, and the step is not in storage" in (
        story(model)
    )


def test_what_is_lost_is_said_of_a_node_that_is_in_a_hurry() -> None:
    model = Model(min_nodes=1, max_nodes=2)
    stays, leaves = leaving_uncopied(model)
    model.leave(leaves)
    assert model.running == {stays.name}
    assert "step 7 is lost" in story(model)


def test_nodes_that_leave_together_need_no_storage_if_those_who_stay_have_their_copies() -> None:
    model = Model(min_nodes=1, max_nodes=4, last_call=1)
    agents = [model.join(saves=True, slow=True) for _ in range(4)]
    model.advance(1)
    for agent in (agents[0], agents[2]):
        model.ask_to_leave(agent)
    for agent in agents:
        model.save(agent)
    model.settle()
    assert model.running == {agents[1].name, agents[3].name}
    assert not any(told(agent, HandoverPublish) for agent in agents)


def test_a_node_asked_to_leave_while_everybody_saves_for_a_newcomer_waits_for_its_copies() -> None:
    model = Model(min_nodes=1, max_nodes=3, last_call=1)
    first = model.join(saves=True, slow=True)
    second = model.join(saves=True, slow=True, copies=False)
    model.advance(1)
    third = model.join()
    model.advance(0.2)
    model.ask_to_leave(second)
    for agent in (first, second):
        model.save(agent)
    model.settle()
    assert model.running == {first.name, second.name}
    second.copies = True
    model.save(second)
    model.settle()
    model.advance(1)
    assert model.running == {first.name, third.name}
