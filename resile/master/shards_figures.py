"""A leased dataset in figures, for whoever watches a job. Pure.

Records of an epoch are in one of three states, which add up to its length. What *completed* means
is what the master can know: in a dataset with rounds, what was done in the state that the round
began from, as a record counts when it is in a snapshot or checkpoint and the master sees these only
when they are restored; without rounds, what clients reported. A stream has no end, so of its
records there are no such figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from resile.master.shards_dataset import Dataset, Traffic

__all__ = ["DatasetFigures", "RecordState", "figures_of"]


class RecordState(Enum):
    """What became of a record in this epoch."""

    WAITING = "waiting"
    """To be handed out."""

    LEASED = "leased"
    """In somebody's hands."""

    COMPLETED = "completed"


@dataclass(frozen=True, kw_only=True)
class DatasetFigures:
    """One dataset, now."""

    dataset: str
    epoch: int
    records: dict[RecordState, int]
    traffic: Traffic
    group: str = ""
    """Whose it is, if it is one with rounds; one without is everybody's."""


def figures_of(dataset: Dataset) -> DatasetFigures:
    """Count."""
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
