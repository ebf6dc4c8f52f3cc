"""The plan of a lockstep epoch, and one rank's batches of it for a DataLoader.

Every rank computes the same plan from three numbers: the remaining records, the ranks and the
records of a full step. All ranks take the same number of steps, so that no collective waits for a
rank without data:

- steps are full until the end, divided evenly: the first ranks may have one record more;
- the last one holds what is left;
- when that would leave some rank without a record, the last full step and the rest are divided
  into two steps; where these would again be too small, the rest joins the last full step instead.

Only an epoch with fewer remaining records than ranks cannot be divided like that. Its one step
gives the first ranks a record each and the others none.

A *step* is trained by all ranks together; a batch is this rank's part of it, in one list or, with
``micro_batch``, in several. The size of a step is set in one of two ways: ``batch_size`` records on
each rank, so that it scales with the number of ranks, or ``global_batch`` records on all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import TYPE_CHECKING

from resile.shards.protocol import Pace
from resile.train.data.errors import DataMistake
from resile.train.data.sharded.sources import Index

if TYPE_CHECKING:
    from resile.train.data.sharded.dataset import ShardedDataset

__all__ = [
    "BatchShape",
    "Plan",
    "ShardedBatches",
    "plan_of",
    "shape_of",
    "share",
]


def share(size: int, *, rank: int, world: int) -> int:
    """Return one rank's number of records in a step: even, the first ranks one more."""
    return size // world + (rank < size % world)


@dataclass(frozen=True)
class Plan:
    """A number of full steps, then a few smaller ones. ``full_steps`` None: endless."""

    world: int
    full: int
    """Records of a full step, over all ranks."""

    full_steps: int | None
    tail: tuple[int, ...] = ()

    def sizes(self) -> Iterator[int]:
        """Yield the number of records of all ranks in each step."""
        if self.full_steps is None:
            return repeat(self.full)
        return chain(repeat(self.full, self.full_steps), self.tail)

    @property
    def steps(self) -> int | None:
        """The number of steps of every rank; None: endless."""
        return None if self.full_steps is None else self.full_steps + len(self.tail)

    def quota(self, rank: int) -> int | None:
        """Return the total number of records of one rank; None: endless."""
        if self.full_steps is None:
            return None
        rest = sum(share(size, rank=rank, world=self.world) for size in self.tail)
        return self.full_steps * share(self.full, rank=rank, world=self.world) + rest


def plan_of(left: int | None, *, world: int, full: int) -> Plan:
    """Plan the remaining steps of ``full`` records each; ``left`` None: an endless stream."""
    if left is None:
        return Plan(world, full, None)
    steps, rest = divmod(left, full)
    if not rest:
        return Plan(world, full, steps)
    if rest >= world or not steps:
        return Plan(world, full, steps, (rest,))
    last = full + rest
    tail = (last,) if last // 2 < world else (-(-last // 2), last // 2)
    return Plan(world, full, steps - 1, tail)


@dataclass(frozen=True)
class BatchShape:
    """The sizes into which an epoch is cut, and its pace."""

    records: int
    """Records of a full step on all ranks; of one batch of this rank with ``Pace.APART``."""

    micro_batch: int | None
    pace: Pace

    def __str__(self) -> str:
        pieces = f" in pieces of {self.micro_batch}" if self.micro_batch else ""
        whose = "a rank" if self.pace is Pace.APART else "all ranks"
        return f"{self.records} records of {whose} in a step{pieces}, {self.pace.value}"

    def plan(self, left: int | None, *, world: int) -> Plan | None:
        """Return the remaining steps; None with ``Pace.APART``."""
        if self.pace is Pace.APART:
            return None
        return plan_of(left, world=world, full=self.records)

    def own(self, *, rank: int, world: int) -> int:
        """Return the number of records of one rank in a full step."""
        if self.pace is Pace.APART:
            return self.records
        return share(self.records, rank=rank, world=world)

    def lists(self, indices: Sequence[Index]) -> Iterator[list[Index]]:
        """Yield the lists of one batch for the DataLoader."""
        most = self.micro_batch or len(indices)
        for start in range(0, len(indices), most):
            yield list(indices[start : start + most])

    def count_lists(self, records: int) -> int:
        """Return the number of lists of a batch of ``records``; a stand-in has one."""
        return -(-records // (self.micro_batch or records)) if records else 1


def shape_of(
    batch_size: int | None,
    *,
    global_batch: int | None,
    micro_batch: int | None,
    pace: Pace,
    world: int,
) -> BatchShape:
    """Build the shape from a script's arguments; raises :class:`DataMistake` if invalid."""
    sizes = {"batch_size": batch_size, "global_batch": global_batch, "micro_batch": micro_batch}
    for name, size in sizes.items():
        if size is not None and size < 1:
            raise DataMistake(f"{name}={size} must be at least 1")
    if batch_size is not None and global_batch is None:
        records = batch_size if pace is Pace.APART else world * batch_size
        return BatchShape(records, micro_batch, pace)
    if batch_size is not None or global_batch is None:
        raise DataMistake(
            "set either batch_size=, the records of one rank, or global_batch=, those of all"
        )
    if pace is Pace.APART:
        raise DataMistake("global_batch= needs ranks in lockstep: use batch_size= with Pace.APART")
    if global_batch < world:
        raise DataMistake(
            f"global_batch={global_batch} is less than the {world} ranks: each rank needs at least "
            "one record in a step"
        )
    return BatchShape(global_batch, micro_batch, pace)


class ShardedBatches:
    """Yields lists of indices; can be iterated repeatedly.

    Batches that were yielded and not counted by ``advance`` are yielded again by the next
    iteration: a script may leave a loop and come back.
    """

    def __init__(self, dataset: ShardedDataset, shape: BatchShape) -> None:
        self._dataset = dataset
        self._shape = shape
        self.rank, self.num_replicas = dataset.rank, dataset.num_replicas
        self.micro_batch = shape.micro_batch

    @property
    def pace(self) -> Pace:
        """The pace of the ranks."""
        return self._shape.pace

    @property
    def global_batch(self) -> int:
        """Records of a full step over all ranks, in lockstep."""
        return self._shape.records

    def sizes_ahead(self) -> Iterator[int]:
        """Yield the records of all ranks in each step of an iteration that starts right after this,
        in lockstep."""
        return self._dataset.steps_ahead(self._shape)

    def __iter__(self) -> Iterator[list[Index]]:
        return self._dataset.hand_out(self._shape)

    def __len__(self) -> int:
        """Return the number of lists of the epoch, counted from the restored position."""
        left, world = self._dataset.left, self.num_replicas
        plan = self._shape.plan(left, world=world)
        if plan is None or plan.full_steps is None:
            raise TypeError("the number of batches of this rank is not known in advance")

        def lists(size: int) -> int:
            return self._shape.count_lists(share(size, rank=self.rank, world=world))

        return plan.full_steps * lists(plan.full) + sum(map(lists, plan.tail))
