"""Check that the DataLoader around a sampler cuts the batches that the sampler counts.

A DataLoader passes nothing to its sampler; its BatchSampler requests an iterator, and that is the
moment in which the two can be compared.
"""

from __future__ import annotations

from types import FrameType
from typing import Any

from torch.utils.data import BatchSampler

from resile.train.data.errors import DataMistake

__all__ = ["check_batch_size"]


def check_batch_size(sampler: Any, caller: FrameType | None) -> None:
    """Raise DataMistake if ``caller`` is a BatchSampler over ``sampler`` with different batches.

    ``caller``: the frame that requested the iterator.
    """
    asks = caller.f_locals.get("self") if caller is not None else None
    if not isinstance(asks, BatchSampler) or asks.sampler is not sampler:
        return
    if asks.batch_size != sampler.batch_size:
        raise DataMistake(
            f"the DataLoader's batch_size={asks.batch_size} differs from its sampler's "
            f"batch_size={sampler.batch_size}, which counts a training step: set both to the same "
            "number. If a step has several batches, use ElasticBatchSampler(dataset, "
            "global_batch=..., micro_batch=...) as batch_sampler="
        )
    if asks.drop_last and sampler.has_uneven_end:
        raise DataMistake(
            "the DataLoader's drop_last=True drops samples on some ranks only, and these would "
            "count as trained: set drop_last=True on the ElasticSampler instead"
        )
