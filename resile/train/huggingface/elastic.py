"""Elastic training with the Hugging Face Trainer: sampler, saved state, callback, ``make_elastic``.

A state is saved when the next batch is requested, not when the last step ends: by then its log, its
evaluation (with the best metric, and the patience of early stopping) and the Trainer's own save are
done and part of it. A crash before that trains the step again, and evaluates it again.

The Trainer counts batches from the beginning of an epoch, and a callback cannot change that. So the
position in the data is not the Trainer's: the loader it is given begins where training stopped, and
the epoch in which it resumed is simply shorter. For that to work every update takes the same number
of micro batches: an incomplete last one is filled up, or dropped with ``dataloader_drop_last``.

The Trainer computes its plan (steps of an epoch, total steps) before any callback is called, as if
it started from step 0. After restoring, the callback corrects what the Trainer reads later: the
total number of steps, and the step from which the logged loss is averaged. The Trainer's own state
is saved as JSON text, as the Trainer itself writes it to ``trainer_state.json``.

TrainerMistake     the Trainer is configured or called wrongly; says what would be right

Errors about the data itself are :class:`resile.train.data.errors.DataMistake`.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sized
from typing import Any, cast

from torch.utils.data import Sampler
from transformers import TrainerCallback
from transformers.trainer_callback import ExportableState

from resile.decoding import decode_python_json
from resile.train.checkpoint.checkpointer import Checkpointer
from resile.train.checkpoint.restore.select_source import RestoreSource
from resile.train.checkpoint.state.rng import random_states, set_random_states
from resile.train.data import ElasticSampler
from resile.train.data.errors import DataMistake
from resile.train.data.third_party import (
    ElasticLoader,
    accumulation_for,
    check_indexed,
    print_nothing_left,
    warn_if_uneven,
)
from resile.train.progress import report

__all__ = [
    "ElasticCallback",
    "HuggingFaceRecord",
    "RemainderSampler",
    "TrainerMistake",
    "elastic_sampler",
    "make_elastic",
]


class TrainerMistake(ValueError):
    """The Trainer is configured or called in a way that cannot be resumed."""


class RemainderSampler(Sampler):  # type: ignore[misc]  # torch is not followed by mypy
    """Samples the rest of the training. It has no ``set_epoch``: the Trainer's count of epochs
    starts over whenever training is resumed, the sampler's does not."""

    def __init__(self, sampler: ElasticSampler) -> None:
        self._sampler = sampler
        self.over = False
        """Whether training is complete: the Trainer itself checks only after its first step."""

    def __iter__(self) -> Iterator[int]:
        return iter(()) if self.over else iter(self._sampler)

    def __len__(self) -> int:
        return len(self._sampler)


def elastic_sampler(trainer: Any) -> ElasticSampler:
    """Build the sampler for the Trainer's training data from its arguments."""
    args, dataset = trainer.args, trainer.train_dataset
    check_indexed(dataset, name="train_dataset")
    strategy = getattr(args, "train_sampling_strategy", "random")
    if strategy not in ("random", "sequential"):
        raise DataMistake(
            f"train_sampling_strategy='{strategy}' is not supported, because its order depends on "
            "the number of workers; use 'random' or 'sequential'"
        )
    return ElasticSampler(
        cast(Sized, dataset),
        batch_size=args.train_batch_size * args.gradient_accumulation_steps,
        num_replicas=args.world_size,
        rank=args.process_index,
        shuffle=strategy == "random",
        seed=args.seed if args.data_seed is None else args.data_seed,
        drop_last=args.dataloader_drop_last,
        pad=not args.dataloader_drop_last,
        name="train",
    )


_KEPT = (
    "global_step",
    "epoch",
    "total_flos",
    "num_input_tokens_seen",
    "best_metric",
    "best_global_step",
    "best_model_checkpoint",
    "log_history",
)
"""The fields of TrainerState that belong to the training; the rest belongs to this process."""


class HuggingFaceRecord:
    """The Trainer's state and that of its callbacks (patience of early stopping and the like)."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self.stopped = False
        """Whether training ended before its last step, by early stopping."""

    def state_dict(self) -> dict[str, str]:
        """Return the state as one text."""
        state = self._trainer.state
        kept = {name: getattr(state, name) for name in _KEPT if hasattr(state, name)}
        callbacks = {key: one.state()["attributes"] for key, one in self._callbacks()}
        record = {"state": kept, "callbacks": callbacks, "stopped": self.stopped}
        return {"json": json.dumps(record)}

    def load_state_dict(self, saved: Mapping[str, str]) -> None:
        """Load a saved state. A callback without saved state is left as it is."""
        record = decode_python_json(saved["json"])
        self.stopped = record.get("stopped", False)
        for name, value in record["state"].items():
            setattr(self._trainer.state, name, value)
        for key, one in self._callbacks():
            for name, value in record["callbacks"].get(key, {}).items():
                setattr(one, name, value)

    def _callbacks(self) -> Iterator[tuple[str, Any]]:
        """The callbacks with state, by type and number within the type."""
        seen: dict[str, int] = {}
        for one in self._trainer.callback_handler.callbacks:
            if isinstance(one, ExportableState):
                name = type(one).__name__
                seen[name] = seen.get(name, -1) + 1
                yield f"{name}/{seen[name]}", one


class ElasticCallback(TrainerCallback):  # type: ignore[misc]  # transformers is not followed
    """Restores and saves a Trainer's state. Created by ``make_elastic``."""

    def __init__(
        self,
        trainer: Any,
        checkpointer: Checkpointer,
        *,
        sampler: ElasticSampler,
        rest: RemainderSampler,
    ) -> None:
        self._trainer = trainer
        self._checkpointer = checkpointer
        self._sampler = sampler
        self._rest = rest
        self._state: dict[str, Any] = {}
        self._record = HuggingFaceRecord(trainer)
        self._drops_last = bool(trainer.args.dataloader_drop_last)
        self._step_done = False
        self._random: dict[str, Any] | None = None

    # --- called by the Trainer --------------------------------------------------------------

    def on_train_begin(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
        """Load the newest consistent state: everything is built by now."""
        if self._state:
            raise TrainerMistake("an elastic Trainer trains once: create a new one to train again")
        if state.global_step:
            raise TrainerMistake(
                "train(resume_from_checkpoint=...) and make_elastic both resume: remove the first, "
                "the newest state is found without it"
            )
        self._state = self._parts(parts)
        self._checkpointer.restore(self._state)
        if self._checkpointer.resumed.source is RestoreSource.NOWHERE:
            return
        self._random = random_states()
        self._correct_plan(args, state)
        if self._record.stopped or state.global_step >= state.max_steps:
            self._rest.over = True
            control.should_training_stop = True
            print_nothing_left(state.global_step, speaks=args.process_index == 0)

    def on_step_end(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
        """Mark a step as done; its log, its evaluation and its save are still to come."""
        del args, control, parts
        self._step_done = True
        state.epoch = self._epochs_done()
        report(state.global_step, total=state.max_steps)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
        """Skip log, evaluation and save of a training that was already complete."""
        del args, state, parts
        if self._rest.over:
            control.should_log = control.should_evaluate = control.should_save = False

    def on_log(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
        """Report the loss. The last log comes after all steps, before the best model is loaded."""
        del args
        logs = parts.get("logs") or {}
        if isinstance(logs.get("loss"), float):
            report(state.global_step, loss=logs["loss"], total=state.max_steps)
        if "train_runtime" in logs:
            self._end(state, control)

    def on_train_end(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
        """Save the last step and close; pending writes to storage still finish."""
        del args, parts
        self._end(state, control)
        self._checkpointer.close()

    # --- called by the loader ---------------------------------------------------------------

    def epoch_wanted(self) -> None:
        """Reset the random states before an epoch is read, which draws a random number."""
        self._count_step()
        if self._random is not None:
            set_random_states(self._random)
            self._random = None

    def batch_wanted(self) -> None:
        """Save the step before a batch is read. At the end of an epoch, which the Trainer only
        finds by asking for one more batch, the evaluation of the epoch is still to come."""
        if not self._epoch_is_over():
            self._count_step()

    # --- internals --------------------------------------------------------------------------

    def _count_step(self) -> None:
        if self._step_done:
            self._step_done = False
            self._checkpointer.step(self._trainer.state.global_step - 1, self._state)

    def _end(self, state: Any, control: Any) -> None:
        """Save the last step: no further batch is requested."""
        early = state.global_step < state.max_steps
        self._record.stopped = bool(control.should_training_stop) and early
        self._count_step()

    def _parts(self, parts: dict[str, Any]) -> dict[str, Any]:
        optimizer = parts["optimizer"]
        state = {
            "model": parts["model"],
            "optimizer": getattr(optimizer, "optimizer", optimizer),
            "scheduler": parts["lr_scheduler"],
            "sampler": self._sampler,
            "trainer": self._record,
            "step": 0,
        }
        scaler = getattr(self._trainer.accelerator, "scaler", None)
        return state if scaler is None else {**state, "scaler": scaler}

    def _correct_plan(self, args: Any, state: Any) -> None:
        """Recompute the number of steps from the epochs, unless ``max_steps`` is set."""
        state.epoch = self._epochs_done()
        if args.max_steps <= 0:
            sampler, rounded = self._sampler, math.floor if args.dataloader_drop_last else math.ceil
            of_an_epoch = max(1, rounded(len(sampler.dataset) / sampler.global_batch))
            done = sampler.epoch * of_an_epoch
            done += math.ceil(sampler.completed / sampler.global_batch)
            total = math.ceil(args.num_train_epochs * of_an_epoch)
            state.max_steps = state.global_step + max(0, total - done)
        # Private to the Trainer; set right before training begins, with no public access.
        self._trainer._globalstep_last_logged = state.global_step
        self._trainer._initial_global_step = state.global_step

    def _epochs_done(self) -> float:
        epoch, dataset = self._sampler.epoch, self._sampler.dataset
        return float(epoch + 1) if self._epoch_is_over() else epoch + self._trained() / len(dataset)

    def _epoch_is_over(self) -> bool:
        """Whether the last step was the last of its epoch, and is not counted yet."""
        left = len(self._sampler.dataset) - self._trained()
        return left < (self._sampler.global_batch if self._drops_last else 1)

    def _trained(self) -> int:
        """Trained samples of this epoch, including a step that is done and not counted yet."""
        return self._sampler.completed + (self._sampler.global_batch if self._step_done else 0)


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
            warn_if_uneven(
                global_batch,
                micro_batch=args.train_batch_size,
                world=args.world_size,
                accumulated=args.gradient_accumulation_steps,
            )
    sampler = elastic_sampler(trainer)
    rest = RemainderSampler(sampler)
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
