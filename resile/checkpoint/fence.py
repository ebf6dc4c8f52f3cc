"""Storage fencing: the rounds that train in a checkpoint folder, and the step each started from.

A node that is cut off from its master may keep training in a round that is over, while the rest of
the job trains in the next one. Both reach the same storage, so it is fenced as well: each round
writes a *claim* to the folder, a small file of its own with the step it started from:

    DIR/fence/r1-9b2e7c10.json      round 1, from step 0
              r2-1f0c9a3e.json      round 2, from step 100

From then on older rounds are *superseded*: what they saved up to step 100 is what round 2 continued
from and may still be published, for instance by a writer that takes minutes. What they save after
it is not continued by any round: publishing it is refused, and if it was published nevertheless
(the last check of the fence and the publication are two operations) restoring skips it and pruning
removes it.

Each group of a job has a fence of its own, in its own folder (:mod:`resile.checkpoint.names`): its
rounds are counted separately, so round 5 of one group has nothing to do with round 3 of another.

No round overwrites another round's claim, so claims need no lock and no compare-and-swap. Claims of
one run are ordered by their rounds. Between runs (a restarted job counts its rounds from one) they
are ordered by time, and each new claim gets a time after all existing ones.

A folder also belongs to a job: a second job must not take it over by mistake. Jobs are identified
by their ids, and many ids are not names: the default ``none``, the random ones of ``--standalone``,
the numbers of a batch system. A job with such an id gets another one each time it is submitted, so
it is never refused. Only a job with a name is refused, in a folder of a job with another name.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta

from resile.checkpoint.errors import NotAStorageFile, NotOnStorage, PartDamaged, Superseded
from resile.checkpoint.names import ENTRY_ENDING, fence_folder, is_attempt
from resile.checkpoint.storage.base import Storage, read_whole
from resile.decoding import DecodeError, decode_json
from resile.group_name import MAIN_GROUP, describe_group

__all__ = [
    "RoundClaim",
    "StorageFence",
    "TAKE_OVER_VARIABLE",
    "belongs_to_another_job",
    "check",
    "claim",
    "is_job_name",
    "read_fence",
    "refusal",
]


log = logging.getLogger("resile.checkpoint")

MOST_CLAIMS = 64
"""Older claims are removed: no writer is that many rounds late."""

_AFTER = 0.001
"""Minimum seconds between the times of two claims."""

_FURTHER_TRY = re.compile(r"(r\d+-[0-9a-f]+)-\d+")


class RoundClaim(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A round's record that it trains in the folder."""

    attempt: str
    """The attempt name under which the round writes its checkpoints."""

    run: str
    """The run that the round number counts in; unique to that run."""

    round: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    step: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    """The step it continued from."""

    job: str = ""
    time: Annotated[float, Meta(ge=0, le=253_402_300_799)]
    group: str = MAIN_GROUP
    """The group that the round belongs to; claims of other groups are ignored."""

    def follows(self, other: RoundClaim) -> bool:
        """Whether this claim supersedes the other."""
        if self.run == other.run and self.round != other.round:
            return self.round > other.round
        return self.time > other.time

    @property
    def sentence(self) -> str:
        """The claim as text for messages."""
        job = f" of job '{self.job}'" if self.job else ""
        group = f" of {describe_group(self.group)}" if self.group else ""
        return f"round {self.round}{group}{job} continued from step {self.step}"


@dataclass(frozen=True)
class StorageFence:
    """All claims of a group in a folder."""

    claims: tuple[RoundClaim, ...] = ()

    @property
    def latest(self) -> RoundClaim | None:
        """The claim that no other one supersedes: the round that trains here now."""
        return next(
            (one for one in self.claims if not any(other.follows(one) for other in self.claims)),
            None,
        )

    def superseded(self, attempt: str, step: int) -> str:
        """The reason why a step of this attempt must not be used; empty if it may be."""
        own = self.claim_of(attempt)
        return "" if own is None else self._passed_over(own, step)

    def superseded_round(self, run: str, round_: int, step: int) -> str:
        """The same for a snapshot in memory, which is labelled only with its round."""
        own = [one for one in self.claims if (one.run, one.round) == (run, round_)]
        return next((why for one in own if (why := self._passed_over(one, step))), "")

    def _passed_over(self, own: RoundClaim, step: int) -> str:
        later = [one for one in self.claims if one.follows(own) and one.step < step]
        if not later:
            return ""
        return f"round {own.round} was superseded: {min(later, key=lambda c: c.step).sentence}"

    def claim_of(self, attempt: str) -> RoundClaim | None:
        """The claim of the round that an attempt belongs to, if there is one."""
        names = {attempt, _FURTHER_TRY.sub(r"\1", attempt)}
        return next((one for one in self.claims if one.attempt in names), None)


def read_fence(
    storage: Storage,
    group: str = MAIN_GROUP,
    *,
    known: StorageFence | None = None,
    tell: Callable[[str], None] = log.warning,
) -> StorageFence:
    """Read all claims of a group; unreadable ones are reported to ``tell`` and ignored.

    ``known``: claims read earlier. Claims never change, so they are not read again.
    """
    folder = fence_folder(group)
    try:
        items = storage.list(folder)
    except NotOnStorage:
        return StorageFence()
    read_before = {one.attempt + ENTRY_ENDING: one for one in known.claims} if known else {}
    claims = []
    for item in items:
        if item.name.endswith(ENTRY_ENDING) and not item.name.startswith("."):
            try:
                again = read_before.get(item.name)
                claims.append(again or _read(storage, f"{folder}/{item.name}", group))
            except (NotOnStorage, NotAStorageFile, PartDamaged, DecodeError) as error:
                tell(f"{storage.address}/{folder}/{item.name} is ignored: {error}")
    return StorageFence(tuple(claims))


def claim(
    storage: Storage,
    mine: RoundClaim,
    *,
    tell: Callable[[str], None] = log.warning,
    now: Callable[[], float] = time.time,
) -> StorageFence:
    """Write this round's claim; returns the fence including it. An existing claim is not
    changed."""
    if not is_attempt(mine.attempt):
        raise ValueError(f"an attempt's name is letters, digits, '-' and '_', not {mine.attempt!r}")
    fence = read_fence(storage, mine.group, tell=tell)
    if any(one.attempt == mine.attempt for one in fence.claims):
        return fence
    latest = max((one.time for one in fence.claims), default=0.0)
    timed = msgspec.structs.replace(mine, time=max(now(), latest + _AFTER))
    text = memoryview(msgspec.json.encode(timed))
    storage.write(_path(timed), [text])
    claims = (*fence.claims, timed)
    _remove_old(storage, claims)
    return StorageFence(claims)


def check(fence: StorageFence, *, attempt: str, step: int, storage: Storage) -> None:
    """Raise :class:`Superseded` if this attempt may not publish this step."""
    if why := fence.superseded(attempt, step):
        raise Superseded(f"step {step} is not published in {storage.address}: {why}")


def _path(claim: RoundClaim) -> str:
    return f"{fence_folder(claim.group)}/{claim.attempt}{ENTRY_ENDING}"


def _read(storage: Storage, path: str, group: str) -> RoundClaim:
    found = decode_json(read_whole(storage, path), RoundClaim)
    if found.group != group:
        raise PartDamaged(f"it is a claim of {describe_group(found.group)}")
    return found


def _remove_old(storage: Storage, claims: Sequence[RoundClaim]) -> None:
    oldest = sorted(claims, key=lambda one: one.time)[:-MOST_CLAIMS]
    storage.delete(_path(one) for one in oldest)


TAKE_OVER_VARIABLE = "RESILE_TAKE_OVER"

_NO_NAME = re.compile(r"none|[0-9]*|[0-9a-f]{8,}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.I)


def is_job_name(job: str) -> bool:
    """Whether an id is a chosen name, which stays the same when the job is restarted."""
    return _NO_NAME.fullmatch(job) is None


def belongs_to_another_job(owner: str, job: str) -> bool:
    """Whether ``job`` must not train in a folder with checkpoints of ``owner``."""
    return owner != job and is_job_name(owner) and is_job_name(job)


def refusal(address: str, owner: str, job: str) -> str:
    """The error text for a folder that belongs to another job."""
    return (
        f"{address} holds checkpoints of job '{owner}', and this is job '{job}': it would continue "
        "from them, and prune them later. Give this job a folder of its own. To continue "
        f"that training on purpose, take the folder over: Checkpointer(..., take_over=True), or "
        f"{TAKE_OVER_VARIABLE}=1 in the environment for this launch only"
    )
