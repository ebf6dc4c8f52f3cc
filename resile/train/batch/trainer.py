"""ElasticTrainer: the same gradient at any world size.

    loader = DataLoader(data, batch_sampler=ElasticBatchSampler(data, global_batch=128))
    trainer = ElasticTrainer(model, optimizer)

    for batches in trainer.steps(loader):
        for x, y in batches:
            trainer.backward(loss_fn(model(x), y))
        trainer.step()

``steps`` iterates over the global batches, ``batches`` over this rank's micro-batches of one.
``backward`` weights, accumulates, and synchronizes gradients in the last pass. After the inner loop
the gradient on every rank is the mean over the samples of the whole global batch: clip it, inspect
it, or let ``step`` apply it.

What can go wrong: a forward with gradients outside the inner loop belongs to no pass. Its gradient
is not weighted, and with DDP it may start a collective that the other ranks do not join.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any, Literal, get_args

import torch
from torch.nn.utils import clip_grad_norm_

from resile.train.batch.errors import BatchMistake, PlanBroken
from resile.train.batch.grad_sync import GradSync, grad_sync_of, has_collective_forward
from resile.train.batch.learning_rate import scaled
from resile.train.batch.loader_plan import Pass, StepPlan, batch_source_of, plan_steps

__all__ = [
    "ElasticTrainer",
    "GlobalBatch",
    "LossSum",
]


_NOTHING = object()


class GlobalBatch:
    """A rank's micro-batches. Iterated once; each needs one ``trainer.backward``."""

    def __init__(
        self, plan: StepPlan, grad_sync: GradSync, *, loader: Any, batches: Iterator[Any]
    ) -> None:
        self.plan = plan
        self._grad_sync = grad_sync
        self._loader = loader
        self._batches = batches
        self._current: Pass | None = None
        self._begun = self._taken = 0

    @property
    def samples(self) -> int:
        """Number of samples on all ranks together."""
        return self.plan.samples

    @property
    def whole(self) -> bool:
        """Whether the gradient is complete: the mean over all samples, the same on all ranks."""
        return self._taken == len(self.plan.passes)

    @property
    def filling(self) -> bool:
        """Whether the current micro-batch has weight 0; exclude it from your own counts."""
        return self._current is not None and self._current.filler

    def __iter__(self) -> Iterator[Any]:
        if self._begun:
            raise BatchMistake("a global batch can be iterated only once")
        if self.plan.stand_in:
            self._next()  # consumed, so that the next batches of the loader line up
        for planned in self.plan.passes:
            batch = self._filler() if planned.filler else self._next()
            with self._grad_sync.during(last=planned.last):
                self._current = planned
                self._begun += 1
                yield batch
            if self._taken < self._begun:
                raise BatchMistake(
                    "a micro-batch has had no backward: call trainer.backward(loss) once for each"
                )

    def begin_backward(self) -> Pass:
        """Return the pass whose backward is about to run; each can be taken once."""
        if self._current is None or self._taken == self._begun:
            raise BatchMistake(
                "trainer.backward(loss) is called once for each micro-batch, "
                "inside the loop over them"
            )
        self._taken += 1
        return self._current

    def _next(self) -> Any:
        batch = next(self._batches, _NOTHING)
        if batch is _NOTHING:
            raise PlanBroken("the loader ended before its sampler's epoch did")
        return batch

    def _filler(self) -> Any:
        """Any samples will do, as their loss has weight 0; two, as BatchNorm refuses one."""
        dataset = self._loader.dataset
        sample = dataset[getattr(dataset, "any_index", 0)]
        return self._loader.collate_fn([sample, sample])


class LossSum:
    """The sums of one step on one rank."""

    def __init__(self, grad_sync: GradSync) -> None:
        self._grad_sync = grad_sync
        self._loss: Any = None
        self._count: Any = None
        self._factor: Any = 1.0
        self._mean: float | None = None

    def add(self, loss: Any, weight: Any, *, count: Any) -> None:
        """Add one pass; a filler's loss is ignored, it may be anything."""
        dtype = _precise(loss)
        if self._loss is None:
            self._loss, self._count = loss.new_zeros((2,), dtype=dtype)
        if weight is not None:
            self._loss = self._loss + loss.detach().to(dtype) * weight
            self._count = self._count + count

    def rescaled(self, expected: int, *, world: int) -> Any:
        """Return the factor that makes the gradient the mean over all counts.

        A collective. With a total count of 0 the factor is 0.
        """
        total = self._grad_sync.mean(self._count.clone()) * world
        self._factor = torch.where(total > 0, expected / total, torch.zeros_like(total))
        return self._factor

    def mean_loss(self) -> float:
        """Return the loss over the whole global batch. A collective on its first call."""
        if self._mean is None:
            self._mean = float(self._grad_sync.mean(self._loss.clone()) * self._factor)
        return self._mean


def _precise(loss: Any) -> Any:
    return torch.float32 if loss.device.type == "mps" else torch.float64


Reduction = Literal["mean", "sum"]
MeanOver = Literal["samples", "counts"]
Passes = Literal["auto", "equal"]


class ElasticTrainer:
    """Trains whole global batches, on any number of ranks.

    ``reduction`` is how the script's loss combines the samples of a micro-batch: their mean, or
    their sum. With ``mean_over="counts"`` the gradient is the mean over something other than
    samples, such as tokens: ``backward`` takes the ``count`` of each micro-batch. That adds one
    small collective per step. Prefer ``reduction="sum"`` with it: the mean of a micro-batch with a
    count of 0 is not a number.

    ``scaler`` is a ``torch.amp.GradScaler``. ``learning_rate`` returns the factor of the learning
    rate for a global batch, see :class:`LinearScaling`. ``passes="equal"`` is for models whose
    forward waits for other ranks; FSDP2 and SyncBatchNorm are detected.
    """

    def __init__(
        self,
        model: Any,
        optimizer: Any,
        *,
        reduction: Reduction = "mean",
        mean_over: MeanOver = "samples",
        scaler: Any = None,
        learning_rate: Callable[[int], float] | None = None,
        passes: Passes = "auto",
    ) -> None:
        _check("reduction", reduction, get_args(Reduction))
        _check("mean_over", mean_over, get_args(MeanOver))
        _check("passes", passes, get_args(Passes))
        self.model, self.optimizer, self.scaler = model, optimizer, scaler
        self._reduction, self._mean_over = reduction, mean_over
        self._learning_rate = learning_rate
        self._grad_sync = grad_sync_of(model)
        self._equal_passes = (
            passes == "equal" or self._grad_sync.equal_passes or has_collective_forward(model)
        )
        self._open: GlobalBatch | None = None
        self._loss_sum: LossSum | None = None
        self._batch_size = 0

    def steps(self, loader: Any) -> Iterator[GlobalBatch]:
        """Iterate over the remaining global batches of the epoch, equally many on all ranks."""
        source = batch_source_of(loader)
        self._check_world(source.num_replicas)
        self._batch_size = source.global_batch
        ahead = plan_steps(source, equal_passes=self._equal_passes)
        batches = iter(loader)
        for plan in ahead:
            self._open = GlobalBatch(plan, self._grad_sync, loader=loader, batches=batches)
            self._loss_sum = LossSum(self._grad_sync)
            yield self._open
            self._whole()
        if next(batches, self) is not self:
            raise PlanBroken("the loader yields more batches than its sampler's epoch has")

    def backward(self, loss: Any, *, count: Any = None) -> None:
        """Add the gradient of one micro-batch, weighted by its share of the global batch.

        ``count`` is only for ``mean_over="counts"``: how many items the loss is the mean (or sum)
        over, a number or a tensor with one element.
        """
        if self._open is None or self._loss_sum is None:
            raise BatchMistake(
                "there is no current global batch: iterate over trainer.steps(loader)"
            )
        self._check_count(count)
        plan = self._open.plan
        now = self._open.begin_backward()
        counted = now.samples if count is None else count
        weight = plan.weight_of_sum() * (counted if self._reduction == "mean" else 1)
        weighted = loss * (0.0 if now.filler else weight)
        (weighted if self.scaler is None else self.scaler.scale(weighted)).backward()
        self._loss_sum.add(loss, None if now.filler else weight, count=counted)
        if now.last and self._mean_over == "counts":
            self._rescale(self._loss_sum.rescaled(plan.samples, world=plan.world))

    def clip(self, max_norm: float, **options: Any) -> Any:
        """Clip the whole gradient by its norm, after unscaling it; returns the norm before.

        Called after the loop over the micro-batches; ``options`` are ``clip_grad_norm_``'s.
        """
        self._whole()
        if self.scaler is not None:
            self.scaler.unscale_(self.optimizer)
        return clip_grad_norm_(self.model.parameters(), max_norm, **options)

    def step(self) -> None:
        """Apply the gradient and clear it. A script may also do both itself."""
        self._whole()
        rule = self._learning_rate
        with scaled(self.optimizer, rule, batch=self._batch_size) if rule else nullcontext():
            if self.scaler is None:
                self.optimizer.step()
            else:
                self.scaler.step(self.optimizer)
                self.scaler.update()
        self.optimizer.zero_grad()

    def loss(self) -> float:
        """Return the mean loss over the last global batch, on all ranks.

        Waits for the other ranks and for the device: all ranks call it, or none; it need not be
        called in every step.
        """
        self._whole()
        assert self._loss_sum is not None
        return self._loss_sum.mean_loss()

    def _whole(self) -> None:
        if self._open is None or not self._open.whole:
            raise BatchMistake(
                "the global batch is not complete: iterate over all of its micro-batches and call "
                "trainer.backward(loss) for each"
            )

    def _rescale(self, factor: Any) -> None:
        for group in self.optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.grad.mul_(factor)

    def _check_world(self, shares: int) -> None:
        if self._grad_sync.world not in (None, shares):
            raise BatchMistake(
                f"the sampler cuts a global batch into {shares} shares, but gradients are averaged "
                f"over {self._grad_sync.world} ranks: set num_replicas={self._grad_sync.world} on "
                "the sampler (or the ShardedDataset)"
            )

    def _check_count(self, count: Any) -> None:
        if (count is None) == (self._mean_over == "counts"):
            raise BatchMistake(
                'mean_over="counts" needs trainer.backward(loss, count=...)'
                if count is None
                else 'count= is for mean_over="counts": ElasticTrainer(..., mean_over="counts")'
            )


def _check(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise BatchMistake(f"{name}={value!r} must be one of {', '.join(map(repr, allowed))}")
