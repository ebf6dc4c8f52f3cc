"""Who may take which data: every dataset of a job, as a state machine. Requests in, answers out,
no I/O; what has to survive goes to the journal, and is kept before an answer is sent.

A dataset with rounds is its group's, and fenced by the group's rounds. Training resumes from a
snapshot or checkpoint, and what is in *that* is done, whatever was leased since: so with a new
round every lease of the old one is void, and the dataset waits until the new round's ranks begin it
from what they restored. All of them have to mean the same state, or the ranks restored different
steps and must not train.

A dataset without rounds belongs to its clients, of whatever groups: what they report is done at
once and for good, and what they hold when they are gone goes to others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from resile.job.events import EventKind
from resile.master.shards_dataset import Client, Dataset, LeaseJournal
from resile.master.shards_records import BegunRecord, DatasetKey, DatasetRecords
from resile.wire.shards import (
    Begin,
    Begun,
    EpochOver,
    Lease,
    Leased,
    NotAccepted,
    NotYet,
    Shard,
    ToWorker,
)
from resile.wire.shards_spans import Spans

MOST_DATASETS = 256
"""Of one group: each costs memory for as long as the master lives."""

MOST_IN_ALL = 4096
"""Of all groups together: a job of a thousand independent workers may have one or two of each."""

ASK_AGAIN_FOR_BEGIN = 0.02
"""The ranks of a round begin within milliseconds of each other."""

ASK_AGAIN_FOR_SHARDS = 0.2
"""Others hold the last shards; they are done or lost at a person's pace."""

DEADLINE_STEP = 1.0
"""Leases that are over are looked for so often: they last minutes."""


@dataclass(frozen=True)
class Taker:
    """Who asks: a rank of a round, or a client without one."""

    client: str
    round: int | None = None
    group: str = ""
    """Whose round it is: another group counts its own, and has ranks of the same numbers."""

    @property
    def label(self) -> str:
        """What people call it."""
        if self.round is None:
            return self.client
        of_group = f" of group {self.group}" if self.group else ""
        return f"{self.client} of round {self.round}{of_group}"

    def key(self, dataset: str) -> DatasetKey:
        """The dataset that it means by a name."""
        return DatasetKey("" if self.round is None else self.group, dataset)


class ShardBook:
    """All datasets of a job. Whether a taker's round is still on is the caller's business."""

    def __init__(
        self, journal: LeaseJournal, records: Sequence[DatasetRecords] = (), *, now: float = 0.0
    ) -> None:
        self._journal = journal
        self._away: dict[str, float] = {}
        """Clients without a connection, and when that is proof that they are gone."""
        self._next_look = 0.0
        self.datasets = {
            kept.begun.key: Dataset.restore(kept, journal, now=now) for kept in records
        }

    # --- requests ---------------------------------------------------------------------------

    def begin(self, taker: Taker, begin: Begin, *, now: float) -> Begun | NotYet | NotAccepted:
        """Somebody is about to take from a dataset."""
        dataset = self.datasets.get(taker.key(begin.dataset))
        if dataset is None and (refusal := self._why_too_many(taker)):
            return NotAccepted(reason=refusal)
        if self._is_of_the_other_kind(taker, begin.dataset):
            return NotAccepted(
                reason=f"'{begin.dataset}' is used with rounds by some and without by others; "
                "give one of the two another name"
            )
        if dataset is None or self._is_newer(taker, begin, dataset):
            return self._begin_anew(taker, begin, dataset, now)
        return self._join(taker, begin, dataset)

    def lease(self, taker: Taker, lease: Lease, *, now: float) -> ToWorker:
        """Somebody wants shards, and may have some to report."""
        dataset = self.datasets.get(taker.key(lease.dataset))
        if dataset is None and taker.round is None:
            # Whoever leases has begun, so there was a master that knew.
            reason = f"what was done of '{lease.dataset}' was lost with the master's memory"
            return NotAccepted(reason=reason)
        if dataset is None or dataset.begun.round != taker.round:
            return NotAccepted(reason=f"'{lease.dataset}' was not begun by {taker.label}")
        if taker.round is not None and (refusal := self._why_late(lease, dataset)):
            return refusal
        client = dataset.clients.get(taker.client, Client())
        if lease.number < client.number:
            reason = f"request {lease.number} of {taker.label} was answered long ago"
            return NotAccepted(reason=reason, stale=True)
        if lease.number == client.number and client.answer:
            return Leased(epoch=dataset.begun.epoch, shards=client.answer)
        if lease.number > client.number and (unheld := self._settle(taker, lease, dataset)):
            return unheld
        return self._give(taker, lease, dataset, now)

    def gone_from(self, client: str, *, proof_at: float) -> None:
        """A client's connection is gone; that is proof at ``proof_at``."""
        if self._holds(client):
            self._away[client] = proof_at

    def is_back(self, client: str) -> None:
        """It holds a connection again."""
        self._away.pop(client, None)

    def expect_back(self, *, proof_at: float) -> None:
        """After a master's return: whoever holds something has until then to connect."""
        for dataset in self.datasets.values():
            for client in dataset.clients:
                self.gone_from(client, proof_at=proof_at)

    # --- time -------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Take back what the lost and the slow hold."""
        for client in [name for name, proof_at in self._away.items() if proof_at <= now]:
            del self._away[client]
            self._release(client, now)
        if now >= self._next_look:
            self._next_look = now + DEADLINE_STEP
            self._expire(now)

    def next_deadline(self) -> float | None:
        """When :meth:`tick` has something to do, should nothing happen before."""
        deadlines = list(self._away.values())
        if any(dataset.held for dataset in self._roundless()):
            deadlines.append(self._next_look)
        return min(deadlines, default=None)

    # --- the rest ---------------------------------------------------------------------------

    def _why_too_many(self, taker: Taker) -> str:
        """Why no dataset can be begun any more, if so."""
        group = taker.key("").group
        if sum(key.group == group for key in self.datasets) >= MOST_DATASETS:
            whose = f"the group '{group}'" if group else "a job"
            return f"{whose} may have {MOST_DATASETS} datasets, not more"
        if len(self.datasets) >= MOST_IN_ALL:
            return f"all groups together may have {MOST_IN_ALL} datasets, not more"
        return ""

    def _is_of_the_other_kind(self, taker: Taker, dataset: str) -> bool:
        """Whether a name that is meant with rounds is used without, or the other way round."""
        same = (one.begun for key, one in self.datasets.items() if key.dataset == dataset)
        return any((begun.round is None) is not (taker.round is None) for begun in same)

    @staticmethod
    def _is_newer(taker: Taker, begin: Begin, dataset: Dataset) -> bool:
        begun = dataset.begun
        if taker.round is None or begun.round is None:
            return False
        said = (taker.round, begin.generation, begin.epoch)
        return said > (begun.round, begun.generation, begun.epoch)

    def _begin_anew(
        self, taker: Taker, begin: Begin, old: Dataset | None, now: float
    ) -> Begun | NotYet | NotAccepted:
        if begin.done is None and taker.round is not None:
            reason = f"'{begin.dataset}' waits for the first rank of round {taker.round} to begin"
            return NotYet(after=ASK_AGAIN_FOR_BEGIN, reason=reason)
        if refusal := _why_malformed(begin):
            return NotAccepted(reason=refusal)
        record = BegunRecord(
            dataset=begin.dataset,
            spec=begin.spec,
            epoch=begin.epoch,
            digest=begin.digest,
            done=begin.done or (),
            round=taker.round,
            generation=begin.generation,
            group=taker.key(begin.dataset).group,
        )
        dataset = old.begun_anew(record) if old else Dataset(record, self._journal)
        dataset.keep()
        self.datasets[record.key] = dataset
        left = "no end" if dataset.pool.left is None else f"{dataset.pool.left:,} records left"
        text = f"'{begin.dataset}' begins epoch {begin.epoch} with {left}"
        number = taker.round or 0
        self._journal.tell(EventKind.DATASET_BEGUN, text, now, round=number, group=record.group)
        return Begun(epoch=begin.epoch)

    def _join(self, taker: Taker, begin: Begin, dataset: Dataset) -> Begun | NotAccepted:
        begun = dataset.begun
        if begun.round != taker.round:
            reason = f"round {taker.round} is over: '{begin.dataset}' is at round {begun.round}"
            return NotAccepted(reason=reason, stale=True)
        if taker.round is None:
            if begin.spec != begun.spec:
                differing = ", ".join(_differences(begin, begun))
                reason = f"'{begin.dataset}' was begun with another {differing}"
                return NotAccepted(reason=reason)
            return Begun(epoch=begun.epoch)
        if (begin.generation, begin.epoch) != (begun.generation, begun.epoch):
            reason = f"epoch {begin.epoch} of '{begin.dataset}' is over: it is at {begun.epoch}"
            return NotAccepted(reason=reason, stale=True)
        if begin.digest != begun.digest:
            differing = ", ".join(_differences(begin, begun)) or "position in the data"
            reason = (
                f"{taker.label} begins '{begin.dataset}' with another {differing} than the first "
                "rank; all ranks have to be given the same dataset and restore the same step"
            )
            return NotAccepted(reason=reason)
        return Begun(epoch=begun.epoch)

    @staticmethod
    def _why_late(lease: Lease, dataset: Dataset) -> EpochOver | NotAccepted | None:
        begun = dataset.begun
        if lease.generation != begun.generation:
            reason = f"'{lease.dataset}' was begun again from a restored state"
            return NotAccepted(reason=reason, stale=True)
        if lease.epoch < begun.epoch:
            return EpochOver(epoch=lease.epoch)
        if lease.epoch > begun.epoch:
            return NotAccepted(reason=f"epoch {lease.epoch} of '{lease.dataset}' was not begun")
        return None

    @staticmethod
    def _settle(taker: Taker, lease: Lease, dataset: Dataset) -> NotAccepted | None:
        if not lease.done and not lease.returned:
            return None
        if taker.round is not None:
            return NotAccepted(reason="in a round shards count by what is saved, not by report")
        foreign: Shard | None = None
        if lease.epoch == dataset.begun.epoch:
            foreign = dataset.settle(
                taker.client, lease.number, done=lease.done, returned=lease.returned
            )
        else:
            foreign = (*lease.done, *lease.returned)[0]
        if foreign is None:
            return None
        what = f"records {foreign.start} to {foreign.stop} of '{lease.dataset}'"
        return NotAccepted(reason=f"{taker.label} does not hold {what} (any more)", stale=True)

    def _give(
        self, taker: Taker, lease: Lease, dataset: Dataset, now: float
    ) -> Leased | NotYet | EpochOver:
        if taker.round is None and dataset.pool.exhausted and not dataset.held:
            if dataset.begun.epoch + 1 >= dataset.spec.epochs:
                return EpochOver(epoch=dataset.begun.epoch)
            dataset = dataset.next_epoch()
            self.datasets[dataset.begun.key] = dataset
        shards = dataset.take(
            taker.client, lease.number, records=lease.records, shards=lease.shards, now=now
        )
        if shards or not lease.records:
            return Leased(epoch=dataset.begun.epoch, shards=tuple(shards))
        if not dataset.pool.exhausted:
            return NotYet(after=0.0, reason="passing over what is done already")
        if dataset.held_by_others(taker.client):
            reason = f"the last {dataset.held} shards of '{lease.dataset}' are with others"
            return NotYet(after=ASK_AGAIN_FOR_SHARDS, reason=reason)
        return EpochOver(epoch=dataset.begun.epoch)

    def _roundless(self) -> Iterable[Dataset]:
        return [one for one in self.datasets.values() if one.begun.round is None]

    def _holds(self, client: str) -> bool:
        return any(client in dataset.clients for dataset in self._roundless())

    def _release(self, client: str, now: float) -> None:
        for dataset in self._roundless():
            if count := dataset.release(client):
                name = dataset.begun.dataset
                text = f"{client} is gone: {count} shards of '{name}' can be taken again"
                self._journal.tell(EventKind.SHARDS_RETURNED, text, now, round=0)

    def _expire(self, now: float) -> None:
        for dataset in self._roundless():
            if count := dataset.expire(now):
                text = f"{count} leases of '{dataset.begun.dataset}' ran out of time"
                self._journal.tell(EventKind.SHARDS_RETURNED, text, now, round=0)


def _why_malformed(begin: Begin) -> str | None:
    """What is wrong with a description that decodes."""
    spec = begin.spec
    if bool(spec.sizes) is bool(spec.partitions):
        return f"'{begin.dataset}' has to have either pieces of a known size or partitions"
    done = begin.done or ()
    if len(done) > max(1, spec.partitions):
        return f"'{begin.dataset}' has fewer partitions than are said to be done"
    try:
        ends = [Spans.decode(numbers).end for numbers in done]
    except ValueError as error:
        return f"what is done of '{begin.dataset}' cannot be read: {error}"
    if not spec.partitions and max(ends, default=0) > sum(spec.sizes):
        return f"more of '{begin.dataset}' is said to be done than it has"
    return None


def _differences(begin: Begin, begun: BegunRecord) -> list[str]:
    ours, theirs = begun.spec, begin.spec
    return [n for n in ours.__struct_fields__ if getattr(ours, n) != getattr(theirs, n)]
