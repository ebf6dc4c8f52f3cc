"""Leases of a job's datasets as a state machine: requests in, answers out, no I/O.

Records are written before an answer is sent.

A dataset with rounds belongs to a group, and is fenced by the group's rounds. Training resumes from
a snapshot or checkpoint, and only records in *that* are done, whatever was leased since: so a new
round voids every lease of the old one, and the dataset waits until the new round's ranks begin it
from what they restored. All of them have to begin from the same state; otherwise the ranks restored
different steps and must not train.

A dataset without rounds belongs to its clients, of whatever groups: records that they report are
done at once and for good, and the leases of a lost client go to others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from resile.job.events import EventKind
from resile.shards.dataset import Dataset, DatasetClient, LeaseEffects
from resile.shards.protocol import (
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
from resile.shards.records import BegunRecord, DatasetKey, DatasetRecords
from resile.shards.spans import Spans

MOST_DATASETS = 256
"""Per group: each costs memory for as long as the master runs."""

MAX_DATASETS = 4096
"""Of all groups together: a job of a thousand independent workers may have one or two each."""

ASK_AGAIN_FOR_BEGIN = 0.02
"""Seconds. The ranks of a round begin within milliseconds of each other."""

ASK_AGAIN_FOR_SHARDS = 0.2
"""Seconds. Others hold the last shards; they are done or lost within seconds or minutes."""

DEADLINE_STEP = 1.0
"""Seconds between two checks for expired leases, which last minutes."""


@dataclass(frozen=True)
class Lessee:
    """The sender of a request: a rank of a round, or a client without rounds."""

    client: str
    round: int | None = None
    group: str = ""
    """The group of the round: groups count their rounds apart."""

    @property
    def label(self) -> str:
        """Its name in messages for people."""
        if self.round is None:
            return self.client
        of_group = f" of group {self.group}" if self.group else ""
        return f"{self.client} of round {self.round}{of_group}"

    def key(self, dataset: str) -> DatasetKey:
        """Return the key of the dataset that it means by a name."""
        return DatasetKey("" if self.round is None else self.group, dataset)


class LeaseManager:
    """The leases of all datasets of a job. The caller checks that the round still runs."""

    def __init__(
        self, effects: LeaseEffects, records: Sequence[DatasetRecords] = (), *, now: float = 0.0
    ) -> None:
        self._effects = effects
        self._away: dict[str, float] = {}
        """Disconnected clients, and when that is proof that they are lost."""
        self._next_look = 0.0
        self.datasets = {
            kept.begun.key: Dataset.restore(kept, effects, now=now) for kept in records
        }

    # --- requests ---------------------------------------------------------------------------

    def begin(self, lessee: Lessee, begin: Begin, *, now: float) -> Begun | NotYet | NotAccepted:
        """A worker is about to take from a dataset."""
        dataset = self.datasets.get(lessee.key(begin.dataset))
        if dataset is None and (refusal := self._why_too_many(lessee)):
            return NotAccepted(reason=refusal)
        if self._is_of_the_other_kind(lessee, begin.dataset):
            return NotAccepted(
                reason=f"'{begin.dataset}' is used with rounds by some and without by others; "
                "give one of the two another name"
            )
        if dataset is None or self._is_newer(lessee, begin, dataset):
            return self._begin_anew(lessee, begin, dataset, now)
        return self._join(lessee, begin, dataset)

    def lease(self, lessee: Lessee, lease: Lease, *, now: float) -> ToWorker:
        """A worker wants shards, and may report some as done."""
        dataset = self.datasets.get(lessee.key(lease.dataset))
        if dataset is None and lessee.round is None:
            # A client that leases has begun the dataset, so an earlier master knew of it.
            reason = f"the progress of '{lease.dataset}' was lost with the master's state"
            return NotAccepted(reason=reason)
        if dataset is None or dataset.begun.round != lessee.round:
            return NotAccepted(reason=f"'{lease.dataset}' was not begun by {lessee.label}")
        if lessee.round is not None and (refusal := self._why_late(lease, dataset)):
            return refusal
        client = dataset.clients.get(lessee.client, DatasetClient())
        if lease.number < client.number:
            reason = f"request {lease.number} of {lessee.label} was answered long ago"
            return NotAccepted(reason=reason, stale=True)
        if lease.number == client.number and client.answer:
            return Leased(epoch=dataset.begun.epoch, shards=client.answer)
        if lease.number > client.number and (unheld := self._settle(lessee, lease, dataset)):
            return unheld
        return self._give(lessee, lease, dataset, now)

    def client_disconnected(self, client: str, *, proof_at: float) -> None:
        """A client disconnected; that is proof of its loss at ``proof_at``."""
        if self._holds(client):
            self._away[client] = proof_at

    def reconnected(self, client: str) -> None:
        """A client is connected again."""
        self._away.pop(client, None)

    def expect_reconnects(self, *, proof_at: float) -> None:
        """After a restart of the master: clients that hold leases have until then to connect."""
        for dataset in self.datasets.values():
            for client in dataset.clients:
                self.client_disconnected(client, proof_at=proof_at)

    # --- time -------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Take back the leases of lost and slow clients."""
        for client in [name for name, proof_at in self._away.items() if proof_at <= now]:
            del self._away[client]
            self._release(client, now)
        if now >= self._next_look:
            self._next_look = now + DEADLINE_STEP
            self._expire(now)

    def next_deadline(self) -> float | None:
        """Return when :meth:`tick` has to be called next, if nothing happens before."""
        deadlines = list(self._away.values())
        if any(dataset.held for dataset in self._roundless()):
            deadlines.append(self._next_look)
        return min(deadlines, default=None)

    # --- beginning a dataset ----------------------------------------------------------------

    def _why_too_many(self, lessee: Lessee) -> str:
        """Return why no further dataset can be begun, or nothing."""
        group = lessee.key("").group
        if sum(key.group == group for key in self.datasets) >= MOST_DATASETS:
            whose = f"the group '{group}'" if group else "a job"
            return f"{whose} may have at most {MOST_DATASETS} datasets"
        if len(self.datasets) >= MAX_DATASETS:
            return f"all groups together may have at most {MAX_DATASETS} datasets"
        return ""

    def _is_of_the_other_kind(self, lessee: Lessee, dataset: str) -> bool:
        """Return whether a name is used both with rounds and without."""
        same = (one.begun for key, one in self.datasets.items() if key.dataset == dataset)
        return any((begun.round is None) is not (lessee.round is None) for begun in same)

    @staticmethod
    def _is_newer(lessee: Lessee, begin: Begin, dataset: Dataset) -> bool:
        begun = dataset.begun
        if lessee.round is None or begun.round is None:
            return False
        said = (lessee.round, begin.generation, begin.epoch)
        return said > (begun.round, begun.generation, begun.epoch)

    def _begin_anew(
        self, lessee: Lessee, begin: Begin, old: Dataset | None, now: float
    ) -> Begun | NotYet | NotAccepted:
        if begin.done is None and lessee.round is not None:
            reason = f"'{begin.dataset}' waits for the first rank of round {lessee.round} to begin"
            return NotYet(after=ASK_AGAIN_FOR_BEGIN, reason=reason)
        if refusal := _why_malformed(begin):
            return NotAccepted(reason=refusal)
        record = BegunRecord(
            dataset=begin.dataset,
            spec=begin.spec,
            epoch=begin.epoch,
            digest=begin.digest,
            done=begin.done or (),
            round=lessee.round,
            generation=begin.generation,
            group=lessee.key(begin.dataset).group,
        )
        dataset = old.begin_again(record) if old else Dataset(record, self._effects)
        dataset.put()
        self.datasets[record.key] = dataset
        left = "no end" if dataset.pool.left is None else f"{dataset.pool.left:,} records left"
        text = f"'{begin.dataset}' begins epoch {begin.epoch} with {left}"
        number = lessee.round or 0
        self._effects.record_event(
            EventKind.DATASET_BEGUN, text, now, round=number, group=record.group
        )
        return Begun(epoch=begin.epoch)

    def _join(self, lessee: Lessee, begin: Begin, dataset: Dataset) -> Begun | NotAccepted:
        begun = dataset.begun
        if begun.round != lessee.round:
            reason = f"round {lessee.round} is over: '{begin.dataset}' is at round {begun.round}"
            return NotAccepted(reason=reason, stale=True)
        if lessee.round is None:
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
                f"{lessee.label} begins '{begin.dataset}' with another {differing} than the first "
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
    def _settle(lessee: Lessee, lease: Lease, dataset: Dataset) -> NotAccepted | None:
        if not lease.done and not lease.returned:
            return None
        if lessee.round is not None:
            return NotAccepted(reason="with rounds, shards are done when saved, not when reported")
        foreign: Shard | None = None
        if lease.epoch == dataset.begun.epoch:
            foreign = dataset.settle(
                lessee.client, lease.number, done=lease.done, returned=lease.returned
            )
        else:
            foreign = (*lease.done, *lease.returned)[0]
        if foreign is None:
            return None
        what = f"records {foreign.start} to {foreign.stop} of '{lease.dataset}'"
        return NotAccepted(reason=f"{lessee.label} does not hold a lease of {what}", stale=True)

    def _give(
        self, lessee: Lessee, lease: Lease, dataset: Dataset, now: float
    ) -> Leased | NotYet | EpochOver:
        if lessee.round is None and dataset.pool.exhausted and not dataset.held:
            if dataset.begun.epoch + 1 >= dataset.spec.epochs:
                return EpochOver(epoch=dataset.begun.epoch)
            dataset = dataset.next_epoch()
            self.datasets[dataset.begun.key] = dataset
        shards = dataset.take(
            lessee.client, lease.number, records=lease.records, shards=lease.shards, now=now
        )
        if shards or not lease.records:
            return Leased(epoch=dataset.begun.epoch, shards=tuple(shards))
        if not dataset.pool.exhausted:
            return NotYet(after=0.0, reason="skipping records that are done already")
        if dataset.held_by_others(lessee.client):
            reason = f"the last {dataset.held} shards of '{lease.dataset}' are leased to others"
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
                text = f"{client} is lost: {_shards(count)} of '{name}' can be leased again"
                self._effects.record_event(EventKind.SHARDS_RETURNED, text, now, round=0)

    def _expire(self, now: float) -> None:
        for dataset in self._roundless():
            if count := dataset.expire(now):
                text = f"{_shards(count)} of '{dataset.begun.dataset}' returned: the lease expired"
                self._effects.record_event(EventKind.SHARDS_RETURNED, text, now, round=0)


def _why_malformed(begin: Begin) -> str | None:
    """Return what is wrong with a description that decodes; None if nothing is."""
    spec = begin.spec
    if bool(spec.sizes) is bool(spec.partitions):
        return f"'{begin.dataset}' needs either pieces of a known size or partitions"
    done = begin.done or ()
    if len(done) > max(1, spec.partitions):
        return f"'{begin.dataset}' has fewer partitions than are reported as done"
    try:
        ends = [Spans.decode(numbers).end for numbers in done]
    except ValueError as error:
        return f"the done records of '{begin.dataset}' cannot be decoded: {error}"
    if not spec.partitions and max(ends, default=0) > sum(spec.sizes):
        return f"more records of '{begin.dataset}' are reported as done than it has"
    return None


def _shards(count: int) -> str:
    return f"{count} shard{'' if count == 1 else 's'}"


def _differences(begin: Begin, begun: BegunRecord) -> list[str]:
    ours, theirs = begun.spec, begin.spec
    return [n for n in ours.__struct_fields__ if getattr(ours, n) != getattr(theirs, n)]
