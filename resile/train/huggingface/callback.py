"""The callback that restores when training begins and saves between two steps when due.

A state is saved when the next batch is requested, not when the last step ends: by then its log, its
evaluation (with the best metric, and the patience of early stopping) and the Trainer's own save are
done and part of it. A crash before that trains the step again, and evaluates it again.

The Trainer computes its plan (steps of an epoch, total steps) before any callback is called, as if
it started from step 0. After restoring, the callback corrects what the Trainer reads later: the
total number of steps, and the step from which the logged loss is averaged.
"""

from __future__ import annotations

import math
from typing import Any

from transformers import TrainerCallback

from resile.train.checkpoint.checkpointer import Checkpointer
from resile.train.checkpoint.choosing import Source
from resile.train.checkpoint.rng import random_states, set_random_states
from resile.train.data import ElasticSampler
from resile.train.data.foreign import say_nothing_left
from resile.train.huggingface.data import Rest
from resile.train.huggingface.errors import TrainerMistake
from resile.train.huggingface.record import TrainerRecord
from resile.train.progress import report

__all__ = ["ElasticCallback"]


class ElasticCallback(TrainerCallback):  # type: ignore[misc]  # transformers is not followed
    """Restores and saves a Trainer's state. Created by ``make_elastic``."""

    def __init__(
        self, trainer: Any, checkpointer: Checkpointer, *, sampler: ElasticSampler, rest: Rest
    ) -> None:
        self._trainer = trainer
        self._checkpointer = checkpointer
        self._sampler = sampler
        self._rest = rest
        self._state: dict[str, Any] = {}
        self._record = TrainerRecord(trainer)
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
        if self._checkpointer.resumed.source is Source.NOWHERE:
            return
        self._random = random_states()
        self._correct_plan(args, state)
        if self._record.stopped or state.global_step >= state.max_steps:
            self._rest.over = True
            control.should_training_stop = True
            say_nothing_left(state.global_step, speaks=args.process_index == 0)

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
