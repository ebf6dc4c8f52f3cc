"""One rank's passes in one global batch, with their weights. Pure.

A pass is one forward and backward of a micro-batch. The gradient of a step must be the mean over
the ``n`` samples of its global batch, on any number ``W`` of ranks. The wrapper (DDP, FSDP) takes
the mean over ranks of what each accumulated, so the mean loss of a micro-batch of ``m`` samples has
the weight ``m * W / n``:

    1/W * sum over ranks, passes of (m * W / n) * mean over m  =  1/n * sum over all samples

Every rank takes at least one pass, because gradients are synchronized in the last one. A rank
without samples takes a *filler*: a pass of weight 0. Leased data has a *stand-in* for such a rank,
which comes out of the loader like its other batches.
"""

from __future__ import annotations

from dataclasses import dataclass

from resile.train.data.cut import share_of

__all__ = ["Pass", "StepPlan", "plan_step"]


@dataclass(frozen=True, kw_only=True)
class Pass:
    """One forward and backward."""

    samples: int
    """Samples in its micro-batch; 0 for a filler."""

    last: bool
    """Whether gradients are synchronized in it."""

    @property
    def filler(self) -> bool:
        return not self.samples


@dataclass(frozen=True, kw_only=True)
class StepPlan:
    """One rank's part in a global batch."""

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
