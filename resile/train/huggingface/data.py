"""The Trainer's training data in an order that any number of workers can continue.

The Trainer counts batches from the beginning of an epoch, and a callback cannot change that. So the
position in the data is not the Trainer's: the loader it is given begins where training stopped, and
the epoch in which it resumed is simply shorter. For that to work every update takes the same number
of micro batches: an incomplete last one is filled up, or dropped with ``dataloader_drop_last``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sized
from typing import Any, cast

from torch.utils.data import Sampler

from resile.train.data import ElasticSampler
from resile.train.data.errors import DataMistake
from resile.train.data.foreign import check_indexed

__all__ = ["Rest", "elastic_sampler"]


class Rest(Sampler):  # type: ignore[misc]  # torch is not followed by mypy
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
