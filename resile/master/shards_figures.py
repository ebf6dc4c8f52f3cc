"""Statistics of a leased dataset, for metrics. Pure.

The records of an epoch are in one of three states, which add up to its length. *Completed* is what
the master can know: in a dataset with rounds, the records that were done in the state that the
round began from, as the master sees snapshots and checkpoints only when they are restored; without
rounds, the records that clients reported. A stream has no end, and so no such counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from resile.master.shards_dataset import Dataset, Traffic

__all__ = ["DatasetFigures", "RecordState", "figures_of"]


class RecordState(Enum):
    """The state of a record in an epoch."""

    WAITING = "waiting"
    """Not leased yet."""

    LEASED = "leased"
    """Leased to a client."""

    COMPLETED = "completed"


@dataclass(frozen=True, kw_only=True)
class DatasetFigures:
    """The statistics of one dataset."""

    dataset: str
    epoch: int
    records: dict[RecordState, int]
    traffic: Traffic
    group: str = ""
    """The group of a dataset with rounds; empty for one without."""


def figures_of(dataset: Dataset) -> DatasetFigures:
    """Compute the statistics of a dataset."""
    return DatasetFigures(
        dataset=dataset.begun.dataset,
        epoch=dataset.begun.epoch,
        records=_records(dataset),
        traffic=dataset.traffic,
        group=dataset.begun.group,
    )


def _records(dataset: Dataset) -> dict[RecordState, int]:
    waiting, open_ = dataset.pool.left, dataset.open
    if waiting is None or open_ is None:
        return {}
    leased = open_ - waiting if dataset.begun.round is not None else dataset.held_records
    completed = sum(dataset.spec.sizes) - waiting - leased
    return {
        RecordState.WAITING: waiting,
        RecordState.LEASED: leased,
        RecordState.COMPLETED: completed,
    }
