"""When nodes may leave, judged by whether the remaining ones have the whole step."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from resile.master.handover import HandoverState, Stage

STEP = 20
steps = st.none() | st.integers(STEP - 2, STEP)


@st.composite
def histories(draw: st.DrawFn) -> tuple[HandoverState, set[int], dict[int, int | None], set[int]]:
    """A planned change of up to five nodes, which of them leave, where their copies are, and whose
    parts are stored."""
    members = tuple(range(draw(st.integers(1, 5))))
    handover = HandoverState("a test", members)
    copied = {node: draw(steps) for node in members}
    stored = set(members) if draw(st.booleans()) else draw(st.sets(st.sampled_from(members)))
    for node in members:
        handover.saved(node, STEP, copied=copied[node])
        if draw(st.booleans()):
            handover.published(node, STEP if node in stored else draw(steps.filter(_is_older)))
        else:
            stored.discard(node)
    leaving = draw(st.sets(st.sampled_from(members)))
    return handover, leaving, copied, stored


def _is_older(step: int | None) -> bool:
    return step != STEP


def survives(
    members: tuple[int, ...], leaving: set[int], copied: dict[int, int | None], stored: set[int]
) -> bool:
    """Whether the remaining nodes, or storage, have every part of the step."""
    if stored == set(members):
        return True
    held = {node for node in members if node not in leaving}
    held |= {
        node
        for place, node in enumerate(members)
        if copied[node] == STEP and members[(place + 1) % len(members)] not in leaving
    }
    return held == set(members)


@given(histories())
def test_it_is_over_as_soon_as_nothing_can_be_lost_and_said_to_be_held_only_then(
    history: tuple[HandoverState, set[int], dict[int, int | None], set[int]],
) -> None:
    handover, leaving, copied, stored = history
    safe = survives(handover.members, leaving, copied, stored)
    labels = {node: f"node {node}" for node in handover.members}
    outcome = handover.outcome(leaving, labels)
    assert ("hold step 20" in outcome) == safe
    assert ("step 20 is lost" in outcome) != safe
    if safe:
        assert handover.stage(leaving) is Stage.OVER


@given(histories())
def test_it_is_not_over_while_something_can_still_save_the_step(
    history: tuple[HandoverState, set[int], dict[int, int | None], set[int]],
) -> None:
    handover, leaving, copied, stored = history
    over = handover.stage(leaving) is Stage.OVER
    if not over or survives(handover.members, leaving, copied, stored):
        return
    for node in handover.members:
        handover.saved(node, STEP, copied=STEP)
    everything_copied = dict.fromkeys(handover.members, STEP)
    assert not survives(handover.members, leaving, everything_copied, stored), "copies would help"


def test_it_is_not_over_before_all_have_saved() -> None:
    handover = HandoverState("a test", (1, 2))
    handover.saved(1, STEP, copied=STEP)
    assert handover.stage({1}) is Stage.SAVING
    assert "1 of 2 nodes saved in time" in handover.outcome({1}, {})
