"""Gradient synchronization between ranks: in the last pass of a step and in no other.

DDP and FSDP2 each have their own switch for it, and their own collectives inside a pass:

- DDP broadcasts buffers, and once rebuilds its buckets, in the first forward of a step. Every rank
  has a first forward in every step, so ranks may take different numbers of passes.
- FSDP2 gathers parameters in every pass, and SyncBatchNorm gathers statistics in every forward.
  There all ranks must take the same number of passes.

What can go wrong: a model that runs other collectives in its forward, which this module does not
know about, hangs when passes are unequal. Use the trainer's ``passes="equal"`` for it.
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

__all__ = ["GradSync", "grad_sync_of", "has_collective_forward"]


class GradSync(ABC):
    """Averages a model's gradients over ranks."""

    equal_passes: ClassVar[bool] = False
    """Whether all ranks must take the same number of passes, whatever the model contains."""

    world: int | None = None
    """Number of ranks that gradients are averaged over; None if it cannot be determined."""

    group: Any = None
    """The process group of those ranks; None for the default one."""

    @abstractmethod
    @contextmanager
    def during(self, *, last: bool) -> Iterator[None]:
        """Run one pass: synchronize gradients only if it is the last."""

    def mean(self, value: Any) -> Any:
        """Return the mean over ranks of a small tensor. A collective: all ranks call it."""
        dist.all_reduce(value, group=self.group)
        return value / dist.get_world_size(self.group)


class NoGradSync(GradSync):
    """A single process: nothing to synchronize."""

    world = 1

    @contextmanager
    def during(self, *, last: bool) -> Iterator[None]:  # noqa: ARG002
        yield

    def mean(self, value: Any) -> Any:
        return value


class DDPGradSync(GradSync):
    """DistributedDataParallel."""

    def __init__(self, model: Any) -> None:
        if model.static_graph:
            raise BatchMistake(
                "DistributedDataParallel(static_graph=True) cannot accumulate gradients: "
                "its first pass must synchronize them. Remove static_graph=True"
            )
        self._model = model
        self.group = model.process_group
        self.world = self.group.size()

    @contextmanager
    def during(self, *, last: bool) -> Iterator[None]:
        with nullcontext() if last else self._model.no_sync():
            yield


class FSDPGradSync(GradSync):
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


def grad_sync_of(model: Any) -> GradSync:
    """Return how this model's gradients are averaged. Raises :class:`BatchMistake`."""
    inner = getattr(model, "_orig_mod", model)  # torch.compile wraps the wrapper
    if isinstance(inner, DistributedDataParallel):
        return DDPGradSync(inner)
    if isinstance(inner, _fsdp_class("FullyShardedDataParallel")):
        raise BatchMistake(
            "the model is wrapped in FullyShardedDataParallel (FSDP1), which is not supported: "
            "use torch.distributed.fsdp.fully_shard"
        )
    fsdp2 = _fsdp_class("FSDPModule")
    if sharded := [module for module in inner.modules() if isinstance(module, fsdp2)]:
        return FSDPGradSync(sharded)
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        raise BatchMistake(
            f"nothing averages the gradients of {type(inner).__name__} over the "
            f"{dist.get_world_size()} ranks: wrap it in DistributedDataParallel or apply "
            "fully_shard to it"
        )
    return NoGradSync()


def _fsdp_class(name: str) -> Any:
    """A class of torch's FSDP; () if the script has not imported FSDP (which takes a second).

    FSDPModule is there since torch 2.6.
    """
    return getattr(sys.modules.get("torch.distributed.fsdp"), name, ())


def has_collective_forward(model: Any) -> bool:
    """Return whether a forward of this model waits for the other ranks' forwards."""
    return any(isinstance(module, nn.SyncBatchNorm) for module in model.modules())
