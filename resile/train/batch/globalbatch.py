"""One global batch, as one rank sees it: its micro-batches, in passes that exchange at the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from resile.train.batch.errors import BatchMistake, PlanBroken
from resile.train.batch.exchange import Exchange
from resile.train.batch.plan import Pass, StepPlan

__all__ = ["GlobalBatch"]

_NOTHING = object()


class GlobalBatch:
    """Iterate over it once; each micro-batch wants one ``trainer.backward``."""

    def __init__(
        self, plan: StepPlan, exchange: Exchange, *, loader: Any, batches: Iterator[Any]
    ) -> None:
        self.plan = plan
        self._exchange = exchange
        self._loader = loader
        self._batches = batches
        self._current: Pass | None = None
        self._begun = self._taken = 0

    @property
    def samples(self) -> int:
        """How many samples it has on all ranks together."""
        return self.plan.samples

    @property
    def whole(self) -> bool:
        """Whether the gradient is complete: the mean over all samples, the same on all ranks."""
        return self._taken == len(self.plan.passes)

    @property
    def filling(self) -> bool:
        """Whether the current micro-batch weighs nothing; leave it out of counts of your own."""
        return self._current is not None and self._current.filler

    def __iter__(self) -> Iterator[Any]:
        if self._begun:
            raise BatchMistake("a global batch can be gone through only once")
        if self.plan.stand_in:
            self._next()  # taken from the loader, so that what comes after it is in its place
        for planned in self.plan.passes:
            batch = self._filler() if planned.filler else self._next()
            with self._exchange.during(last=planned.last):
                self._current = planned
                self._begun += 1
                yield batch
            if self._taken < self._begun:
                raise BatchMistake(
                    "a micro-batch was left without backward: "
                    "call trainer.backward(loss) once for each"
                )

    def begin_backward(self) -> Pass:
        """The pass that is going to be backward; each can be taken once."""
        if self._current is None or self._taken == self._begun:
            raise BatchMistake(
                "trainer.backward(loss) is called once for each micro-batch, "
                "inside of the loop over them"
            )
        self._taken += 1
        return self._current

    def _next(self) -> Any:
        batch = next(self._batches, _NOTHING)
        if batch is _NOTHING:
            raise PlanBroken("the loader ended before its sampler's epoch did")
        return batch

    def _filler(self) -> Any:
        """Any samples will do, as their loss weighs nothing; two, as BatchNorm refuses one."""
        dataset = self._loader.dataset
        sample = dataset[getattr(dataset, "any_index", 0)]
        return self._loader.collate_fn([sample, sample])
