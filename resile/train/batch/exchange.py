"""When the ranks exchange gradients: in the last pass of a step and in no other.

DDP and FSDP2 each have their own switch for it, and their own collectives inside of a pass:

- DDP broadcasts buffers, and once rebuilds its buckets, in the first forward of a step. Every rank
  has a first forward in every step, so ranks may take different numbers of passes.
- FSDP2 gathers parameters in every pass, and SyncBatchNorm gathers statistics in every forward.
  There all ranks must take the same number of passes.

What can go wrong: a model with collectives of its own in its forward that is not known here hangs
when passes are unequal. The trainer's ``passes="equal"`` is for it.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, ClassVar

import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from resile.train.batch.errors import BatchMistake

__all__ = ["Exchange", "exchange_of", "has_collective_forward"]


class Exchange(ABC):
    """How a model's gradients become the mean over ranks."""

    equal_passes: ClassVar[bool] = False
    """Whether all ranks have to take the same number of passes, whatever is in the model."""

    world: int | None = None
    """Ranks that gradients are averaged over; None if only the script's author knows."""

    group: Any = None
    """The process group of those ranks; None for the default one."""

    @abstractmethod
    @contextmanager
    def during(self, *, last: bool) -> Iterator[None]:
        """One pass: exchange gradients only if it is the last."""

    def mean(self, value: Any) -> Any:
        """The mean over ranks of a small tensor. A collective: all ranks call it."""
        dist.all_reduce(value, group=self.group)
        return value / dist.get_world_size(self.group)


class Alone(Exchange):
    """One process: there is nobody to exchange with."""

    world = 1

    @contextmanager
    def during(self, *, last: bool) -> Iterator[None]:  # noqa: ARG002
        yield

    def mean(self, value: Any) -> Any:
        return value


class Replicated(Exchange):
    """DistributedDataParallel."""

    def __init__(self, model: Any) -> None:
        if model.static_graph:
            raise BatchMistake(
                "DistributedDataParallel(static_graph=True) cannot accumulate: "
                "its first pass has to exchange gradients. Leave static_graph out"
            )
        self._model = model
        self.group = model.process_group
        self.world = self.group.size()

    @contextmanager
    def during(self, *, last: bool) -> Iterator[None]:
        with nullcontext() if last else self._model.no_sync():
            yield


class Sharded(Exchange):
    """FSDP2: modules that ``fully_shard`` was applied to.

    Gradients are kept whole, not sharded, until the last pass. The mesh may have other dimensions
    than data parallelism, so its size says nothing about the number of shares.
    """

    equal_passes = True

    def __init__(self, modules: list[Any]) -> None:
        self._modules = modules

    @contextmanager
    def during(self, *, last: bool) -> Iterator[None]:
        self._synchronise(last)
        try:
            yield
        finally:
            self._synchronise(True)

    def _synchronise(self, last: bool) -> None:
        for module in self._modules:
            module.set_requires_gradient_sync(last, recurse=False)
            module.set_is_last_backward(last)


def exchange_of(model: Any) -> Exchange:
    """How this model's gradients are averaged. Raises :class:`BatchMistake`."""
    inner = getattr(model, "_orig_mod", model)  # torch.compile wraps the wrapper
    if isinstance(inner, DistributedDataParallel):
        return Replicated(inner)
    if isinstance(inner, _fsdp_class("FullyShardedDataParallel")):
        raise BatchMistake(
            "the model is wrapped in FullyShardedDataParallel (FSDP1), which is not supported: "
            "use torch.distributed.fsdp.fully_shard"
        )
    fsdp2 = _fsdp_class("FSDPModule")
    if sharded := [module for module in inner.modules() if isinstance(module, fsdp2)]:
        return Sharded(sharded)
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        raise BatchMistake(
            f"nothing averages the gradients of {type(inner).__name__} over the "
            f"{dist.get_world_size()} ranks: wrap it in DistributedDataParallel or apply "
            "fully_shard to it"
        )
    return Alone()


def _fsdp_class(name: str) -> Any:
    """A class of torch's FSDP; a script that has not imported it (which takes a second) has none.

    FSDPModule has its place there since torch 2.6.
    """
    return getattr(sys.modules.get("torch.distributed.fsdp"), name, ())


def has_collective_forward(model: Any) -> bool:
    """Whether a forward of this model waits for the other ranks' forwards."""
    return any(isinstance(module, nn.SyncBatchNorm) for module in model.modules())
