"""The examples in the pages on data and on the elastic batch run as they are written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from resile import Checkpointer, ShardedDataset
from resile.train.batch import ElasticTrainer
from resile.train.data import ElasticBatchSampler
from tests.local.data.documentation import run, written

RECORDS = 300


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The variables of a script before a block: a model, and data in its working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RESILE_LEDGER", "")
    Path("train.csv").write_text("x,y\n" + "1,2\n" * RECORDS)
    Path("train.jsonl").write_text(f"{json.dumps({'x': 1})}\n" * RECORDS)
    model = nn.Linear(3, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = TensorDataset(torch.randn(RECORDS, 3), torch.randint(0, 3, (RECORDS,)))
    with Checkpointer(None, quiet=True) as checkpointer:
        yield {
            "torch": torch,
            "model": model,
            "optimizer": optimizer,
            "data": data,
            "loss_fn": nn.functional.cross_entropy,
            "checkpointer": checkpointer,
            "trainer": ElasticTrainer(model, optimizer),
            "ElasticTrainer": ElasticTrainer,
            "ElasticBatchSampler": ElasticBatchSampler,
            "ShardedDataset": ShardedDataset,
        }


def test_samplers(script: dict[str, Any]) -> None:
    run(written("data.md", 'open_dataset("train.csv")'), script)
    assert script["step"] == 10 * -(-RECORDS // 32)
    script["checkpointer"].close()


def test_leased_data(script: dict[str, Any]) -> None:
    run(written("data.md", 'open_dataset("train.jsonl")'), script)
    assert script["step"] == 3 * -(-RECORDS // 32)
    script["checkpointer"].close()


def test_a_list_of_indices(script: dict[str, Any]) -> None:
    run(written("data.md", "Subset(data, chosen)"), script)
    assert script["dataset"].finished
    assert script["dataset"].state_dict()["done"] == [[0, RECORDS * 9 // 10]]


def test_a_stream(script: dict[str, Any]) -> None:
    run(written("data.md", "class Readings"), script)
    assert script["state"]["step"] == 40
    trained = script["dataset"].state_dict()["done"]
    assert trained == [[0, 980], [0, 400], [0, 650]]  # 1280, and the records before the offsets


def test_a_ledger_by_hand(script: dict[str, Any]) -> None:
    script.update(words=range(64), step=0, epoch=0, indices=range(64))
    run(written("data.md", "from resile.ledger"), script)
    assert len(list(Path("ledger").iterdir())) == 1


def test_record_io(script: dict[str, Any]) -> None:
    run(written("data.md", "RecordIOWriter"), script)
    assert Path("train.recordio").stat().st_size


def test_the_elastic_batch(script: dict[str, Any]) -> None:
    run(written("elastic-batch.md", "global_batch=128, micro_batch=16)\nloader"), script)
    assert script["batches"].samples == RECORDS % 128


def test_the_elastic_batch_on_leased_data(script: dict[str, Any]) -> None:
    run(written("elastic-batch.md", "ShardedDataset"), script)
    assert script["step"] == 3 * -(-RECORDS // 128)


def test_a_mean_over_tokens(script: dict[str, Any]) -> None:
    loaded = ElasticBatchSampler(script["data"], global_batch=128)
    script["loader"] = torch.utils.data.DataLoader(
        TensorDataset(torch.randn(RECORDS, 3), torch.randint(0, 2, (RECORDS, 3))),
        batch_sampler=loaded,
    )
    script["loss_of_each"] = lambda out, given: (out - given).abs()
    run(written("elastic-batch.md", 'mean_over="counts"'), script)


def test_a_learning_rate_that_follows_the_batch(script: dict[str, Any]) -> None:
    script["world_size"] = 1
    run(written("elastic-batch.md", "LinearScaling(base_batch"), script)
