"""Histories of a job that leases its data: whatever dies, each record is trained exactly once."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from resile.train.data.sharded.dataset import Pace
from tests.unit.shards.model import Master, new_round

EVENTS = st.lists(
    st.one_of(
        st.just("step"),
        st.just("step"),
        st.just("save"),
        st.just("master dies"),
        st.just("answers get lost"),
        st.integers(1, 5),  # all workers die, and this many return
    ),
    max_size=40,
)


@settings(max_examples=300, deadline=None)
@given(
    events=EVENTS,
    records=st.integers(0, 90),
    shard_size=st.integers(1, 30),
    batch_size=st.integers(1, 5),
    world=st.integers(1, 5),
    shuffle=st.booleans(),
    pace=st.sampled_from(Pace),
)
def test_each_record_counts_once_in_what_training_resumed_from(
    events: list[str | int],
    records: int,
    shard_size: int,
    batch_size: int,
    world: int,
    shuffle: bool,
    pace: Pace,
) -> None:
    master, losing = Master(), [False]

    def job(number: int, world: int, states: list[dict[str, object]]):  # type: ignore[no-untyped-def]
        return new_round(
            master,
            number,
            world=world,
            records=records,
            shard_size=shard_size,
            batch_size=batch_size,
            shuffle=shuffle,
            states=states,
            pace=pace,
            is_answer_lost=lambda: losing[0],
        )

    number = 1
    ranks = job(number, world, [])
    trained: list[int] = []
    saved: tuple[list[dict[str, object]], list[int]] = ([], [])
    for event in events:
        if event == "step":
            trained += ranks.step() or []
        elif event == "save":
            saved = (ranks.states(), list(trained))
        elif event == "master dies":
            master.dies_and_returns()
        elif event == "answers get lost":
            losing[0] = not losing[0]
        elif isinstance(event, int):
            number += 1
            ranks, trained = job(number, event, saved[0]), list(saved[1])
    while (step := ranks.step()) is not None:
        trained += step
        assert len(trained) <= records, "more was trained than there is"
    assert Counter(trained) == Counter(range(records))


@given(
    records=st.integers(1, 60),
    world=st.integers(1, 4),
    batch_size=st.integers(1, 4),
    stop_after=st.integers(0, 30),
)
@settings(max_examples=100, deadline=None)
def test_epoch_after_epoch_is_whole_also_when_a_crash_falls_between_two(
    records: int, world: int, batch_size: int, stop_after: int
) -> None:
    master = Master()
    options = {"records": records, "shard_size": 7, "batch_size": batch_size, "shuffle": True}
    ranks = new_round(master, 1, world=world, epochs=2, **options)  # type: ignore[arg-type]
    trained: list[tuple[int, int]] = []
    states: list[dict[str, object]] = ranks.states()
    for _ in range(stop_after):
        step = ranks.step()
        if step is not None:
            trained += [(ranks.datasets[0].epoch, record) for record in step]
            states = ranks.states()
    ranks = new_round(master, 2, world=world, epochs=2, states=states, **options)  # type: ignore[arg-type]
    for _ in range(2):
        while (step := ranks.step()) is not None:
            trained += [(ranks.datasets[0].epoch, record) for record in step]
    assert Counter(trained) == Counter((e, r) for e in range(2) for r in range(records))
