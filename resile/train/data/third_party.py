"""Elastic loaders for the trainers of other libraries.

Such a trainer has its own loader, micro batch size and gradient accumulation. From these follow the
global batch and a loader that differs only in the order.

The loader also signals when the trainer requests the next batch. That is the one moment in which
everything that belongs to the batch before it is done (hooks, logs, validation, the epoch's end)
and nothing of the next has begun: the moment to save.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Protocol

from torch.utils.data import DataLoader, IterableDataset, Sampler

from resile.train.data.errors import DataMistake

__all__ = [
    "LoaderEvents",
    "ElasticLoader",
    "accumulation_for",
    "check_indexed",
    "warn_if_uneven",
    "print_nothing_left",
]


def check_indexed(dataset: Any, *, name: str) -> None:
    """Raise DataMistake for a dataset without positions to resume from."""
    if dataset is None or isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
        raise DataMistake(
            f"{name} must have a length and indices (an IterableDataset has none): else there is "
            "no position in it to resume from"
        )


def accumulation_for(global_batch: int, *, micro_batch: int, world: int) -> int:
    """Return the micro batches per worker and update that come closest to ``global_batch``."""
    if global_batch < 1:
        raise DataMistake(f"global_batch={global_batch} must be at least 1")
    return max(1, round(global_batch / (micro_batch * world)))


def warn_if_uneven(global_batch: int, *, micro_batch: int, world: int, accumulated: int) -> None:
    """Print the actual size of an update, if it cannot be ``global_batch``."""
    found = micro_batch * accumulated * world
    if found != global_batch:
        print(
            f"resile: global_batch={global_batch} cannot be divided into micro batches of "
            f"{micro_batch} for {world} workers; using {found}",
            file=sys.stderr,
            flush=True,
        )


def print_nothing_left(step: int, *, speaks: bool) -> None:
    """Print that training was complete before; without the message it looks like an error."""
    if speaks:
        print(
            f"resile: training was complete at step {step}: nothing is left to do",
            file=sys.stderr,
            flush=True,
        )


class LoaderEvents(Protocol):
    """Callbacks for the position of training in the loader."""

    def epoch_wanted(self) -> None:
        """Called when an epoch is about to be read."""

    def batch_wanted(self) -> None:
        """Called when a batch is about to be read."""


class ElasticLoader(DataLoader):  # type: ignore[misc]  # torch is not followed by mypy
    """Reads like another loader, but in the sampler's order, and signals each request."""

    def __init__(
        self, like: Any, *, batch_size: int, sampler: Sampler, boundaries: LoaderEvents
    ) -> None:
        super().__init__(like.dataset, batch_size=batch_size, sampler=sampler, **_options(like))
        self._boundaries = boundaries

    def __iter__(self) -> Iterator[Any]:
        """Nothing starts before the first batch is requested."""
        self._boundaries.epoch_wanted()
        batches = super().__iter__()
        while True:
            self._boundaries.batch_wanted()
            try:
                batch = next(batches)
            except StopIteration:
                return
            yield batch


def _options(like: Any) -> dict[str, Any]:
    """The arguments of ``like`` apart from its order and batches."""
    return {
        "collate_fn": like.collate_fn,
        "num_workers": like.num_workers,
        "pin_memory": like.pin_memory,
        "timeout": like.timeout,
        "worker_init_fn": like.worker_init_fn,
        "multiprocessing_context": like.multiprocessing_context,
        "prefetch_factor": like.prefetch_factor,
        "persistent_workers": like.persistent_workers,
    }
