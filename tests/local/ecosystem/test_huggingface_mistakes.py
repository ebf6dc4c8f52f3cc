"""Unsupported settings of an elastic Trainer are reported before it trains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import IterableDataset

from resile.train.data.errors import DataMistake
from resile.train.data.third_party import accumulation_for

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from resile import Checkpointer  # noqa: E402
from resile.train.huggingface import TrainerMistake, make_elastic  # noqa: E402


class Endless(IterableDataset):
    def __iter__(self):  # type: ignore[no-untyped-def]
        while True:
            yield {"input_ids": torch.zeros(4), "labels": torch.zeros(4)}


def trainer_of(folder: Path, dataset: Any, **arguments: Any) -> Any:
    config = transformers.GPT2Config(vocab_size=8, n_positions=4, n_embd=8, n_layer=1, n_head=1)
    args = transformers.TrainingArguments(
        output_dir=str(folder), report_to=[], use_cpu=True, max_steps=2, **arguments
    )
    model = transformers.GPT2LMHeadModel(config)
    return transformers.Trainer(model=model, args=args, train_dataset=dataset)


@pytest.fixture
def checkpointer(monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    monkeypatch.delenv("RESILE_LEDGER", raising=False)
    with Checkpointer(None, quiet=True) as made:
        yield made


def test_data_without_a_length_is_refused(tmp_path: Path, checkpointer: Checkpointer) -> None:
    with pytest.raises(DataMistake, match="train_dataset must have a length"):
        make_elastic(trainer_of(tmp_path, Endless()), checkpointer)


def test_an_order_that_depends_on_the_world_is_refused(
    tmp_path: Path, checkpointer: Checkpointer
) -> None:
    trainer = trainer_of(tmp_path, [{}] * 4, train_sampling_strategy="group_by_length")
    with pytest.raises(DataMistake, match="train_sampling_strategy='group_by_length'"):
        make_elastic(trainer, checkpointer)


def test_a_trainer_is_made_elastic_once(tmp_path: Path, checkpointer: Checkpointer) -> None:
    trainer = trainer_of(tmp_path, [{}] * 4)
    make_elastic(trainer, checkpointer)
    with pytest.raises(TrainerMistake, match="already called"):
        make_elastic(trainer, checkpointer)


def test_workers_that_would_train_each_for_itself_are_refused(
    tmp_path: Path, checkpointer: Checkpointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = trainer_of(tmp_path, [{}] * 4)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(TrainerMistake, match="2 workers were started"):
        make_elastic(trainer, checkpointer)


@given(st.integers(1, 64), st.integers(1, 64), st.integers(1, 64))
def test_accumulation_keeps_any_global_batch_that_can_be_kept(
    times: int, micro_batch: int, world: int
) -> None:
    wanted = times * micro_batch * world
    assert accumulation_for(wanted, micro_batch=micro_batch, world=world) == times


def test_a_global_batch_of_nothing_is_refused() -> None:
    with pytest.raises(DataMistake, match="global_batch=0"):
        accumulation_for(0, micro_batch=2, world=2)


def test_only_one_of_two_ways_to_resume_is_used(tmp_path: Path, checkpointer: Checkpointer) -> None:
    tokens = torch.arange(4)
    dataset = [{"input_ids": tokens, "labels": tokens}] * 4
    trainer_of(tmp_path, dataset, save_steps=1, per_device_train_batch_size=1).train()
    again = trainer_of(tmp_path, dataset, save_steps=1, per_device_train_batch_size=1)
    make_elastic(again, checkpointer)
    with pytest.raises(TrainerMistake, match="remove the first"):
        again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-1"))
