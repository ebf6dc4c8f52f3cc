"""Samplers and readers in a DataLoader, with and without worker processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader

from resile.train.data import ElasticBatchSampler, ElasticSampler, open_dataset
from resile.train.data.readers import RecordIOWriter

LENGTH = 53

LOADERS: list[dict[str, Any]] = [
    {"num_workers": 0},
    {"num_workers": 2},
    {"num_workers": 2, "prefetch_factor": 4, "persistent_workers": True},
    {"num_workers": 2, "multiprocessing_context": "spawn"},
]


@pytest.fixture(params=["csv", "jsonl", "parquet", "recordio"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A file of each kind with the numbers up to LENGTH."""
    path = tmp_path / f"data.{request.param}"
    if request.param == "csv":
        path.write_text("n\n" + "".join(f"{n}\n" for n in range(LENGTH)))
    elif request.param == "jsonl":
        path.write_text("".join(f'{{"n": {n}}}\n' for n in range(LENGTH)))
    elif request.param == "parquet":
        arrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.table({"n": list(range(LENGTH))}), path, row_group_size=10)
    else:
        with RecordIOWriter(path, chunk_size=20) as writer:
            for n in range(LENGTH):
                writer.write(str(n).encode())
    return path


def numbers(records: list[Any]) -> list[int]:
    return [int(r["n"] if isinstance(r, dict) else r) for r in records]


@pytest.mark.parametrize("how", LOADERS[1:3])
def test_readers_work_in_worker_processes(path: Path, how: dict[str, Any]) -> None:
    data = open_dataset(path)
    first = next(iter(data))  # open files are inherited
    sampler = ElasticSampler(data, batch_size=4, num_replicas=1, rank=0)
    loader: DataLoader[Any] = DataLoader(
        data, batch_size=4, sampler=sampler, collate_fn=numbers, **how
    )
    assert numbers([first]) == [0]
    assert sorted(n for batch in loader for n in batch) == list(range(LENGTH))


@pytest.mark.parametrize("how", LOADERS)
def test_what_loader_processes_took_ahead_is_not_lost(tmp_path: Path, how: dict[str, Any]) -> None:
    """Two ranks train some steps and stop while their loaders have read on; one rank finishes."""
    data = list(range(LENGTH))
    trained: list[int] = []
    pair = [ElasticSampler(data, batch_size=3, num_replicas=2, rank=rank) for rank in range(2)]
    for sampler in pair:
        batches = iter(DataLoader(data, batch_size=3, sampler=sampler, **how))
        for _ in range(4):
            trained += next(batches).tolist()
            sampler.advance()
        del batches
    rest = ElasticSampler(data, batch_size=3, num_replicas=1, rank=0)
    rest.load_state_dict(pair[0].state_dict())
    loader: DataLoader[Any] = DataLoader(data, batch_size=3, sampler=rest, **how)
    assert len(loader) == -(-(LENGTH - 24) // 3)
    trained += [n for batch in loader for n in batch.tolist()]
    assert sorted(trained) == data


@pytest.mark.parametrize("how", LOADERS[:3])
def test_global_batches_come_through_a_loader_over_epochs(how: dict[str, Any]) -> None:
    data = list(range(LENGTH))
    for world in (1, 3):
        epochs: list[list[frozenset[int]]] = []
        samplers = [
            ElasticBatchSampler(data, global_batch=8, num_replicas=world, rank=rank)
            for rank in range(world)
        ]
        loaders = [DataLoader(data, batch_sampler=sampler, **how) for sampler in samplers]
        for epoch in range(2):
            for sampler in samplers:
                sampler.set_epoch(epoch)
            shares = zip(*loaders, strict=True)
            epochs.append(
                [frozenset(n for share in batch for n in share.tolist()) for batch in shares]
            )
        if world == 1:
            alone = epochs
    assert epochs == alone
    assert epochs[0] != epochs[1]
