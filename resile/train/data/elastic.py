"""What both samplers are: a walk through the epochs' orders that any number of ranks can continue.

Two places are kept apart. What was *read* is an iterator's own: a DataLoader takes indices long
before they are trained. What was *completed* is the position that is saved, and only
:meth:`ElasticWalk.advance` moves it, when a training step is done. After a crash the walk goes on
from what was completed, so what was merely read is read again and nothing is skipped.

``set_epoch`` may be called or not. A script that calls it decides which epoch it is in; one that
never does goes through epoch after epoch by itself.

What can go wrong: a script that trains without anybody calling ``advance`` (the Checkpointer does,
for whatever is in its state) saves a position that never moves. A script that calls it for more
than was read is refused: what nobody read would count as trained. A rank that never reads, as it is
fed by another one, only follows: it counts the steps and writes no indices into the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import msgspec
import torch
from torch.utils.data import IterableDataset, Sampler

from resile.train.data.cut import Cut, share_of, shares_of
from resile.train.data.errors import DataMistake
from resile.train.data.handed_out import HandedOut, Share
from resile.train.data.ledger import next_name, open_ledger
from resile.train.data.order import EpochOrder, epoch_order
from resile.train.data.place import rank_and_world
from resile.train.data.position import Position

if TYPE_CHECKING:
    from resile.train.checkpoint.resumed_streams import ResumedStreams

__all__ = ["ElasticWalk", "WalkOptions"]

BLOCK = 1 << 14
"""Positions whose indices are computed together: enough to cost little each, a few ms in all."""


@dataclass(frozen=True)
class _Reading:
    """An epoch that was read to its end. If a step was trained since it was begun, whoever reads on
    is ahead of training and wants the epoch after it; else it was read for its own sake."""

    epoch: int
    steps: int
    """Trained when it was begun."""


class WalkOptions(TypedDict, total=False):
    """What both samplers take, beside the size of a batch."""

    num_replicas: int | None
    rank: int | None
    """Both are the process group's if not given, else the environment's."""

    shuffle: bool
    """True by default."""

    seed: int
    drop_last: bool
    """Leave the last global batch of an epoch out if it is incomplete."""

    pad: bool
    """Or fill it up with the first samples of the epoch, which do not count again."""

    name: str | None
    """The data's in the ledger; by default from the order in which samplers are made."""

    ledger: str | Path | None
    """Its folder, $RESILE_LEDGER by default."""


class ElasticWalk(Sampler):  # type: ignore[misc]  # torch is not followed by mypy
    """Global batches of epoch after epoch, and this rank's share of each."""

    def __init__(
        self,
        dataset: Sized,
        *,
        global_batch: Callable[[int], int],
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        pad: bool = False,
        name: str | None = None,
        ledger: str | Path | None = None,
    ) -> None:
        """``global_batch``: how many samples it has with so many ranks."""
        if drop_last and pad:
            raise DataMistake(
                "drop_last=True leaves the last incomplete batch out and pad=True fills it up: "
                "choose one"
            )
        _check_indexed(dataset)
        self.dataset = dataset
        self.rank, self.num_replicas = rank_and_world(rank, num_replicas)
        self.global_batch = global_batch(self.num_replicas)
        length = len(dataset)
        self._cut = Cut(length=length, size=self.global_batch, drop_last=drop_last, pad=pad)
        self._position = Position(seed=seed, length=length, shuffle=shuffle)
        self._begin = 0
        self._generation = 0
        """Counts the restores: an iterator that was begun before one has read other samples."""
        self._epochs_set = False
        self._read: _Reading | None = None
        self._streams: ResumedStreams | None = None
        self._ledger = open_ledger(
            ledger,
            name or next_name(),
            length=length,
            drops=drop_last,
            rank=self.rank,
            world=self.num_replicas,
        )
        self._handed = HandedOut(keep=self._ledger is not None)

    # --- the position -----------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The epoch that is being trained: where a script's loop over epochs goes on.

        After the last step of an epoch it is the next one, unless the script sets its epochs.
        """
        return self._position.epoch + self._moves_on

    @property
    def completed(self) -> int:
        """Samples of this epoch that the whole job has trained."""
        return 0 if self._moves_on else self._position.completed

    @property
    def finished(self) -> bool:
        """Whether nothing is left of the epoch in which the last step was."""
        return not self._cut.count(self._position.completed)

    @property
    def _moves_on(self) -> bool:
        """Whether an epoch is over and nobody says which comes next: then the following one."""
        by_script = self._epochs_set or self._position.epochs_set
        return self.finished and not by_script and self._cut.count(0) > 0

    def set_epoch(self, epoch: int) -> None:
        """Begin an epoch; of the epoch that is being trained, or was restored, keep the place."""
        self._epochs_set = True
        if epoch > self._position.epoch:
            self._settle()
        if epoch != self._position.epoch:
            self._turn_to(epoch)
        self._read = None

    def advance(self, samples: int | None = None) -> None:
        """A training step is done: the next global batch, or ``samples`` of them, are trained.

        ``samples`` counts those of all ranks and is a whole number of global batches, unless the
        epoch ends before. After the end of an epoch that was set nothing more is counted. Raises
        DataMistake for samples that this rank has not read.
        """
        if self.finished and not self._epochs_set and self._cut.count(0):
            self._turn_to(self._position.epoch + 1)
        start = self._position.completed
        stop = self._after(start, self.global_batch if samples is None else samples)
        if stop == start:
            return
        self._check_handed_out(start, stop)
        self._streams = None
        steps = self._position.steps + 1
        self._record(steps, start, stop)
        self._position = msgspec.structs.replace(
            self._position,
            completed=stop,
            steps=steps,
            epochs_set=self._epochs_set,
            trained_by=self._ledger.round if self._ledger else None,
        )

    def state_dict(self) -> dict[str, object]:
        """The position, the same on all ranks."""
        return self._position.saved()

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Go on from a saved position, whatever the world size was there."""
        self._position = self._position.restored(state)
        self._begin = self._position.completed
        self._read = None
        self._handed.forget()
        self._generation += 1
        if self._ledger is not None:
            self._ledger.resumed(self._position.steps or None, of=self._position.trained_by)

    def random_restored(self, streams: ResumedStreams) -> None:
        """For the Checkpointer: the random streams that were restored with the position."""
        self._streams = streams

    def shares(self) -> list[int]:
        """How many samples of the next global batch to be trained each rank has."""
        return shares_of(self._cut.count(self._position.completed), self.num_replicas)

    def sizes_ahead(self) -> Iterator[int]:
        """The sizes of the global batches that an iteration begun right after this goes through."""
        begin = self._position.completed if self._epoch_to_read() == self._position.epoch else 0
        return (count for _, count in self._cut.batches(begin, self._cut.length))

    def _settle(self) -> None:
        """Count the incomplete last global batch if this rank read to the end and had no share in
        it: the others trained it, and all ranks have to count the same steps."""
        read = self._read is not None and self._read.epoch == self._position.epoch
        last = 0 < self._cut.count(self._position.completed) < self.global_batch
        if read and last and not self.shares()[self.rank]:
            self.advance()

    def _turn_to(self, epoch: int) -> None:
        self._handed.forget(before=epoch if epoch > self._position.epoch else None)
        self._position = msgspec.structs.replace(self._position, epoch=epoch, completed=0)
        self._begin = 0

    def _after(self, start: int, samples: int) -> int:
        """The position after a step."""
        end = self._cut.end(start)
        if samples < 0 or (start + samples < end and samples % self.global_batch):
            raise DataMistake(
                f"samples={samples} is not a whole number of global batches of "
                f"{self.global_batch}, the samples of all ranks in one batch"
            )
        return min(start + samples, end)

    def _check_handed_out(self, start: int, stop: int) -> None:
        if not self._handed.begun:
            return
        epoch = self._position.epoch
        for begin, count in self._cut.batches(start, stop):
            first, last = share_of(count, self.num_replicas, rank=self.rank)
            size = last - first
            if size and not self._handed.reaches(epoch, begin, size=size):
                raise DataMistake(
                    f"a step counts samples that rank {self.rank} has not read: its share of "
                    f"positions {begin} to {begin + count - 1} of epoch {epoch} was not given out "
                    "since the sampler was restored or its epoch set. Call advance() once for each "
                    "batch (Checkpointer.step calls it for what is in its state), and begin the "
                    "iteration after restore() and set_epoch()"
                )

    def _record(self, step: int, start: int, stop: int) -> None:
        """Write down what this rank trained; what only fills up a batch does not count."""
        if self._ledger is None:
            return
        epoch = self._position.epoch
        indices: list[int] = []
        for begin, count in self._cut.batches(start, stop):
            first, _ = share_of(count, self.num_replicas, rank=self.rank)
            own = max(self._cut.length - begin - first, 0)
            indices += self._handed.take(epoch, begin)[:own]
        self._ledger.record(step, epoch, indices, total=stop - start)

    # --- the walk ---------------------------------------------------------------------------

    def _walk(self) -> Iterator[Share]:
        """This rank's share of one global batch after the other, to the end of an epoch."""
        epoch = self._epoch_to_read()
        self._begin = self._position.completed if epoch == self._position.epoch else 0
        return self._to_the_end(epoch, self._begin, self._generation)

    def _to_the_end(self, epoch: int, begin: int, generation: int) -> Iterator[Share]:
        steps = self._position.steps
        if begin and self._streams is not None:
            self._streams.put_back()
        for share in self._shares_from(epoch, begin):
            current = generation == self._generation
            yield self._handed.begin(share) if current else share
        self._read = _Reading(epoch, steps)

    def _epoch_to_read(self) -> int:
        epoch = self._position.epoch
        if self._epochs_set:
            return epoch
        ahead = self._read is not None and self._read.steps < self._position.steps
        following = self._read.epoch + 1 if self._read and ahead else 0
        return max(epoch + self.finished, following)

    def _shares_from(self, epoch: int, begin: int) -> Iterator[Share]:
        order = self._order(epoch)
        waiting: list[tuple[int, torch.Tensor]] = []
        held = 0

        def computed() -> Iterator[Share]:
            begins = [begin for begin, _ in waiting]
            shares = _indices(order, [positions for _, positions in waiting])
            for begin, indices in zip(begins, shares, strict=True):
                yield Share(epoch, begin, indices)

        for cursor, count in self._cut.batches(begin, self._cut.length):
            waiting.append((cursor, self._share(cursor, count)))
            held += len(waiting[-1][1])
            if held >= BLOCK:
                yield from computed()
                waiting, held = [], 0
        if waiting:
            yield from computed()

    def _share(self, cursor: int, count: int) -> torch.Tensor:
        """The positions that are this rank's of a global batch."""
        start, stop = share_of(count, self.num_replicas, rank=self.rank)
        return torch.arange(cursor + start, cursor + stop)

    def _share_sizes(self) -> Iterator[tuple[int, int]]:
        """Of what an iteration yields: how many shares there are of which size."""
        for times, count in self._cut.kinds(self._begin):
            start, stop = share_of(count, self.num_replicas, rank=self.rank)
            yield times, stop - start

    def _order(self, epoch: int) -> EpochOrder:
        position = self._position
        return epoch_order(position.length, position.seed, epoch=epoch, shuffle=position.shuffle)


def _indices(order: EpochOrder, shares: list[torch.Tensor]) -> Iterator[list[int]]:
    indices = order.at(torch.cat(shares) % order.length)
    for piece in indices.split([len(share) for share in shares]):
        yield piece.tolist()


def _check_indexed(dataset: object) -> None:
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
        raise DataMistake(
            f"a sampler gives out indices, and a {type(dataset).__name__} has none: give it data "
            "with a length and indices, or use ShardedDataset, which also reads from a function "
            "(start, stop) -> records and from streams"
        )
