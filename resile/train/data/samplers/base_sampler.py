"""Base of both samplers: an iteration over epochs that any number of ranks can continue.

Two positions are kept apart. The *read* position belongs to an iterator: a DataLoader takes indices
long before they are trained. The *completed* position is the one that is saved, and only
:meth:`BaseElasticSampler.advance` moves it, when a training step is done. After a crash iteration
continues from the completed position, so indices that were only read are read again and nothing is
skipped.

``set_epoch`` is optional. A script that calls it decides which epoch it is in; without it one epoch
follows the other.

What can go wrong: if ``advance`` is never called (the Checkpointer calls it for samplers in its
state), the saved position never moves. Calls for more samples than were read are refused: samples
that were never read would count as trained. A rank that never reads, because another rank feeds it,
only follows: it counts the steps and writes no indices into the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import msgspec
import torch
from torch.utils.data import IterableDataset, Sampler

from resile.train.data.errors import DataMistake
from resile.train.data.rank_info import next_name, open_ledger, rank_and_world
from resile.train.data.samplers.batching import GlobalBatches, share_of, shares_of
from resile.train.data.samplers.order import EpochOrder, epoch_order
from resile.train.data.samplers.position import Position, Share, YieldedShares

if TYPE_CHECKING:
    from resile.train.checkpoint.state.rng import ResumedStreams

__all__ = ["BaseElasticSampler", "SamplerOptions"]

BLOCK = 1 << 14
"""Positions whose indices are computed together: cheap per index, a few ms per block."""


@dataclass(frozen=True)
class _Reading:
    """An epoch that was read to its end. If a step was trained since it was begun, the next reader
    is ahead of training and continues with the epoch after it; else it was read without
    training."""

    epoch: int
    steps: int
    """Steps that were trained when it was begun."""


class SamplerOptions(TypedDict, total=False):
    """The options of both samplers, beside the batch size."""

    num_replicas: int | None
    rank: int | None
    """Both default to the process group's, else to the environment's."""

    shuffle: bool
    """True by default."""

    seed: int
    drop_last: bool
    """Drop the last global batch of an epoch if it is incomplete."""

    pad: bool
    """Or fill it up with the first samples of the epoch, which are not counted again."""

    name: str | None
    """The data's name in the ledger; by default from the order in which samplers are created."""

    ledger: str | Path | None
    """The ledger's folder, $RESILE_LEDGER by default."""


class BaseElasticSampler(Sampler):  # type: ignore[misc]  # torch is not followed by mypy
    """Iterates over the global batches of epochs, and this rank's share of each."""

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
        """``global_batch``: the number of samples for a given number of ranks."""
        if drop_last and pad:
            raise DataMistake(
                "drop_last=True drops the last incomplete batch and pad=True fills it up: "
                "choose one"
            )
        _check_indexed(dataset)
        self.dataset = dataset
        self.rank, self.num_replicas = rank_and_world(rank, num_replicas)
        self.global_batch = global_batch(self.num_replicas)
        length = len(dataset)
        self._cut = GlobalBatches(
            length=length, size=self.global_batch, drop_last=drop_last, pad=pad
        )
        self._position = Position(seed=seed, length=length, shuffle=shuffle)
        self._begin = 0
        self._generation = 0
        """Number of restores: an iterator from before one has read other samples."""
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
        self._handed = YieldedShares(keep=self._ledger is not None)

    # --- the position -----------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The current epoch: where a script's loop over epochs continues.

        After the last step of an epoch it is the next one, unless the script calls ``set_epoch``.
        """
        return self._position.epoch + self._moves_on

    @property
    def completed(self) -> int:
        """Number of samples of this epoch that the whole job has trained."""
        return 0 if self._moves_on else self._position.completed

    @property
    def finished(self) -> bool:
        """Whether the epoch of the last step is complete."""
        return not self._cut.count(self._position.completed)

    @property
    def _moves_on(self) -> bool:
        """Whether an epoch is complete and the next one begins without ``set_epoch``."""
        by_script = self._epochs_set or self._position.epochs_set
        return self.finished and not by_script and self._cut.count(0) > 0

    def set_epoch(self, epoch: int) -> None:
        """Begin an epoch; keeps the position if it is the current or the restored one."""
        self._epochs_set = True
        if epoch > self._position.epoch:
            self._settle()
        if epoch != self._position.epoch:
            self._turn_to(epoch)
        self._read = None

    def advance(self, samples: int | None = None) -> None:
        """Count a training step: the next global batch, or ``samples`` samples, are trained.

        ``samples`` counts those of all ranks and must be a whole number of global batches, unless
        the epoch ends before. Past the end of an epoch that was set nothing is counted. Raises
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
        """Return the position, the same on all ranks."""
        return self._position.saved()

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Continue from a saved position, at any world size."""
        self._position = self._position.restored(state)
        self._begin = self._position.completed
        self._read = None
        self._handed.forget()
        self._generation += 1
        if self._ledger is not None:
            self._ledger.resumed(self._position.steps or None, of=self._position.trained_by)

    def random_restored(self, streams: ResumedStreams) -> None:
        """Take the random streams restored with the position; called by the Checkpointer."""
        self._streams = streams

    def shares(self) -> list[int]:
        """Return each rank's number of samples in the next global batch to be trained."""
        return shares_of(self._cut.count(self._position.completed), self.num_replicas)

    def sizes_ahead(self) -> Iterator[int]:
        """Yield the sizes of the global batches of an iteration that starts right after this."""
        begin = self._position.completed if self._epoch_to_read() == self._position.epoch else 0
        return (count for _, count in self._cut.batches(begin, self._cut.length))

    def _settle(self) -> None:
        """Count the incomplete last global batch if this rank read to the end and had no share in
        it: the others trained it, and all ranks must count the same steps."""
        read = self._read is not None and self._read.epoch == self._position.epoch
        last = 0 < self._cut.count(self._position.completed) < self.global_batch
        if read and last and not self.shares()[self.rank]:
            self.advance()

    def _turn_to(self, epoch: int) -> None:
        self._handed.forget(before=epoch if epoch > self._position.epoch else None)
        self._position = msgspec.structs.replace(self._position, epoch=epoch, completed=0)
        self._begin = 0

    def _after(self, start: int, samples: int) -> int:
        """Return the position after a step."""
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
                    f"positions {begin} to {begin + count - 1} of epoch {epoch} was not read since "
                    "the sampler was restored or its epoch set. Call advance() once for each batch "
                    "(Checkpointer.step calls it for samplers in its state), and start the "
                    "iteration after restore() and set_epoch()"
                )

    def _record(self, step: int, start: int, stop: int) -> None:
        """Write the indices this rank trained to the ledger; padding does not count."""
        if self._ledger is None:
            return
        epoch = self._position.epoch
        indices: list[int] = []
        for begin, count in self._cut.batches(start, stop):
            first, _ = share_of(count, self.num_replicas, rank=self.rank)
            own = max(self._cut.length - begin - first, 0)
            indices += self._handed.take(epoch, begin)[:own]
        self._ledger.record(step, epoch, indices, total=stop - start)

    # --- iteration --------------------------------------------------------------------------

    def _walk(self) -> Iterator[Share]:
        """Yield this rank's share of each global batch, to the end of an epoch."""
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
        """This rank's positions in a global batch."""
        start, stop = share_of(count, self.num_replicas, rank=self.rank)
        return torch.arange(cursor + start, cursor + stop)

    def _share_sizes(self) -> Iterator[tuple[int, int]]:
        """The number of shares of each size in an iteration."""
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
            f"a sampler yields indices, and a {type(dataset).__name__} has none: use a dataset "
            "with a length and indices, or ShardedDataset, which also reads from a function "
            "(start, stop) -> records and from streams"
        )
