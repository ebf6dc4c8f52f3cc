"""What a loader is going to give: the global batches of its next iteration, planned.

A DataLoader's own iterator says nothing about where a global batch ends, and its workers read
ahead. Its sampler knows both, the same on all ranks, so ranks agree without a word.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from resile.train.batch.errors import BatchMistake
from resile.train.batch.plan import StepPlan, plan_step
from resile.train.data.batches import ElasticBatchSampler
from resile.train.data.elastic import ElasticWalk
from resile.train.data.sampler import ElasticSampler

__all__ = ["plans", "sampler_of"]


def sampler_of(loader: Any) -> ElasticWalk:
    """The elastic sampler of this loader. Raises :class:`BatchMistake`."""
    batch_sampler = getattr(loader, "batch_sampler", None)
    if isinstance(batch_sampler, ElasticBatchSampler):
        return batch_sampler
    sampler = getattr(loader, "sampler", None)
    if not isinstance(sampler, ElasticSampler):
        raise BatchMistake(
            "the loader has no elastic sampler: "
            "DataLoader(data, batch_sampler=ElasticBatchSampler(data, global_batch=...))"
        )
    if loader.batch_size != sampler.batch_size:
        raise BatchMistake(
            f"the loader's batch_size={loader.batch_size} is not its sampler's "
            f"batch_size={sampler.batch_size}: give both the same"
        )
    if loader.drop_last:
        raise BatchMistake(
            "drop_last=True of the loader drops samples on some ranks only: "
            "give it to the sampler instead"
        )
    return sampler


def plans(sampler: ElasticWalk, *, equal_passes: bool) -> Iterator[StepPlan]:
    """This rank's part in each global batch of an iteration that is begun right after this."""
    micro_batch = getattr(sampler, "micro_batch", None)
    return (
        plan_step(
            count,
            sampler.num_replicas,
            rank=sampler.rank,
            micro_batch=micro_batch,
            equal_passes=equal_passes,
        )
        for count in sampler.sizes_ahead()
    )
