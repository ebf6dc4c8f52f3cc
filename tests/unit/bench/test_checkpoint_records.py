"""From the checkpoint script's records to figures."""

import json

import pytest

from bench.checkpoints.records import (
    ENOUGH_STEPS,
    Restore,
    SavingRecord,
    parse_saving,
    restored,
    slowdown,
    stalls,
)


def record(step: int, rank: int = 0, **fields: float | bool) -> SavingRecord:
    usual = {"took": 0.02, "writing": False, "due": False, "save": 0.0, "start": 0}
    place = {"node": rank, "world": 2, "pid": 100 + rank, "restart": 0, "time": float(step)}
    line = json.dumps({"step": step, "rank": rank, **place, **usual, **fields})
    return parse_saving(line.encode() + b"\n")[0]


def both(step: int, save: tuple[float, float], *, due: bool) -> list[SavingRecord]:
    return [record(step, rank, save=save[rank], due=due) for rank in range(2)]


def test_a_line_that_is_still_being_written_is_left_out() -> None:
    assert parse_saving(b'{"step": 1') == []


def test_a_save_stalls_for_as_long_as_its_slowest_rank() -> None:
    found = stalls(
        [
            *both(0, (0.2, 0.1), due=True),
            *both(1, (0, 0), due=False),
            *both(2, (0.1, 0.3), due=True),
        ]
    )
    assert found is not None
    assert found.later == [0.3]


def test_what_a_saver_does_before_the_first_save_counts_as_part_of_it() -> None:
    found = stalls([*both(0, (0.5, 0.1), due=False), *both(1, (0.25, 0.25), due=True)])
    assert found is not None
    assert found.first == 0.75


def test_a_step_that_only_one_rank_has_told_is_left_out() -> None:
    found = stalls([*both(0, (0.1, 0.1), due=True), record(1, save=9.0, due=True)])
    assert found is not None
    assert found.later == []


def test_without_a_save_there_is_no_stall() -> None:
    assert stalls(both(0, (0, 0), due=False)) is None


def test_steps_are_compared_with_those_while_nothing_is_written() -> None:
    half = ENOUGH_STEPS // 2
    new = [record(n, took=9.0) for n in range(half)]
    settled = [record(half + n, took=0.02) for n in range(half)]
    save = [record(2 * half, took=0.02, due=True)]
    writing = [record(20 + n, took=0.03, writing=True) for n in range(ENOUGH_STEPS)]
    ending = [record(50, took=5.0)]
    idle = [record(51 + n, took=0.02) for n in range(half)]
    assert slowdown([*new, *settled, *save, *writing, *ending, *idle]) == pytest.approx(50)


def test_too_few_steps_on_one_side_say_nothing() -> None:
    idle = [record(n, due=n == 0) for n in range(5 * ENOUGH_STEPS)]
    assert slowdown(idle) is None


def test_a_restore_takes_as_long_as_its_slowest_rank_and_only_a_new_one_counts() -> None:
    old = record(1, restore=9.0, copy=9.0)
    first, second = (record(5 + n, n, restore=0.2 + n, copy=0.1 - n / 20) for n in range(2))
    assert restored([old, first], since=2.0, ranks=2) is None
    assert restored([old, first, second], since=2.0, ranks=2) == Restore(1.2, 0.1)


def test_a_restore_can_be_asked_for_of_one_node() -> None:
    told = [record(5, 0, restore=3.0, copy=1.0), record(5, 1, restore=2.0, copy=1.0)]
    assert restored(told, since=0.0, ranks=1, node=1) == Restore(2.0, 1.0)
