"""``make_elastic``: prepare a Trainer for elastic training."""

from __future__ import annotations

import os
from typing import Any

from resile.train.checkpoint.checkpointer import Checkpointer
from resile.train.data.foreign import ElasticLoader, accumulation_for, say_if_uneven
from resile.train.huggingface.callback import ElasticCallback
from resile.train.huggingface.data import Rest, elastic_sampler
from resile.train.huggingface.errors import TrainerMistake

__all__ = ["make_elastic"]


def make_elastic(
    trainer: Any, checkpointer: Checkpointer, *, global_batch: int | None = None
) -> ElasticCallback:
    """Let ``trainer.train()`` continue from the newest consistent state, at any world size.

    ``global_batch``: samples of an update over all workers; gradient accumulation is set so that it
    stays the same when the world changes. Without it the arguments decide, and an update has more
    samples with more workers. Call it once, before ``train``. Raises DataMistake, TrainerMistake.
    """
    args = trainer.args
    _check(trainer)
    if global_batch is not None:
        args.gradient_accumulation_steps = accumulation_for(
            global_batch, micro_batch=args.train_batch_size, world=args.world_size
        )
        if args.process_index == 0:
            say_if_uneven(
                global_batch,
                micro_batch=args.train_batch_size,
                world=args.world_size,
                accumulated=args.gradient_accumulation_steps,
            )
    sampler = elastic_sampler(trainer)
    rest = Rest(sampler)
    callback = ElasticCallback(trainer, checkpointer, sampler=sampler, rest=rest)
    usual_loader = trainer.get_train_dataloader

    def get_train_dataloader() -> Any:
        """The same data, read in the same way but in the sampler's order. The Trainer itself moves
        batches to the device."""
        size = args.train_batch_size
        return ElasticLoader(usual_loader(), batch_size=size, sampler=rest, boundaries=callback)

    trainer.get_train_dataloader = get_train_dataloader
    trainer.add_callback(callback)
    return callback


def _check(trainer: Any) -> None:
    if getattr(trainer, "is_deepspeed_enabled", False):
        raise TrainerMistake("deepspeed is not supported, as it hides its state: use DDP or FSDP2")
    started = int(os.environ.get("WORLD_SIZE", "1"))
    if trainer.args.world_size != started:
        raise TrainerMistake(
            f"{started} workers were started, but the Trainer's world size is "
            f"{trainer.args.world_size}: they would train independently. Without accelerators, set "
            "use_cpu=True in TrainingArguments"
        )
    if any(isinstance(one, ElasticCallback) for one in trainer.callback_handler.callbacks):
        raise TrainerMistake("make_elastic was already called for this Trainer")
