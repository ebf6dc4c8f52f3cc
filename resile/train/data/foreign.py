"""What other libraries' trainers need to train on elastic data: their loaders, in our order.

Such a trainer has a loader of its own making, a size of micro batches, and a way to accumulate
gradients. From these follow the global batch and a loader that differs in the order alone.

The loader also says when the trainer wants the next batch. That is the one moment in which
everything that belongs to the batch before it is done (hooks, logs, validation, the epoch's end)
and nothing of the next is begun: the moment to save.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Protocol

from torch.utils.data import DataLoader, IterableDataset, Sampler

from resile.train.data.errors import DataMistake

__all__ = [
    "Boundaries",
    "ElasticLoader",
    "accumulation_for",
    "check_indexed",
    "say_if_uneven",
    "say_nothing_left",
]


def check_indexed(dataset: Any, *, name: str) -> None:
    """Raises DataMistake for data in which there is no place to come back to."""
    if dataset is None or isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
        raise DataMistake(
            f"{name} has to have a length and indices (no IterableDataset): only then is there a "
            "place in it to come back to"
        )


def accumulation_for(global_batch: int, *, micro_batch: int, world: int) -> int:
    """Micro batches of each worker in an update, so that it comes closest to ``global_batch``."""
    if global_batch < 1:
        raise DataMistake(f"global_batch={global_batch} has to be at least 1")
    return max(1, round(global_batch / (micro_batch * world)))


def say_if_uneven(global_batch: int, *, micro_batch: int, world: int, accumulated: int) -> None:
    """Say what an update has instead, if it cannot have what was asked for."""
    found = micro_batch * accumulated * world
    if found != global_batch:
        print(
            f"resile: global_batch={global_batch} cannot be cut into micro batches of "
            f"{micro_batch} for {world} workers; it is {found} now",
            file=sys.stderr,
            flush=True,
        )


def say_nothing_left(step: int, *, speaks: bool) -> None:
    """A training that was complete before is not trained again, which looks like a mistake."""
    if speaks:
        print(
            f"resile: training was complete at step {step}: nothing is left to do",
            file=sys.stderr,
            flush=True,
        )


class Boundaries(Protocol):
    """Who is told where training is in the loader."""

    def epoch_wanted(self) -> None:
        """An epoch is about to be read."""

    def batch_wanted(self) -> None:
        """A batch is about to be read."""


class ElasticLoader(DataLoader):  # type: ignore[misc]  # torch is not followed by mypy
    """Reads as another loader does, but in our order, and says when it is asked for more."""

    def __init__(
        self, like: Any, *, batch_size: int, sampler: Sampler, boundaries: Boundaries
    ) -> None:
        super().__init__(like.dataset, batch_size=batch_size, sampler=sampler, **_options(like))
        self._boundaries = boundaries

    def __iter__(self) -> Iterator[Any]:
        """Nothing is begun before the first batch is asked for."""
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
    """Arguments for a DataLoader that reads as ``like`` does, whatever its order and batches."""
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
