"""Checks for unsupported settings before an elastic Lightning Trainer trains, and its world size.

LightningMistake   the Trainer is configured or called wrongly; says what would be right

Errors about the data itself are :class:`resile.train.data.errors.DataMistake`.
"""

from __future__ import annotations

import inspect
import os
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

__all__ = [
    "LightningMistake",
    "as_launched",
    "check_accumulation",
    "check_batches",
    "check_start",
    "check_trainer",
    "workers_launched",
]


class LightningMistake(ValueError):
    """The Trainer is configured or called in a way that cannot be resumed."""


def as_launched() -> dict[str, int]:
    """Return ``devices`` and ``num_nodes`` for a Trainer, from `resile run` or torchrun.

    They change with the world, so a script cannot hard-code them. 1 and 1 without a launcher.
    """
    return {
        "devices": int(os.environ.get("LOCAL_WORLD_SIZE", "1")),
        "num_nodes": int(os.environ.get("GROUP_WORLD_SIZE", "1")),
    }


def workers_launched() -> int:
    """Return the total number of workers."""
    return int(os.environ.get("WORLD_SIZE", "1"))


_SEARCHES = "would search again whenever training resumes: run it in a separate run"
_REFUSED_CALLBACKS = (
    (LearningRateFinder, _SEARCHES),
    (BatchSizeFinder, _SEARCHES),
    (
        GradientAccumulationScheduler,
        "changes how many samples an update has, so there is no position to resume from: "
        "use accumulate_grad_batches or global_batch",
    ),
    (
        StochasticWeightAveraging,
        "changes schedules and batches of an epoch in ways that cannot be restored: use "
        "WeightAveraging",
    ),
    (
        BaseFinetuning,
        "changes the optimizer's parameter groups during training, which cannot be restored: "
        "freeze and unfreeze with requires_grad instead",
    ),
)


def check_trainer(trainer: Any, *, started: int) -> None:
    """Check before anything is set up. ``started``: number of workers from the launcher."""
    if not isinstance(trainer, Trainer):
        raise LightningMistake(
            f"the Trainer is from {type(trainer).__module__.partition('.')[0]}: import it from "
            "lightning.pytorch"
        )
    if trainer.world_size != started:
        raise LightningMistake(
            f"{started} workers were started, but the Trainer's world size is "
            f"{trainer.world_size}: start it with 'resile run' or torchrun, and pass "
            "strategy='ddp' and **as_launched()"
        )
    if isinstance(trainer.strategy, DeepSpeedStrategy):
        raise LightningMistake("deepspeed is not supported, as it hides its state: use 'ddp'")
    for kind, reason in _REFUSED_CALLBACKS:
        if any(isinstance(one, kind) for one in trainer.callbacks):
            raise LightningMistake(f"{kind.__name__} {reason}")
    if trainer.reload_dataloaders_every_n_epochs:
        raise LightningMistake(
            "reload_dataloaders_every_n_epochs must be 0: the position in the data belongs to the "
            "loader that training began with"
        )
    if "dataloader_iter" in inspect.signature(trainer.lightning_module.training_step).parameters:
        raise LightningMistake(
            "training_step(dataloader_iter) may read any number of batches, which is not "
            "supported: take a batch instead"
        )
    if trainer.overfit_batches:
        raise LightningMistake("overfit_batches uses its own order: use limit_train_batches")


def check_start(trainer: Any) -> None:
    """Check after Lightning's own restore."""
    if trainer.ckpt_path is not None:
        raise LightningMistake(
            "fit(ckpt_path=...) and ElasticCheckpoint both resume: remove the first, the newest "
            "state is found without it. To start from given weights, load them into the model"
        )


def check_batches(trainer: Any) -> None:
    """Check once the loader is set up."""
    accumulated = trainer.accumulate_grad_batches
    if trainer.num_training_batches % accumulated:
        raise LightningMistake(
            f"limit_train_batches leaves {trainer.num_training_batches} batches of an epoch, which "
            f"is not a multiple of the {accumulated} batches of an update: make it one"
        )


def check_accumulation(trainer: Any) -> None:
    """Check before gradient accumulation is set."""
    if not trainer.lightning_module.automatic_optimization:
        raise LightningMistake(
            "global_batch needs gradient accumulation, but a module with manual optimization "
            "accumulates by itself: remove global_batch"
        )
