"""From step records and a fault's time to seconds without training."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from bench.timeline import (
    Record,
    all_ranks_stepped,
    continuity,
    fresh,
    newest,
    parse,
    pause,
    recovery,
)


def steps(
    *times: float, rank: int = 0, world: int = 2, pid: int | None = None, first: int = 0
) -> list[Record]:
    owner = 100 + rank if pid is None else pid
    return [
        Record(time, step, node=rank, rank=rank, world=world, pid=owner, restart=0)
        for step, time in enumerate(times, start=first)
    ]


def merged(*tracks: list[Record]) -> list[Record]:
    return sorted((record for track in tracks for record in track), key=lambda one: one.time)


def test_recovery_runs_to_the_last_rank_s_first_step() -> None:
    records = merged(
        steps(1.0, 2.0, rank=0),
        steps(1.0, 2.0, rank=1),
        steps(4.0, 5.0, rank=0, pid=200),
        steps(4.5, 5.0, rank=1, pid=201),
    )
    assert recovery(records, fault=2.5, world=2) == 2.0


def test_a_survivor_s_late_step_is_no_recovery() -> None:
    records = merged(steps(1.0, 2.0, 2.6, rank=0), steps(1.0, 2.0, rank=1))
    assert recovery(records, fault=2.5, world=2) is None


def test_no_recovery_while_one_rank_is_missing() -> None:
    records = merged(steps(1.0, rank=0), steps(1.0, rank=1), steps(4.0, 5.0, rank=0, pid=200))
    assert recovery(records, fault=2.0, world=2) is None


def test_steps_in_a_world_of_another_size_do_not_count() -> None:
    records = merged(steps(1.0, rank=0), steps(1.0, rank=1), steps(3.0, rank=0, world=1, pid=200))
    assert recovery(records, fault=2.0, world=2) is None
    assert recovery(records, fault=2.0, world=1) == 1.0


def test_the_nth_step_is_counted_per_rank() -> None:
    records = merged(steps(1.0, 2.0, 3.0, rank=0), steps(1.5, 2.5, 9.0, rank=1))
    assert all_ranks_stepped(records, world=2, steps=2) == 2.5
    assert all_ranks_stepped(records, world=2, steps=3) == 9.0
    assert all_ranks_stepped(records, world=2, steps=4) is None


def test_the_pause_of_a_join_starts_at_the_last_step_of_the_smaller_world() -> None:
    records = merged(
        steps(1.0, 2.0, 3.0, rank=0, world=1),
        steps(3.4, rank=0, pid=200),
        steps(3.6, rank=1, pid=201),
    )
    assert pause(records, old_world=1, new_world=2) == 3.6 - 3.0


def test_training_that_goes_on_loses_no_step() -> None:
    track = steps(*range(20))
    went_on = continuity(track, fault=9.5, until=14.5)
    assert went_on is not None
    assert went_on.steps_lost == 0
    assert went_on.longest_gap == went_on.usual_gap == 1.0


def test_a_restarted_count_is_a_loss_of_all_steps() -> None:
    track = steps(*range(10)) + steps(10.0, 11.0, pid=200)
    went_on = continuity(track, fault=9.5, until=11.5)
    assert went_on is not None
    assert went_on.steps_lost == 10


def test_a_gap_at_the_end_of_the_window_is_seen() -> None:
    track = steps(*range(11))
    went_on = continuity(track, fault=5.5, until=15.0)
    assert went_on is not None
    assert went_on.longest_gap == 5.0


def test_a_rank_that_fell_silent_gives_no_verdict() -> None:
    records = merged(steps(*range(20), rank=0), steps(*range(10), rank=1))
    assert continuity(records, fault=9.5, until=14.5) is None


def test_newest_holds_only_ranks_of_the_current_world() -> None:
    records = merged(steps(1.0, rank=0), steps(1.0, rank=1), steps(2.0, rank=0, world=1, pid=200))
    assert {rank: one.pid for rank, one in newest(records).items()} == {0: 200}
    assert newest([]) == {}


def test_an_incomplete_line_waits_for_its_rest() -> None:
    (record,) = steps(1.0)
    line = msgspec.json.encode(record)
    first, rest = parse(line[:10])
    assert (first, rest) == ([], line[:10])
    assert parse(rest + line[10:] + b"\n") == ([record], b"")


@given(
    st.lists(st.tuples(st.floats(0, 100), st.integers(0, 3), st.integers(1, 9)), max_size=40),
    st.floats(0, 100),
)
def test_fresh_records_are_late_and_of_unknown_processes(
    raw: list[tuple[float, int, int]], fault: float
) -> None:
    records = merged(*(steps(time, rank=rank, pid=pid) for time, rank, pid in raw))
    chosen = fresh(records, since=fault)
    before = {record.pid for record in records if record.time <= fault}
    assert all(record.time > fault for record in chosen)
    assert before.isdisjoint(record.pid for record in chosen)


@given(st.lists(st.floats(0.001, 5), min_size=1, max_size=5), st.floats(0, 100))
def test_recovery_is_the_slowest_rank_s_delay(delays: list[float], fault: float) -> None:
    world = len(delays)
    old = [steps(fault, rank=rank, world=world) for rank in range(world)]
    new = [
        steps(fault + delay, rank=rank, world=world, pid=200 + rank)
        for rank, delay in enumerate(delays)
    ]
    assert (
        recovery(merged(*old, *new), fault=fault, world=world)
        == max(fault + delay for delay in delays) - fault
    )
