"""One epoch's batches of one rank, as a DataLoader's ``batch_sampler``.

A *step* is what all ranks train together; a batch is this rank's part of it, in one list or, with
``micro_batch``, in several. How large a step is may be said in two ways: ``batch_size`` records on
each rank, so that it follows the number of ranks, or ``global_batch`` records on all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from resile.train.data.errors import DataMistake
from resile.train.data.sharded_plan import Plan, plan_of, share
from resile.train.data.sharded_sources import Index
from resile.wire.shards import Pace

if TYPE_CHECKING:
    from resile.train.data.sharded import ShardedDataset

__all__ = ["BatchShape", "ShardedBatches", "shape_of"]


@dataclass(frozen=True)
class BatchShape:
    """How an epoch is cut into batches."""

    records: int
    """Of a full step on all ranks; of one of this rank's batches where ranks are apart."""

    micro_batch: int | None
    pace: Pace

    def __str__(self) -> str:
        pieces = f" in pieces of {self.micro_batch}" if self.micro_batch else ""
        whose = "a rank" if self.pace is Pace.APART else "all ranks"
        return f"{self.records} records of {whose} in a step{pieces}, {self.pace.value}"

    def plan(self, left: int | None, *, world: int) -> Plan | None:
        """The steps of what is left; None where ranks are apart."""
        if self.pace is Pace.APART:
            return None
        return plan_of(left, world=world, full=self.records)

    def own(self, *, rank: int, world: int) -> int:
        """Records of one rank in a full step."""
        if self.pace is Pace.APART:
            return self.records
        return share(self.records, rank=rank, world=world)

    def lists(self, indices: Sequence[Index]) -> Iterator[list[Index]]:
        """One batch as the DataLoader gets it."""
        most = self.micro_batch or len(indices)
        for start in range(0, len(indices), most):
            yield list(indices[start : start + most])

    def count_lists(self, records: int) -> int:
        """How many lists a batch of so many records has; a stand-in is one."""
        return -(-records // (self.micro_batch or records)) if records else 1


def shape_of(
    batch_size: int | None,
    *,
    global_batch: int | None,
    micro_batch: int | None,
    pace: Pace,
    world: int,
) -> BatchShape:
    """What a script asks for; raises :class:`DataMistake` for what cannot be."""
    sizes = {"batch_size": batch_size, "global_batch": global_batch, "micro_batch": micro_batch}
    for name, size in sizes.items():
        if size is not None and size < 1:
            raise DataMistake(f"{name}={size}: at least 1 is wanted")
    if batch_size is not None and global_batch is None:
        records = batch_size if pace is Pace.APART else world * batch_size
        return BatchShape(records, micro_batch, pace)
    if batch_size is not None or global_batch is None:
        raise DataMistake(
            "give either batch_size=, the records of one rank, or global_batch=, those of all"
        )
    if pace is Pace.APART:
        raise DataMistake("global_batch= is for ranks in step: Pace.APART wants batch_size=")
    if global_batch < world:
        raise DataMistake(
            f"global_batch={global_batch} is less than the {world} ranks, of which each has at "
            "least one record in a step"
        )
    return BatchShape(global_batch, micro_batch, pace)


class ShardedBatches:
    """Lists of indices, as often as it is iterated.

    What was handed out and not counted by ``advance`` is handed out again by the next iteration: a
    script may leave a loop and come back.
    """

    def __init__(self, dataset: ShardedDataset, shape: BatchShape) -> None:
        self._dataset = dataset
        self._shape = shape
        self.rank, self.num_replicas = dataset.rank, dataset.num_replicas
        self.micro_batch = shape.micro_batch

    @property
    def pace(self) -> Pace:
        """How the ranks end."""
        return self._shape.pace

    @property
    def global_batch(self) -> int:
        """Records of a full step over all ranks, where they are in step."""
        return self._shape.records

    def sizes_ahead(self) -> Iterator[int]:
        """Records of all ranks in each step that an iteration begun right after this goes through,
        where they are in step."""
        return self._dataset.steps_ahead(self._shape)

    def __iter__(self) -> Iterator[list[Index]]:
        return self._dataset.hand_out(self._shape)

    def __len__(self) -> int:
        """How many lists the epoch has, counted from what was restored."""
        left, world = self._dataset.left, self.num_replicas
        plan = self._shape.plan(left, world=world)
        if plan is None or plan.full_steps is None:
            raise TypeError("how many batches this rank gets is not known beforehand")

        def lists(size: int) -> int:
            return self._shape.count_lists(share(size, rank=self.rank, world=world))

        return plan.full_steps * lists(plan.full) + sum(map(lists, plan.tail))
