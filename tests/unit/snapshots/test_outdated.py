"""Parts that will not be requested again."""

from __future__ import annotations

from resile.checkpoint.part import PartKind
from resile.snapshots.slot_table import outdated
from resile.snapshots.slots import EMPTY, Label, PartPlace, SlotRecord, SlotState


def rank(index: int, count: int, group: str = "") -> PartPlace:
    return PartPlace(kind=PartKind.RANK, index=index, count=count, group=group)


def part(
    place: PartPlace, step: int, round: int, state: SlotState = SlotState.COMPLETE
) -> SlotRecord:
    return SlotRecord(state, step, Label(place=place, step=step, round=round, world=place.count), 1)


OLD, NEW = rank(0, 4), rank(0, 3)
OLD_PAIR = [part(OLD, 10, 1), part(OLD, 20, 1)]


def test_an_older_world_is_kept_until_the_newer_has_two_whole_steps() -> None:
    one = {OLD: OLD_PAIR, NEW: [part(NEW, 30, 2), EMPTY]}
    assert outdated(one, {NEW}, round=2) == set()
    torn = {OLD: OLD_PAIR, NEW: [part(NEW, 30, 2), part(NEW, 40, 2, SlotState.WRITING)]}
    assert outdated(torn, {NEW}, round=2) == set()
    two = {OLD: OLD_PAIR, NEW: [part(NEW, 30, 2), part(NEW, 40, 2)]}
    assert outdated(two, {NEW}, round=2) == {OLD}


def test_all_workers_of_the_node_have_to_be_so_far() -> None:
    other = rank(1, 3)
    pairs = {
        OLD: OLD_PAIR,
        NEW: [part(NEW, 30, 2), part(NEW, 40, 2)],
        other: [part(other, 30, 2), EMPTY],
    }
    assert outdated(pairs, {NEW, other}, round=2) == set()


def test_steps_of_an_older_round_in_the_same_slots_do_not_count() -> None:
    pairs = {OLD: OLD_PAIR, NEW: [part(NEW, 20, 1), part(NEW, 40, 2)]}
    assert outdated(pairs, {NEW}, round=2) == set()


def test_copies_of_this_round_stay() -> None:
    copy = rank(2, 3)
    pairs = {
        copy: [part(copy, 20, 2, SlotState.WRITING), EMPTY],
        NEW: [part(NEW, 30, 2), part(NEW, 40, 2)],
    }
    assert outdated(pairs, {NEW}, round=2) == set()


def test_parts_of_another_group_go_however_new_they_are() -> None:
    stray = rank(0, 3, "evaluate")
    pairs = {stray: [part(stray, 90, 9), EMPTY], NEW: [part(NEW, 30, 2), part(NEW, 40, 2)]}
    assert outdated(pairs, {NEW}, round=2) == {stray}


def test_nothing_is_outdated_where_nobody_trains() -> None:
    assert outdated({OLD: OLD_PAIR}, set(), round=2) == set()
