"""What is refused before an elastic Trainer trains."""

from __future__ import annotations

import inspect
from typing import Any

from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import (
    BaseFinetuning,
    BatchSizeFinder,
    GradientAccumulationScheduler,
    LearningRateFinder,
    StochasticWeightAveraging,
)
from lightning.pytorch.strategies import DeepSpeedStrategy

from resile.train.lightning.errors import LightningMistake

__all__ = ["check_accumulation", "check_batches", "check_start", "check_trainer"]

_SEARCHES = "searches anew whenever training is resumed: let it search in a run of its own"
_REFUSED_CALLBACKS = (
    (LearningRateFinder, _SEARCHES),
    (BatchSizeFinder, _SEARCHES),
    (
        GradientAccumulationScheduler,
        "changes how many samples an update has, so there is no place in an epoch to come back to: "
        "use accumulate_grad_batches or global_batch",
    ),
    (
        StochasticWeightAveraging,
        "changes schedules and batches of an epoch in ways that cannot be put back: use "
        "WeightAveraging",
    ),
    (
        BaseFinetuning,
        "changes the optimizer's parameter groups during training, which cannot be put back: "
        "freeze and unfreeze with requires_grad instead",
    ),
)


def check_trainer(trainer: Any, *, started: int) -> None:
    """Before anything is set up. ``started``: workers in all, as the launcher says."""
    if not isinstance(trainer, Trainer):
        raise LightningMistake(
            f"the Trainer is one of {type(trainer).__module__.partition('.')[0]}: import it from "
            "lightning.pytorch"
        )
    if trainer.world_size != started:
        raise LightningMistake(
            f"{started} workers were started, but the Trainer has {trainer.world_size}: start it "
            "with 'resile run' or torchrun, and give it strategy='ddp' and **as_launched()"
        )
    if isinstance(trainer.strategy, DeepSpeedStrategy):
        raise LightningMistake("deepspeed keeps its state to itself: use strategy='ddp' instead")
    for kind, reason in _REFUSED_CALLBACKS:
        if any(isinstance(one, kind) for one in trainer.callbacks):
            raise LightningMistake(f"{kind.__name__} {reason}")
    if trainer.reload_dataloaders_every_n_epochs:
        raise LightningMistake(
            "reload_dataloaders_every_n_epochs has to be 0: the place in the data is one in the "
            "loader that training began with"
        )
    if "dataloader_iter" in inspect.signature(trainer.lightning_module.training_step).parameters:
        raise LightningMistake(
            "training_step(dataloader_iter) reads as many batches as it likes: take a batch instead"
        )
    if trainer.overfit_batches:
        raise LightningMistake("overfit_batches takes an order of its own: use limit_train_batches")


def check_start(trainer: Any) -> None:
    """Once Lightning has restored whatever it was asked to."""
    if trainer.ckpt_path is not None:
        raise LightningMistake(
            "fit(ckpt_path=...) and ElasticCheckpoint both resume: leave the first out, the newest "
            "state is found without it. To begin with given weights, load them into the model"
        )


def check_batches(trainer: Any) -> None:
    """Once the loader is there."""
    accumulated = trainer.accumulate_grad_batches
    if trainer.num_training_batches % accumulated:
        raise LightningMistake(
            f"limit_train_batches leaves {trainer.num_training_batches} batches of an epoch, which "
            f"is no whole number of updates of {accumulated} batches: make it a multiple"
        )


def check_accumulation(trainer: Any) -> None:
    """When gradients are to be accumulated."""
    if not trainer.lightning_module.automatic_optimization:
        raise LightningMistake(
            "global_batch needs gradients to be accumulated, but a module with manual optimization "
            "accumulates by itself: leave global_batch out"
        )
