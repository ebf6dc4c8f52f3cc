"""Each index of an epoch is trained once, through any history of crashes and world sizes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.train.data.worlds import Job, Make, RoundPlan, batched, plain, rounds

EPOCHS = 2

lengths = st.integers(1, 60)
sizes = st.integers(1, 9)


def lived(make: Make, plans: list[RoundPlan], *, world: int) -> Job:
    job = Job(make)
    for plan in plans:
        job.run(plan, epochs=EPOCHS)
    job.finish(world=world, epochs=EPOCHS)
    return job


@given(lengths, sizes, rounds, st.integers(1, 5), st.booleans(), st.integers(0, 3))
def test_an_epoch_of_the_sampler_visits_every_index_once(
    length: int, size: int, plans: list[RoundPlan], world: int, shuffle: bool, seed: int
) -> None:
    job = lived(plain(length, size, shuffle=shuffle, seed=seed), plans, world=world)
    for epoch in range(EPOCHS):
        assert sorted(job.trained(epoch)) == list(range(length))


@given(
    lengths,
    sizes,
    rounds,
    st.integers(1, 5),
    st.booleans(),
    st.one_of(st.none(), st.integers(1, 4)),
)
def test_global_batches_are_the_same_whatever_happens(
    length: int,
    size: int,
    plans: list[RoundPlan],
    world: int,
    shuffle: bool,
    micro: int | None,
) -> None:
    make = batched(length, size, shuffle=shuffle, micro_batch=micro)
    job = lived(make, plans, world=world)
    undisturbed = lived(make, [], world=1)
    assert job.batches == undisturbed.batches
    for epoch in range(EPOCHS):
        assert sorted(job.trained(epoch)) == list(range(length))


@given(lengths, sizes, rounds, st.integers(1, 5))
def test_only_the_last_incomplete_batch_is_dropped(
    length: int, size: int, plans: list[RoundPlan], world: int
) -> None:
    job = lived(batched(length, size, drop_last=True), plans, world=world)
    for epoch in range(EPOCHS):
        trained = job.trained(epoch)
        assert len(trained) == len(set(trained)) == length - length % size


@given(lengths, sizes, rounds, st.integers(1, 5))
@settings(max_examples=50)
def test_padding_fills_the_last_batch_and_leaves_nothing_out(
    length: int, size: int, plans: list[RoundPlan], world: int
) -> None:
    job = lived(plain(length, size, pad=True), plans, world=world)
    for epoch in range(EPOCHS):
        assert set(job.trained(epoch)) == set(range(length))


@given(lengths, sizes, st.integers(1, 5))
def test_padded_ranks_all_have_as_many(length: int, size: int, world: int) -> None:
    make = plain(length, size, pad=True)
    counts = {len(list(make(rank, world))) for rank in range(world)}  # type: ignore[call-overload]
    assert len(counts) == 1
    assert counts.pop() % size == 0
