"""Unsupported settings of an elastic Lightning Trainer are reported before it trains."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, WeightedRandomSampler

from resile.train.data.errors import DataMistake

lightning = pytest.importorskip("lightning.pytorch")

from lightning.pytorch.callbacks import (  # noqa: E402
    BackboneFinetuning,
    GradientAccumulationScheduler,
    LearningRateFinder,
    StochasticWeightAveraging,
)

from resile import Checkpointer  # noqa: E402
from resile.train.lightning import ElasticCheckpoint, LightningMistake, as_launched  # noqa: E402


class Model(lightning.LightningModule):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 1)

    def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
        del batch_idx
        return self.layer(batch.float()[:, None]).sum()

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.01)


class ByHand(Model):
    automatic_optimization = False


class Reading(Model):
    def training_step(self, dataloader_iter: Iterator[Any]) -> torch.Tensor:  # type: ignore[override]
        return super().training_step(next(dataloader_iter)[0], 0)


class Endless(IterableDataset):  # type: ignore[misc]
    def __iter__(self) -> Iterator[int]:
        while True:
            yield 1


def trainer_with(*callbacks: Any, **options: Any) -> Any:
    return lightning.Trainer(
        **{
            "accelerator": "cpu",
            "max_epochs": 1,
            "enable_checkpointing": False,
            "enable_progress_bar": False,
            "enable_model_summary": False,
            "logger": False,
            **options,
        },
        callbacks=list(callbacks),
    )


NUMBERS = DataLoader(range(8), batch_size=2)


@pytest.fixture
def checkpointer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Checkpointer]:
    monkeypatch.delenv("RESILE_LEDGER", raising=False)
    with Checkpointer(None, quiet=True) as made:
        yield made


@pytest.mark.parametrize(
    ("loader", "said"),
    [
        (DataLoader(Endless()), "must have a length and indices"),
        (DataLoader(range(8), batch_size=None), "set batch_size"),
        (DataLoader(range(8), batch_sampler=[[0, 1], [2, 3]]), "no batch_sampler"),
        (DataLoader(range(8), sampler=WeightedRandomSampler([1.0] * 8, 8)), "remove the sampler"),
        ({"a": NUMBERS, "b": NUMBERS}, "one DataLoader, not a dict"),
    ],
    ids=["no length", "no batches", "batch sampler", "sampler", "two loaders"],
)
def test_data_without_an_order_that_can_be_continued_is_refused(
    checkpointer: Checkpointer, loader: Any, said: str
) -> None:
    with pytest.raises(DataMistake, match=said):
        trainer_with(ElasticCheckpoint(checkpointer)).fit(Model(), loader)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"reload_dataloaders_every_n_epochs": 1}, "reload_dataloaders_every_n_epochs must be 0"),
        ({"overfit_batches": 2}, "use limit_train_batches"),
        ({"limit_train_batches": 3, "accumulate_grad_batches": 2}, "limit_train_batches leaves 3"),
    ],
    ids=["reloading", "overfitting", "half an update"],
)
def test_plans_that_lose_the_place_in_the_data_are_refused(
    checkpointer: Checkpointer, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(LightningMistake, match=said):
        trainer_with(ElasticCheckpoint(checkpointer), **options).fit(Model(), NUMBERS)


@pytest.mark.parametrize(
    ("callback", "said"),
    [
        (GradientAccumulationScheduler({1: 2}), "use accumulate_grad_batches or global_batch"),
        (StochasticWeightAveraging(0.1), "use WeightAveraging"),
        (BackboneFinetuning(), "BaseFinetuning changes the optimizer's parameter groups"),
        (LearningRateFinder(), "run it in a separate run"),
    ],
    ids=["accumulation", "averaging", "finetuning", "searching"],
)
def test_callbacks_whose_changes_cannot_be_put_back_are_refused(
    checkpointer: Checkpointer, callback: Any, said: str
) -> None:
    with pytest.raises(LightningMistake, match=said):
        trainer_with(ElasticCheckpoint(checkpointer), callback).fit(Model(), NUMBERS)


def test_a_global_batch_cannot_be_made_for_a_module_that_steps_by_itself(
    checkpointer: Checkpointer,
) -> None:
    trainer = trainer_with(ElasticCheckpoint(checkpointer, global_batch=8))
    with pytest.raises(LightningMistake, match="accumulates by itself"):
        trainer.fit(ByHand(), NUMBERS)


def test_a_module_that_reads_batches_itself_is_refused(checkpointer: Checkpointer) -> None:
    with pytest.raises(LightningMistake, match="take a batch instead"):
        trainer_with(ElasticCheckpoint(checkpointer)).fit(Reading(), NUMBERS)


def test_a_callback_is_for_one_fit(checkpointer: Checkpointer) -> None:
    elastic = ElasticCheckpoint(checkpointer)
    trainer_with(elastic).fit(Model(), NUMBERS)
    with pytest.raises(LightningMistake, match="for one fit"):
        trainer_with(elastic).fit(Model(), NUMBERS)


def test_a_trainer_has_one_of_them(checkpointer: Checkpointer) -> None:
    trainer = trainer_with(ElasticCheckpoint(checkpointer), ElasticCheckpoint(checkpointer))
    with pytest.raises(LightningMistake, match="only one ElasticCheckpoint"):
        trainer.fit(Model(), NUMBERS)


def test_only_one_of_two_ways_to_resume_is_used(tmp_path: Path, checkpointer: Checkpointer) -> None:
    before = trainer_with()
    before.fit(Model(), NUMBERS)
    before.save_checkpoint(tmp_path / "before.ckpt")
    with pytest.raises(LightningMistake, match="remove the first"):
        trainer_with(ElasticCheckpoint(checkpointer)).fit(
            Model(), NUMBERS, ckpt_path=tmp_path / "before.ckpt"
        )


def test_workers_that_would_train_each_for_itself_are_refused(
    checkpointer: Checkpointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(
        LightningMistake, match="2 workers were started, but the Trainer's world size is 1"
    ):
        trainer_with(ElasticCheckpoint(checkpointer)).fit(Model(), NUMBERS)


def test_a_trainer_is_made_for_the_workers_that_were_launched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert as_launched() == {"devices": 1, "num_nodes": 1}
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    monkeypatch.setenv("GROUP_WORLD_SIZE", "3")
    assert as_launched() == {"devices": 4, "num_nodes": 3}


@pytest.mark.parametrize("options", [{"fast_dev_run": 2}, {"limit_train_batches": 0}])
def test_a_trainer_that_does_not_really_train_is_left_alone(
    checkpointer: Checkpointer, options: dict[str, Any]
) -> None:
    trainer_with(ElasticCheckpoint(checkpointer), **options).fit(Model(), NUMBERS)
    assert checkpointer.resumed.step == 0
