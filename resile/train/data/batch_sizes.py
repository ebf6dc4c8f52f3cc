"""Whether the DataLoader around a sampler cuts the batches that the sampler counts.

A DataLoader does not tell its sampler anything; its BatchSampler asks the sampler for an iterator,
and that is the moment in which the two can be compared.
"""

from __future__ import annotations

from types import FrameType
from typing import Any

from torch.utils.data import BatchSampler

from resile.train.data.errors import DataMistake

__all__ = ["check_batch_size"]


def check_batch_size(sampler: Any, caller: FrameType | None) -> None:
    """Raises DataMistake if ``caller`` is a BatchSampler over ``sampler`` that cuts other batches.

    ``caller``: the frame that asked for the iterator.
    """
    asks = caller.f_locals.get("self") if caller is not None else None
    if not isinstance(asks, BatchSampler) or asks.sampler is not sampler:
        return
    if asks.batch_size != sampler.batch_size:
        raise DataMistake(
            f"the DataLoader's batch_size={asks.batch_size} is not its sampler's "
            f"batch_size={sampler.batch_size}, by which a training step is counted: give both the "
            "same number. Where a step is several batches, use ElasticBatchSampler(dataset, "
            "global_batch=..., micro_batch=...) as batch_sampler="
        )
    if asks.drop_last and sampler.has_uneven_end:
        raise DataMistake(
            "drop_last=True of the DataLoader drops samples on some ranks only, and these would "
            "count as trained: give drop_last=True to the ElasticSampler instead"
        )
