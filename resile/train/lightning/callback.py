"""The callback that restores before training begins and saves between two batches when due.

At ``on_fit_start`` model, optimizers and schedules are built; the training data is set up right
there, and everything is restored. A state is saved when the next batch is requested, not when the
last one ends: by then validation, logs and hooks of the last one are done and part of it.

What can go wrong: random numbers. Starting an epoch draws one, and hooks may draw too. So after
resuming the random states are reset once more, exactly where they were captured: before the next
batch is read, and at the start of an epoch before the epoch is read.
"""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from typing import Any

import torch
from lightning.pytorch import Callback

from resile.train.checkpoint.checkpointer import Checkpointer
from resile.train.checkpoint.restore.select_source import RestoreSource
from resile.train.checkpoint.state.rng import random_states, set_random_states
from resile.train.data.third_party import (
    ElasticLoader,
    accumulation_for,
    print_nothing_left,
    warn_if_uneven,
)
from resile.train.lightning.checks import (
    LightningMistake,
    check_accumulation,
    check_batches,
    check_start,
    check_trainer,
    workers_launched,
)
from resile.train.lightning.data import EpochSampler, check_loader, epoch_sampler
from resile.train.lightning.state import LightningRecord, go_on_at_batch
from resile.train.progress import report

__all__ = ["ElasticCheckpoint"]

LOSS_INTERVAL = 1.0
"""Seconds between two reported losses: about as often as a node reports to its master."""


class ElasticCheckpoint(Callback):  # type: ignore[misc]  # lightning is not followed by mypy
    """Lets ``trainer.fit`` continue from the newest consistent state, at any world size.

    ``global_batch``: samples of an update over all workers; gradient accumulation is set so that it
    stays the same when the world changes. Without it an update has more samples with more
    workers. Raises DataMistake, LightningMistake.
    """

    def __init__(self, checkpointer: Checkpointer, *, global_batch: int | None = None) -> None:
        self._checkpointer = checkpointer
        self._global_batch = global_batch
        self._started = workers_launched()
        self._trainer: Any = None
        self._sampler: EpochSampler | None = None
        self._record: LightningRecord | None = None
        self._state: dict[str, Any] = {}
        self._step = 0
        self._update_done = False
        self._random: dict[str, Any] | None = None
        self._sigterm: Any = None
        self._resumed_at: int | None = None
        self._total: int | None = None
        self._loss_due = 0.0

    # --- called by Lightning ----------------------------------------------------------------

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Replace the source of the training data, before Lightning requests it."""
        del pl_module
        if stage != "fit" or trainer.fast_dev_run:
            return
        if self._trainer is not None:
            raise LightningMistake("an ElasticCheckpoint is for one fit: create a new one for each")
        check_trainer(trainer, started=self._started)
        if sum(isinstance(one, ElasticCheckpoint) for one in trainer.callbacks) > 1:
            raise LightningMistake("a Trainer can have only one ElasticCheckpoint")
        self._trainer = trainer
        self._sigterm = signal.getsignal(signal.SIGTERM)
        # Other callbacks expect their state to be restored in their on_fit_start.
        trainer.callbacks = [self, *(one for one in trainer.callbacks if one is not self)]
        source = trainer.fit_loop._data_source
        usual = source.dataloader
        source.dataloader = lambda: self._elastic(usual())

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Set up the data, the only thing not built yet, and load the newest state."""
        if self._trainer is None:
            return
        check_start(trainer)
        trainer.fit_loop.setup_data()
        if self._sampler is None:
            return  # limit_train_batches=0: nothing will be trained
        check_batches(trainer)
        self._record = LightningRecord(trainer, but=self)
        self._state = {
            "model": pl_module,
            "optimizers": list(trainer.optimizers),
            "schedulers": [config.scheduler for config in trainer.lr_scheduler_configs],
            "sampler": self._sampler.elastic,
            "trainer": self._record,
            "step": 0,
        }
        self._step = self._checkpointer.restore(self._state)
        if self._checkpointer.resumed.source is not RestoreSource.NOWHERE:
            self._random = random_states()
            self._resumed_at = trainer.global_step
            trainer.num_sanity_val_steps = 0

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Restore the SIGTERM handler. Lightning's runs a collective and continues to the end of
        the batch: a worker whose peers are gone, or that holds for a planned change, would not
        exit. The agent sends SIGTERM only when there is nothing left to do."""
        del pl_module
        self._total = _total_updates(trainer)
        main = threading.current_thread() is threading.main_thread()
        if main and self._sigterm is not None and "RESILE_SNAPSHOTS" in os.environ:
            signal.signal(signal.SIGTERM, self._sigterm)

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Mark an update as done with the last of its batches."""
        del pl_module, batch
        if self._trainer is not None and (batch_idx + 1) % trainer.accumulate_grad_batches == 0:
            self._update_done = True
            report(trainer.global_step, self._loss_of(outputs), total=self._total)

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """Save the last update: no further batch is requested."""
        del pl_module
        if self._resumed_at == trainer.global_step:
            print_nothing_left(trainer.global_step, speaks=trainer.is_global_zero)
        if self._record is not None:
            self._record.over = True
            self._count_update()

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Close; pending writes to storage still finish."""
        del pl_module
        if stage == "fit" and self._trainer is not None:
            del trainer.fit_loop._data_source.dataloader
            self._checkpointer.close()

    # --- called by the loader ---------------------------------------------------------------

    def epoch_wanted(self) -> None:
        """Set the epoch and the random states before an epoch is read."""
        self._count_update()
        assert self._sampler is not None
        self._sampler.elastic.set_epoch(self._trainer.current_epoch)
        if self._random is not None:
            set_random_states(self._random)

    def batch_wanted(self) -> None:
        """Save the update and restore the position before a batch is read."""
        self._count_update()
        if self._random is None:
            return
        assert self._sampler is not None
        if self._sampler.batches_done:
            set_random_states(self._random)
            go_on_at_batch(self._trainer, self._sampler.batches_done)
        self._random = None

    # --- internals --------------------------------------------------------------------------

    def _count_update(self) -> None:
        if self._update_done:
            self._update_done = False
            self._checkpointer.step(self._step, self._state)
            self._step += 1

    def _loss_of(self, outputs: Any) -> float | None:
        """The loss of the last batch; not of every batch, since reading it waits for the device."""
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        now = time.monotonic()
        if now < self._loss_due or not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            return None
        self._loss_due = now + LOSS_INTERVAL
        return float(loss)

    def _elastic(self, loader: Any) -> ElasticLoader:
        """Replace the loader that Lightning would have used."""
        check_loader(loader)
        trainer = self._trainer
        if self._global_batch is not None:
            self._accumulate_to(self._global_batch, micro_batch=loader.batch_size)
        self._sampler = epoch_sampler(
            loader,
            accumulated=trainer.accumulate_grad_batches,
            rank=trainer.global_rank,
            world=trainer.world_size,
        )
        return ElasticLoader(
            loader, batch_size=loader.batch_size, sampler=self._sampler, boundaries=self
        )

    def _accumulate_to(self, global_batch: int, *, micro_batch: int) -> None:
        trainer = self._trainer
        check_accumulation(trainer)
        accumulated = accumulation_for(
            global_batch, micro_batch=micro_batch, world=trainer.world_size
        )
        trainer.accumulate_grad_batches = accumulated
        if trainer.is_global_zero:
            warn_if_uneven(
                global_batch,
                micro_batch=micro_batch,
                world=trainer.world_size,
                accumulated=accumulated,
            )


def _total_updates(trainer: Any) -> int | None:
    """The total number of updates, if it is known."""
    total = trainer.estimated_stepping_batches
    single = trainer.lightning_module.automatic_optimization
    return int(total) if single and math.isfinite(total) and total > 0 else None
