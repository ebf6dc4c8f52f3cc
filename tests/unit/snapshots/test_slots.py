"""Slots' records: their content, torn records, and the choice of the next slot."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from resile.checkpoint.part import PartKind
from resile.group_name import LONGEST_GROUP
from resile.snapshots.slots import (
    EMPTY,
    Label,
    PartPlace,
    SlotRecord,
    SlotState,
    choose,
    decode_control,
    encode_control,
)

numbers = st.integers(0, 2**32 - 1)
groups = st.sampled_from(["", "evaluate", "ps/0", "w" * LONGEST_GROUP])
labels = st.builds(
    Label,
    place=st.builds(
        PartPlace, kind=st.sampled_from(PartKind), index=numbers, count=numbers, group=groups
    ),
    step=st.integers(-(2**63), 2**63 - 1),
    round=st.integers(0, 2**63 - 1),
    world=numbers,
)
controls = st.builds(
    SlotRecord,
    state=st.sampled_from([SlotState.WRITING, SlotState.COMPLETE]),
    generation=st.integers(0, 2**64 - 1),
    label=labels,
    length=st.integers(0, 2**64 - 1),
)


@given(controls)
def test_a_record_says_what_was_written(control: SlotRecord) -> None:
    assert decode_control(encode_control(control)) == control


@given(before=controls, after=controls, cut=st.integers(0, 220))
def test_a_record_half_replaced_is_one_of_the_two_or_torn(
    before: SlotRecord, after: SlotRecord, cut: int
) -> None:
    old, new = encode_control(before), encode_control(after)
    assert decode_control(new[:cut] + old[cut:]) in (before, after, None)


@given(control=controls, cut=st.integers(0, 220))
def test_a_first_record_half_written_is_torn(control: SlotRecord, cut: int) -> None:
    record = encode_control(control)
    torn = record[:cut].ljust(len(record), b"\0")
    assert decode_control(torn) in (control, EMPTY, None)


def test_a_page_never_written_is_empty() -> None:
    assert decode_control(bytes(4096)) == EMPTY


def slot(step: int, state: SlotState = SlotState.COMPLETE, generation: int = 1) -> SlotRecord:
    place = PartPlace(kind=PartKind.RANK, index=0, count=1)
    return SlotRecord(state, generation, Label(place=place, step=step, round=1, world=1), 10)


def test_what_is_not_whole_is_replaced_first() -> None:
    assert choose([slot(1), EMPTY], 3) == 1
    assert choose([slot(2, SlotState.WRITING), slot(1)], 3) == 0


def test_the_one_filled_first_is_replaced() -> None:
    assert choose([slot(2, generation=8), slot(1, generation=7)], 3) == 1
    assert choose([slot(2, generation=7), slot(1, generation=8)], 3) == 0


def test_a_step_that_training_went_back_behind_is_replaced_before_the_one_it_went_back_to() -> None:
    assert choose([slot(40), slot(50)], 45) == 1
    assert choose([slot(40), slot(50)], 50) == 1
    assert choose([slot(60), slot(50)], 45) == 0


@given(st.lists(st.integers(0, 20), min_size=1, max_size=40))
def test_however_training_jumps_the_step_before_stays_whole(history: list[int]) -> None:
    pair = [EMPTY, EMPTY]
    previous: int | None = None
    for now, step in enumerate(history):
        number = choose(pair, step)
        pair[number] = slot(step, SlotState.WRITING)
        whole = [one.label.step for one in pair if one.state is SlotState.COMPLETE and one.label]
        if previous is not None and step > previous:
            assert previous in whole
        pair[number] = slot(step, generation=now)
        previous = step
