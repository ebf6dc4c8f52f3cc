"""The plan of a loader's next iteration: each global batch, and one rank's passes in it.

A DataLoader's own iterator does not say where a global batch ends, and its workers read ahead. The
object that cuts its batches (an elastic sampler, or the batches of a ShardedDataset) knows both,
and knows the same on all ranks, so ranks agree without communication.

A pass is one forward and backward of a micro-batch. The gradient of a step must be the mean over
the ``n`` samples of its global batch, on any number ``W`` of ranks. The wrapper (DDP, FSDP) takes
the mean over ranks of what each accumulated, so the mean loss of a micro-batch of ``m`` samples
has the weight ``m * W / n``:

    1/W * sum over ranks, passes of (m * W / n) * mean over m  =  1/n * sum over all samples

Every rank takes at least one pass, because gradients are synchronized in the last one. A rank
without samples takes a *filler*: a pass of weight 0. Leased data has a *stand-in* for such a rank,
which comes out of the loader like its other batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from resile.train.batch.errors import BatchMistake
from resile.train.data.samplers.batching import share_of
from resile.train.data.samplers.elastic_samplers import ElasticBatchSampler, ElasticSampler
from resile.train.data.sharded.dataset import Pace, ShardedBatches

__all__ = [
    "BatchSource",
    "Pass",
    "StepPlan",
    "batch_source_of",
    "plan_step",
    "plan_steps",
]


@dataclass(frozen=True, kw_only=True)
class Pass:
    """A forward and backward."""

    samples: int
    """Samples in its micro-batch; 0 for a filler."""

    last: bool
    """Whether gradients are synchronized in it."""

    @property
    def filler(self) -> bool:
        return not self.samples


@dataclass(frozen=True, kw_only=True)
class StepPlan:
    """A rank's part in a global batch."""

    samples: int
    """Of all ranks."""

    world: int
    passes: tuple[Pass, ...]
    stand_in: bool = False
    """Whether the loader has a batch for this rank although it has no samples."""

    def weight_of_sum(self) -> float:
        """The factor for a sum over samples' losses."""
        return self.world / self.samples


def plan_step(
    samples: int,
    world: int,
    *,
    rank: int,
    micro_batch: int | None,
    equal_passes: bool,
    stand_ins: bool = False,
) -> StepPlan:
    """Plan a global batch of ``samples``.

    With ``equal_passes`` all ranks take as many passes as the one with the most. ``stand_ins``: the
    loader yields one batch also for a rank without samples.
    """
    start, stop = share_of(samples, world, rank=rank)
    sizes = _pieces(stop - start, micro_batch)
    largest = share_of(samples, world, rank=0)[1]
    wanted = len(_pieces(largest, micro_batch)) if equal_passes else 1
    sizes += [0] * (wanted - len(sizes))
    return StepPlan(
        samples=samples,
        world=world,
        passes=tuple(
            Pass(samples=size, last=number == len(sizes)) for number, size in enumerate(sizes, 1)
        ),
        stand_in=stand_ins and start == stop,
    )


def _pieces(share: int, micro_batch: int | None) -> list[int]:
    """The sizes of a share's micro-batches: all full but the last."""
    each = micro_batch or max(share, 1)
    whole, rest = divmod(share, each)
    return [each] * whole + [rest] * bool(rest)


BatchSource: TypeAlias = ElasticBatchSampler | ElasticSampler | ShardedBatches


def batch_source_of(loader: Any) -> BatchSource:
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


def plan_steps(source: BatchSource, *, equal_passes: bool) -> Iterator[StepPlan]:
    """Return this rank's part of each global batch of an iteration that starts right after."""
    leased = isinstance(source, ShardedBatches)
    micro_batch = None if isinstance(source, ElasticSampler) else source.micro_batch
    return (
        plan_step(
            count,
            source.num_replicas,
            rank=source.rank,
            micro_batch=micro_batch,
            equal_passes=equal_passes,
            stand_ins=leased,
        )
        for count in source.sizes_ahead()
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
