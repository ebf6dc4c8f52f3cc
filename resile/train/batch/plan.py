"""What one rank does in one global batch: how many passes, and what each weighs. Pure.

A pass is one forward and backward of a micro-batch. The gradient of a step is to be the mean over
the ``n`` samples of its global batch, on whatever ``W`` ranks. The wrapper (DDP, FSDP) gives the
mean over ranks of what each accumulated, so the mean loss of a micro-batch of ``m`` samples weighs
``m * W / n``:

    1/W * sum over ranks, passes of (m * W / n) * mean over m  =  1/n * sum over all samples

Every rank takes at least one pass, as the exchange of gradients happens in the last one. A rank
without samples takes a *filler*: a pass that weighs nothing. Leased data has a *stand-in* for such
a rank, which comes out of the loader as its other batches do.
"""

from __future__ import annotations

from dataclasses import dataclass

from resile.train.data.cut import share_of

__all__ = ["Pass", "StepPlan", "plan_step"]


@dataclass(frozen=True, kw_only=True)
class Pass:
    """One forward and backward."""

    samples: int
    """Samples in its micro-batch; 0 if it only fills up."""

    last: bool
    """Whether gradients are exchanged in it."""

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
        """What the sum over some samples' losses is multiplied with."""
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
    """The plan for a global batch of ``samples``.

    With ``equal_passes`` all ranks take as many passes as the one with the most. ``stand_ins``: the
    loader gives a rank without samples one batch all the same.
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
