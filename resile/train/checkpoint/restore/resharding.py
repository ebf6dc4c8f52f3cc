"""Copies saved slices into the slices a rank needs, between any two ways of sharding.

torch.distributed.checkpoint's planner finds which saved slice overlaps which needed one;
:class:`PartsReader` is its storage. The planner is called directly, without ``load``: nothing is
gathered from other ranks, and an error arrives as it was raised. Used for sharded tensors only, as
the import is a large one.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from math import prod
from typing import Any

import torch
from torch.distributed.checkpoint import DefaultLoadPlanner, StorageReader
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import LoadPlan, LoadPlanner, ReadItem
from torch.futures import Future

from resile.checkpoint.errors import PartDamaged
from resile.train.checkpoint.restore.part_tensors import Stored, TensorChunk

__all__ = ["PartsReader", "Resharding"]


class PartsReader(StorageReader):  # type: ignore[misc]
    """Parts as a StorageReader of torch.distributed.checkpoint."""

    def __init__(self, stored: Mapping[str, Stored]) -> None:
        self._stored = stored

    def read_metadata(self, *_: Any, **__: Any) -> Metadata:
        """Return the metadata of every tensor with its slices."""
        return Metadata({key: _metadata(one) for key, one in self._stored.items()})

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Copy the planned items, in the order of their bytes in the parts."""
        chunks = {id(item): self.chunk(item) for item in plan.items}
        parts = {id(c.part): number for number, c in enumerate(chunks.values())}

        def place(item: ReadItem) -> tuple[int, int]:
            chunk = chunks[id(item)]
            return parts[id(chunk.part)], chunk.place.begin

        for item in sorted(plan.items, key=place):
            target = planner.resolve_tensor(item).detach()
            target.copy_(_piece(chunks[id(item)], item))
            planner.commit_tensor(item, target)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def chunk(self, item: ReadItem) -> TensorChunk:
        """Return the saved slice that a plan's item reads from."""
        number: int = item.storage_index.index
        return self._stored[item.storage_index.fqn].chunks[number]

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Nothing to reset: there is no state between reads."""

    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        """Nothing to set up: the parts are open."""

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """As planned."""
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """As planned."""
        return plans

    @classmethod
    def validate_checkpoint_id(cls, _: str | os.PathLike[str]) -> bool:
        """Always False: parts are passed in, not looked up by an address."""
        return False


class Resharding:
    """The plan of which saved slices are copied where. A target is a tensor or this rank's slice of
    a DTensor, and is filled from the stored tensor of the same key.

    Raises PartDamaged if the slices do not cover the targets; nothing is read before ``carry_out``.
    """

    def __init__(self, stored: Mapping[str, Stored], targets: Mapping[str, Any]) -> None:
        self._reader = PartsReader(stored)
        self._planner = DefaultLoadPlanner(flatten_state_dict=False, flatten_sharded_tensors=False)
        metadata = self._reader.read_metadata()
        self._planner.set_up_planner(dict(targets), metadata, is_coordinator=True)
        self._plan = self._planner.create_local_plan()
        _check_coverage(self._plan, targets)

    @property
    def chunks(self) -> list[TensorChunk]:
        """The saved slices that will be read."""
        return [self._reader.chunk(item) for item in self._plan.items]

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def carry_out(self) -> None:
        """Fill the targets."""
        self._reader.read_data(self._plan, self._planner)


def _metadata(stored: Stored) -> TensorStorageMetadata:
    chunks = [
        ChunkStorageMetadata(offsets=torch.Size(chunk.offsets), sizes=torch.Size(chunk.shape))
        for chunk in stored.chunks
    ]
    properties = TensorProperties(dtype=stored.dtype)
    return TensorStorageMetadata(properties, torch.Size(stored.shape), chunks)


def _piece(chunk: TensorChunk, item: ReadItem) -> Any:
    """The needed elements of a chunk. Only the rows that contain them are read."""
    if not chunk.shape:
        return chunk.whole()
    piece = chunk.rows(item.storage_offsets[0], item.lengths[0])
    for dimension in range(1, len(chunk.shape)):
        piece = piece.narrow(dimension, item.storage_offsets[dimension], item.lengths[dimension])
    return piece


def _check_coverage(plan: LoadPlan, targets: Mapping[str, Any]) -> None:
    """Check for gaps between slices, which the planner does not."""
    covered: Counter[str] = Counter()
    for item in plan.items:
        covered[item.dest_index.fqn] += prod(item.lengths)
    for key, target in targets.items():
        local = target.to_local() if hasattr(target, "to_local") else target
        if covered[key] < local.numel():
            raise PartDamaged(f"the parts do not contain all elements of {key}")
