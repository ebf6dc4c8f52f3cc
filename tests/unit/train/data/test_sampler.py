"""The samplers one by one: epochs, positions, lengths, and errors."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import pytest
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data.distributed import DistributedSampler

from resile.train.data import (
    DataMistake,
    ElasticBatchSampler,
    ElasticSampler,
    PositionMisfit,
)


def sampler(length: int = 10, **settings: object) -> ElasticSampler:
    chosen = {"batch_size": 2, "num_replicas": 2, "rank": 0, **settings}
    return ElasticSampler(range(length), **chosen)  # type: ignore[arg-type]


def test_ranks_take_turns_by_global_batch() -> None:
    first = list(sampler(shuffle=False, rank=0))
    second = list(sampler(shuffle=False, rank=1))
    assert first == [0, 1, 4, 5, 8]
    assert second == [2, 3, 6, 7, 9]


def test_rank_and_world_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "3")
    made = ElasticSampler(range(10), batch_size=1)
    assert (made.rank, made.num_replicas) == (2, 3)


def test_the_arguments_of_a_distributed_sampler_come_in_its_order() -> None:
    theirs = list(inspect.signature(DistributedSampler.__init__).parameters.values())
    ours = list(inspect.signature(ElasticSampler.__init__).parameters.values())
    assert [(one.name, one.default) for one in ours[: len(theirs)]] == [
        (one.name, one.default) for one in theirs
    ]
    moved = ElasticSampler(range(21), 2, 1, False, 3, True, batch_size=4)
    original = DistributedSampler(range(21), 2, 1, False, 3, True)
    moved.set_epoch(1)
    original.set_epoch(1)
    loader = DataLoader(range(21), batch_size=4, sampler=moved)
    assert len(loader) == 2
    assert len(moved) == 8 <= len(original)


def test_the_one_argument_that_a_distributed_sampler_does_not_have_is_named() -> None:
    with pytest.raises(DataMistake, match=r"batch_size= is missing: pass the DataLoader's"):
        ElasticSampler(range(10))


def test_what_was_only_read_is_read_again() -> None:
    one = sampler(20, shuffle=False)
    reader = iter(one)
    assert [next(reader) for _ in range(6)] == [0, 1, 4, 5, 8, 9]
    one.advance()
    other = sampler(20, shuffle=False)
    other.load_state_dict(one.state_dict())
    assert next(iter(other)) == 4


def test_a_reader_is_not_disturbed_by_advances() -> None:
    one = sampler(20)
    expected = list(one)
    read = []
    for index in one:
        read.append(index)
        if len(read) % 2 == 0:
            one.advance()
    assert read == expected
    assert one.finished


def test_the_length_is_that_of_the_iteration_and_stays() -> None:
    one = sampler(20)
    one.advance()
    fresh = sampler(20)
    fresh.load_state_dict(one.state_dict())
    assert len(fresh) == len(list(fresh)) == 8
    fresh.advance()
    assert len(fresh) == 8
    fresh.set_epoch(1)
    assert len(fresh) == 10


def test_the_restored_epoch_keeps_its_position_and_a_later_one_starts_anew() -> None:
    one = sampler(20, shuffle=False)
    one.set_epoch(3)
    one.advance()
    two = sampler(20, shuffle=False)
    two.load_state_dict(one.state_dict())
    assert two.epoch == 3
    two.set_epoch(3)
    assert next(iter(two)) == 4
    two.set_epoch(4)
    assert (two.completed, next(iter(two))) == (0, 0)


def test_a_restored_epoch_that_was_complete_yields_nothing() -> None:
    one = sampler(4)
    one.set_epoch(0)
    one.advance()
    two = sampler(4)
    two.load_state_dict(one.state_dict())
    two.set_epoch(0)
    assert list(two) == []
    two.set_epoch(1)
    assert len(list(two)) == 2


@pytest.mark.parametrize("length", [1, 5])
def test_a_rank_without_a_share_in_the_last_batch_counts_it_too(length: int) -> None:
    pair = [sampler(length, rank=rank) for rank in range(2)]
    for one in pair:
        one.set_epoch(0)
        for _ in DataLoader(range(length), batch_size=2, sampler=one):  # type: ignore[arg-type]
            one.advance()
    assert [one.completed for one in pair] == [length, length - 1]
    for one in pair:
        one.set_epoch(1)
    assert pair[0].state_dict() == pair[1].state_dict()


def test_without_set_epoch_epochs_follow_each_other() -> None:
    one = sampler(100, num_replicas=1)
    first = list(one)
    for _ in range(50):
        one.advance()
    assert (one.epoch, one.completed, one.finished) == (1, 0, True)
    second = list(one)
    assert one.epoch == 1
    assert sorted(second) == sorted(first)
    assert second != first
    one.advance()
    assert (one.epoch, one.completed) == (1, 2)


def test_a_loop_over_the_samplers_own_epochs_takes_as_many_as_it_says() -> None:
    """With and without a restart at the end of an epoch."""
    for restarts in (False, True):
        one, passes = sampler(8, num_replicas=1), 0
        while one.epoch < 3:
            for _ in DataLoader(range(8), batch_size=2, sampler=one):  # type: ignore[arg-type]
                one.advance()
            passes += 1
            if restarts:
                state = one.state_dict()
                one = sampler(8, num_replicas=1)
                one.load_state_dict(state)
        assert (passes, one.epoch) == (3, 3)


def test_an_epoch_that_the_script_set_is_restored_as_it_was_even_at_its_end() -> None:
    """The script's work after the last step of an epoch is still to be done."""
    one = sampler(4)
    one.set_epoch(2)
    list(one)
    one.advance()
    two = sampler(4)
    two.load_state_dict(one.state_dict())
    assert (one.epoch, two.epoch, two.finished) == (2, 2, True)


def test_without_set_epoch_reading_may_run_ahead_into_the_next_epoch() -> None:
    """A prefetcher starts the next epoch before the last step of this one is done."""
    one = sampler(100, num_replicas=1)
    first = []
    for index in one:
        first.append(index)
        if len(first) % 2 == 0 and len(first) < 100:
            one.advance()
    second = list(one)
    assert (one.epoch, one.completed) == (0, 98)
    one.advance()
    one.advance()
    assert (one.epoch, one.completed) == (1, 2)
    fresh = sampler(100, num_replicas=1)
    fresh.set_epoch(1)
    assert list(fresh) == second


def test_a_pass_without_training_does_not_use_up_an_epoch() -> None:
    one = sampler(100)
    looked_at = list(one)
    assert list(one) == looked_at
    one.advance(100)
    looked_at = list(one)
    one.advance()
    two = sampler(100)
    two.load_state_dict(one.state_dict())
    assert list(two) == looked_at[2:]


def test_steps_after_the_end_of_a_set_epoch_do_not_count() -> None:
    one = sampler(4)
    one.set_epoch(0)
    for _ in range(3):
        one.advance()
    assert (one.epoch, one.completed, one.state_dict()["steps"]) == (0, 4, 1)


def test_several_batches_can_be_one_step() -> None:
    one = sampler(20)
    one.set_epoch(0)
    one.advance(8)
    assert (one.completed, one.state_dict()["steps"]) == (8, 1)
    one.advance(samples=100)
    assert one.completed == 20


@pytest.mark.parametrize("samples", [3, -4])
def test_a_part_of_a_batch_is_no_step(samples: int) -> None:
    with pytest.raises(DataMistake, match=f"samples={samples} is not a whole number"):
        sampler(20).advance(samples)


def test_the_seed_of_an_epoch_that_goes_on_is_the_saved_one() -> None:
    one = sampler(20, seed=1)
    one.advance()
    two = sampler(20, seed=2)
    two.load_state_dict(one.state_dict())
    assert list(two) == list(one)


def test_a_position_in_other_data_is_refused() -> None:
    one = sampler(20)
    one.advance()
    with pytest.raises(PositionMisfit, match="length=20 and cannot continue with length=21"):
        sampler(21).load_state_dict(one.state_dict())
    with pytest.raises(PositionMisfit, match="shuffle=True and cannot continue with shuffle=False"):
        sampler(20, shuffle=False).load_state_dict(one.state_dict())
    with pytest.raises(PositionMisfit, match="another version"):
        sampler(20).load_state_dict({**one.state_dict(), "order": 0})
    with pytest.raises(PositionMisfit, match="not a valid position"):
        sampler(20).load_state_dict({"epoch": "three"})


def test_data_may_change_between_epochs() -> None:
    one = sampler(20)
    one.set_epoch(0)
    one.advance(20)
    two = sampler(30)
    two.load_state_dict(one.state_dict())
    assert two.finished
    two.set_epoch(1)
    assert len(two) == 15


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"batch_size": 0}, "batch_size=0 must be at least 1"),
        ({"rank": 2}, "rank=2 is out of range for num_replicas=2: ranks go from 0 to 1"),
        ({"drop_last": True, "pad": True}, "choose one"),
    ],
)
def test_mistakes_are_named(settings: dict[str, object], what: str) -> None:
    with pytest.raises(DataMistake, match=what):
        sampler(**settings)  # type: ignore[arg-type]


def test_nothing_comes_of_no_data() -> None:
    assert list(sampler(0)) == []
    assert list(sampler(0, pad=True)) == []
    assert len(sampler(0)) == 0
    empty = sampler(0)
    empty.advance()
    assert (empty.epoch, empty.finished) == (0, True)


# --- global batches -----------------------------------------------------------------------------


def batches(rank: int, world: int, **settings: int | None) -> ElasticBatchSampler:
    return ElasticBatchSampler(
        range(10),
        global_batch=7,
        num_replicas=world,
        rank=rank,
        shuffle=False,
        micro_batch=settings.get("micro_batch"),
    )


def test_shares_differ_by_at_most_one_and_are_told() -> None:
    one = batches(0, 3)
    assert [list(batches(rank, 3)) for rank in range(3)] == [
        [[0, 1, 2], [7]],
        [[3, 4], [8]],
        [[5, 6], [9]],
    ]
    assert one.shares() == [3, 2, 2]
    one.advance()
    assert one.shares() == [1, 1, 1]
    one.advance()
    assert one.shares() == [0, 0, 0]


def test_a_share_comes_in_micro_batches() -> None:
    assert list(batches(0, 2, micro_batch=3)) == [[0, 1, 2], [3], [7, 8]]
    assert len(batches(0, 2, micro_batch=3)) == 3


def test_a_rank_without_a_share_gets_no_list() -> None:
    assert list(batches(8, 9)) == []
    assert [len(list(batches(rank, 5))) for rank in range(5)] == [2, 2, 2, 1, 1]
    assert all(share for rank in range(9) for share in batches(rank, 9))


# --- what a DataLoader may not do ---------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 1])
def test_another_batch_size_of_the_loader_is_refused(workers: int) -> None:
    loader: DataLoader[int] = DataLoader(
        range(20),  # type: ignore[arg-type]
        batch_size=3,
        sampler=sampler(20),
        num_workers=workers,
    )
    with pytest.raises(
        DataMistake, match=r"batch_size=3 differs from its sampler's batch_size=2.*same"
    ):
        next(iter(loader))


def test_a_loader_that_drops_the_last_samples_of_some_ranks_is_refused() -> None:
    for settings, fits in (({}, False), ({"drop_last": True}, True), ({"pad": True}, True)):
        loader: DataLoader[int] = DataLoader(
            range(9),  # type: ignore[arg-type]
            batch_size=2,
            sampler=sampler(9, **settings),  # type: ignore[arg-type]
            drop_last=True,
        )
        if fits:
            assert len(list(loader)) > 0
        else:
            with pytest.raises(DataMistake, match="set drop_last=True on the ElasticSampler"):
                next(iter(loader))


def test_data_without_indices_are_sent_to_the_sharded_dataset() -> None:
    class Endless(IterableDataset[int]):
        def __iter__(self) -> Iterator[int]:
            return iter(range(3))

    for make in (
        lambda: ElasticSampler(Endless(), batch_size=2),  # type: ignore[arg-type]
        lambda: ElasticBatchSampler(Endless(), global_batch=2),  # type: ignore[arg-type]
    ):
        with pytest.raises(DataMistake, match=r"an? Endless has none: .*ShardedDataset"):
            make()
