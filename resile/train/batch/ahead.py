"""What a loader is going to give: the global batches of its next iteration, planned.

A DataLoader's own iterator says nothing about where a global batch ends, and its workers read
ahead. Whatever cuts its batches (an elastic sampler, or the batches of a ShardedDataset) knows
both, the same on all ranks, so ranks agree without a word.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from resile.train.batch.errors import BatchMistake
from resile.train.batch.plan import StepPlan, plan_step
from resile.train.data.batches import ElasticBatchSampler
from resile.train.data.sampler import ElasticSampler
from resile.train.data.sharded import Pace, ShardedBatches

__all__ = ["Cutter", "cutter_of", "plans"]

Cutter: TypeAlias = ElasticBatchSampler | ElasticSampler | ShardedBatches


def cutter_of(loader: Any) -> Cutter:
    """What cuts this loader's batches. Raises :class:`BatchMistake`."""
    batch_sampler = getattr(loader, "batch_sampler", None)
    if isinstance(batch_sampler, ElasticBatchSampler):
        return batch_sampler
    if isinstance(batch_sampler, ShardedBatches):
        return _in_step(batch_sampler)
    sampler = getattr(loader, "sampler", None)
    if not isinstance(sampler, ElasticSampler):
        raise BatchMistake(
            "the loader has no elastic sampler: "
            "DataLoader(data, batch_sampler=ElasticBatchSampler(data, global_batch=...)), or the "
            "loader of a ShardedDataset"
        )
    return _alike(sampler, loader)


def plans(cutter: Cutter, *, equal_passes: bool) -> Iterator[StepPlan]:
    """This rank's part in each global batch of an iteration that is begun right after this."""
    leased = isinstance(cutter, ShardedBatches)
    micro_batch = None if isinstance(cutter, ElasticSampler) else cutter.micro_batch
    return (
        plan_step(
            count,
            cutter.num_replicas,
            rank=cutter.rank,
            micro_batch=micro_batch,
            equal_passes=equal_passes,
            stand_ins=leased,
        )
        for count in cutter.sizes_ahead()
    )


def _in_step(batches: ShardedBatches) -> ShardedBatches:
    if batches.pace is Pace.APART:
        raise BatchMistake(
            "the loader's pace=Pace.APART lets ranks run out of data at different times, and a "
            "global batch is one of all ranks: leave it at Pace.TOGETHER"
        )
    return batches


def _alike(sampler: ElasticSampler, loader: Any) -> ElasticSampler:
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
