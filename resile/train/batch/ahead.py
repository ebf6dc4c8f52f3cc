"""The plan of a loader's next iteration: the global batches it is going to yield.

A DataLoader's own iterator does not say where a global batch ends, and its workers read ahead. The
object that cuts its batches (an elastic sampler, or the batches of a ShardedDataset) knows both,
and knows the same on all ranks, so ranks agree without communication.
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
    """Return the object that cuts this loader's batches. Raises :class:`BatchMistake`."""
    batch_sampler = getattr(loader, "batch_sampler", None)
    if isinstance(batch_sampler, ElasticBatchSampler):
        return batch_sampler
    if isinstance(batch_sampler, ShardedBatches):
        return _in_step(batch_sampler)
    sampler = getattr(loader, "sampler", None)
    if not isinstance(sampler, ElasticSampler):
        raise BatchMistake(
            "the loader has no elastic sampler: use "
            "DataLoader(data, batch_sampler=ElasticBatchSampler(data, global_batch=...)), or the "
            "loader of a ShardedDataset"
        )
    return _alike(sampler, loader)


def plans(cutter: Cutter, *, equal_passes: bool) -> Iterator[StepPlan]:
    """Return this rank's part of each global batch of an iteration that starts right after."""
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
            "global batch needs all ranks: use Pace.TOGETHER"
        )
    return batches


def _alike(sampler: ElasticSampler, loader: Any) -> ElasticSampler:
    if loader.batch_size != sampler.batch_size:
        raise BatchMistake(
            f"the loader's batch_size={loader.batch_size} differs from its sampler's "
            f"batch_size={sampler.batch_size}: they must be equal"
        )
    if loader.drop_last:
        raise BatchMistake(
            "the loader's drop_last=True drops samples on some ranks only: "
            "set it on the sampler instead"
        )
    return sampler
