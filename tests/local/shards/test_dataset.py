"""A sharded dataset in one process: sources, loaders with workers, loops left and resumed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from resile.ledger import check, read_ledger
from resile.train.data.errors import DataMistake, PositionMisfit
from resile.train.data.sharded.dataset import Pace, ShardedDataset


class Squares(Dataset):
    """Map-style, one record at a time."""

    def __len__(self) -> int:
        return 50

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(index * index)


class File:
    """A source that is read in runs, and records them."""

    def __init__(self, name: str, length: int) -> None:
        self.name, self.length = name, length
        self.runs: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return self.length

    def read(self, start: int, stop: int) -> Iterator[str]:
        self.runs.append((start, stop))
        return (f"{self.name}{i}" for i in range(start, stop))


class Log:
    """A stream of three partitions."""

    partitions = 3

    def read(self, partition: int, start: int, stop: int) -> list[tuple[int, int]]:
        return [(partition, offset) for offset in range(start, stop)]


def alone(source: object, **options: object) -> ShardedDataset:
    return ShardedDataset(source, rank=0, num_replicas=1, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_a_loader_with_workers_reads_each_record_once(workers: int, context: str) -> None:
    dataset = alone(Squares(), shard_size=7)
    options = {"multiprocessing_context": context} if workers else {}
    loader = dataset.loader(batch_size=8, num_workers=workers, **options)
    assert len(loader) == 7
    seen = [int(value) for batch in loader for value in batch]
    assert sorted(seen) == [i * i for i in range(50)]


def test_what_a_loader_has_prefetched_does_not_count_until_it_is_trained() -> None:
    dataset = alone(Squares(), shard_size=10, shuffle=False)
    for number, _ in enumerate(dataset.loader(batch_size=5, num_workers=2, prefetch_factor=4)):
        dataset.advance()
        if number == 2:
            break
    assert dataset.state_dict()["done"] == [[0, 15]]


def test_a_loop_that_was_left_goes_on_with_what_was_not_trained() -> None:
    dataset = alone(list(range(20)), shard_size=6, shuffle=False)
    loader = dataset.loader(batch_size=3, collate_fn=list)
    for batch in islice(loader, 4):
        if batch[0] < 6:
            dataset.advance()
    seen = [record for batch in loader for record in batch]
    assert seen == list(range(6, 20))


def test_epochs_follow_each_other_and_are_shuffled_differently() -> None:
    dataset = alone(range(40), shard_size=8, epochs=3)
    loader = dataset.loader(batch_size=8, collate_fn=list)
    orders = []
    for epoch in dataset.remaining_epochs():
        seen = []
        for batch in loader:
            seen += batch
            dataset.advance()
        assert dataset.epoch == epoch
        orders.append(seen)
    assert len(orders) == 3
    assert all(sorted(seen) == list(range(40)) for seen in orders)
    assert len({tuple(seen) for seen in orders}) == 3
    assert dataset.finished


def test_set_epoch_begins_another_and_keeps_the_restored_one() -> None:
    dataset = alone(range(10), shard_size=4, shuffle=False, epochs=5)
    next(iter(dataset.batches(3)))
    dataset.advance()
    restored = alone(range(10), shard_size=4, shuffle=False, epochs=5)
    restored.load_state_dict(dataset.state_dict())
    restored.set_epoch(0)
    assert [i for batch in restored.batches(3) for i in batch] == list(range(3, 10))
    restored.set_epoch(1)
    assert [i for batch in restored.batches(3) for i in batch] == list(range(10))


def test_files_are_read_in_runs_and_counted_through() -> None:
    files = [File("a", 5), File("b", 0), File("c", 9)]
    dataset = alone(files, shard_size=None, shuffle="shards")
    seen = [record for batch in dataset.loader(batch_size=4, collate_fn=list) for record in batch]
    assert Counter(seen) == Counter([f"a{i}" for i in range(5)] + [f"c{i}" for i in range(9)])
    assert all(stop - start > 1 for file in files for start, stop in file.runs[:-1])


def test_a_callable_with_a_length_is_a_source() -> None:
    dataset = alone(lambda start, stop: range(start * 10, stop * 10, 10), length=6, shuffle=False)
    assert list(dataset) == [0, 10, 20, 30, 40, 50]


def test_a_stream_goes_on_from_its_offsets_and_never_ends() -> None:
    dataset = alone(Log(), shard_size=4, shuffle=False, offsets=[100, 0, 7])
    batches = iter(dataset.loader(batch_size=4, collate_fn=list))
    first = [record for batch in islice(batches, 3) for record in batch]
    for _ in range(2):
        dataset.advance()
    assert first == [(p, o + i) for p, o in ((0, 100), (1, 0), (2, 7)) for i in range(4)]
    again = alone(Log(), shard_size=4, shuffle=False)
    again.load_state_dict(dataset.state_dict())
    onward = [record for batch in islice(again.batches(4), 6) for record in batch]
    assert (2, 7) in onward
    assert not {(0, 100), (1, 0)} & set(onward)


class Slow:
    """A stream of which only this many records have arrived."""

    partitions = 2

    def read(self, partition: int, start: int, stop: int) -> list[tuple[int, int]]:
        return [(partition, offset) for offset in range(start, min(stop, 6))]


def test_a_stream_that_gives_fewer_records_than_asked_for_is_refused() -> None:
    dataset = alone(Slow(), shard_size=4, shuffle=False)
    batches = iter(dataset.loader(batch_size=4, collate_fn=list))
    assert [next(batches), next(batches)] == [[(p, i) for i in range(4)] for p in (0, 1)]
    said = r"returned 2 records for \[4, 8\) of partition 0, not 4: read\(\) must wait"
    with pytest.raises(DataMistake, match=said):
        next(batches)


def test_state_may_be_restored_again_in_the_same_process() -> None:
    dataset = alone(range(12), shard_size=5, shuffle=False)
    saved = dataset.state_dict()
    list(dataset.batches(4))
    dataset.advance()
    dataset.load_state_dict(saved)
    assert [i for batch in dataset.batches(4) for i in batch] == list(range(12))


def test_a_step_of_several_batches_counts_by_records() -> None:
    dataset = alone(range(12), shard_size=5, shuffle=False)
    batches = iter(dataset.batches(4))
    next(batches), next(batches)
    assert dataset.advance(samples=6) == 6
    assert dataset.state_dict()["done"] == [[0, 6]]


def test_more_ranks_than_records_get_stand_ins_that_do_not_count() -> None:
    ranks = [ShardedDataset(range(2), rank=r, num_replicas=3, shuffle=False) for r in range(3)]
    batches = [list(rank.batches(4)) for rank in ranks]
    assert [len(one) for one in batches] == [1, 1, 1]
    assert [rank.share for rank in ranks] == [1, 1, 0]
    assert [rank.advance() for rank in ranks] == [1, 1, 0]


def test_the_ledger_proves_that_each_record_was_trained_once(tmp_path: Path) -> None:
    dataset = alone(range(23), shard_size=5, ledger=tmp_path, name="d")
    for _ in islice(dataset.batches(4), 3):
        dataset.advance()
    saved = dataset.state_dict()
    next(iter(dataset.batches(4)))
    dataset.advance()
    dataset.load_state_dict(saved)
    for _ in dataset.batches(4):
        dataset.advance()
    assert check(read_ledger(tmp_path), epochs=1).sound


@pytest.mark.parametrize(
    ("source", "options", "said"),
    [
        (range(5), {"shuffle": "files"}, "shuffle='files'"),
        (range(5), {"shard_size": 0}, "shard_size=0"),
        (range(5), {"epochs": 0}, "epochs=0"),
        (range(5), {"seed": 2**64}, "seed"),
        (lambda start, stop: range(start, stop), {}, "length= is required"),
        (object(), {}, "cannot be read"),
        (Log(), {"offsets": [1]}, "offsets= has 1 entries"),
        (Log(), {"shard_size": None}, "has no end"),
    ],
)
def test_a_users_mistake_names_the_argument(
    source: object, options: dict[str, object], said: str
) -> None:
    with pytest.raises(DataMistake, match=said):
        alone(source, **options)


def test_a_loader_without_the_datasets_batches_is_refused() -> None:
    with pytest.raises(TypeError, match=r"use dataset\.loader"):
        list(DataLoader(alone(range(5)), batch_size=2))
    with pytest.raises(DataMistake, match="in_order=False"):
        alone(range(5)).loader(2, in_order=False)
    with pytest.raises(DataMistake, match="batch_size=0"):
        alone(range(5)).batches(0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "either batch_size="),
        ({"batch_size": 2, "global_batch": 2}, "either batch_size="),
        ({"global_batch": 0}, "global_batch=0"),
        ({"batch_size": 2, "micro_batch": 0}, "micro_batch=0"),
        ({"global_batch": 2}, "global_batch=2 is less than the 3 ranks"),
        ({"global_batch": 4, "pace": Pace.APART}, "use batch_size="),
    ],
)
def test_a_batch_that_cannot_be_is_refused(options: dict[str, Any], said: str) -> None:
    dataset = ShardedDataset(range(9), rank=0, num_replicas=3)
    with pytest.raises(DataMistake, match=said):
        dataset.loader(**options)


def test_a_step_comes_in_pieces_and_counts_as_one() -> None:
    dataset = alone(range(11), shard_size=4, shuffle=False)
    batches = dataset.batches(global_batch=6, micro_batch=4)
    assert len(batches) == 4
    first, second, *_ = batches
    assert [first, second] == [[0, 1, 2, 3], [4, 5]]
    assert dataset.advance() == 6
    assert list(batches) == [[6, 7, 8, 9], [10]]


def test_another_batch_size_in_the_middle_of_an_epoch_is_refused() -> None:
    dataset = alone(range(9))
    next(iter(dataset.batches(2)))
    with pytest.raises(DataMistake, match="begun with another"):
        next(iter(dataset.batches(3)))
    with pytest.raises(DataMistake, match="batch size or pace"):
        next(iter(dataset.batches(2, pace=Pace.APART)))


def test_a_position_in_other_data_is_refused() -> None:
    dataset = alone(range(9))
    list(dataset.batches(2))
    dataset.advance()
    with pytest.raises(PositionMisfit, match="9 records and cannot continue with 8"):
        alone(range(8)).load_state_dict(dataset.state_dict())
    with pytest.raises(PositionMisfit, match="not a valid position"):
        alone(range(9)).load_state_dict({"epoch": "soon"})
    with pytest.raises(PositionMisfit, match="3 partitions"):
        alone(range(9)).load_state_dict(alone(Log()).state_dict())
