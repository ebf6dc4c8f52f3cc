"""One rank's view of a global batch: its micro-batches, with gradient sync in the last pass."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from resile.train.batch.errors import BatchMistake, PlanBroken
from resile.train.batch.exchange import Exchange
from resile.train.batch.plan import Pass, StepPlan

__all__ = ["GlobalBatch"]

_NOTHING = object()


class GlobalBatch:
    """One rank's micro-batches. Iterated once; each needs one ``trainer.backward``."""

    def __init__(
        self, plan: StepPlan, grad_sync: Exchange, *, loader: Any, batches: Iterator[Any]
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
