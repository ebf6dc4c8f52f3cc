"""Which step is copied, and whether copies keep up, compared with the whole history."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from resile.checkpoint.part import PartKind
from resile.snapshots.peers.copy_progress import (
    STARVING_AFTER,
    STARVING_FOR,
    CopyProgress,
)
from resile.snapshots.peers.replicator import MOST_SKIPPED, skipped_after
from resile.snapshots.slots import Label, PartPlace

PARTS = 3


def label(rank: int, step: int, round: int = 1) -> Label:
    place = PartPlace(kind=PartKind.RANK, index=rank, count=PARTS)
    return Label(place=place, step=step, round=round, world=PARTS)


events = st.lists(st.tuples(st.sampled_from(["save", "copy"]), st.integers(0, PARTS - 1)))


@given(events)
def test_a_step_is_copied_when_every_part_of_it_was_acknowledged(
    history: list[tuple[str, int]],
) -> None:
    """Each worker saves step after step; a copy takes what was saved last, as the copier does."""
    progress = CopyProgress()
    saved: dict[int, int] = dict.fromkeys(range(PARTS), 0)
    versions: dict[int, int] = {}
    there: dict[int, set[int]] = {}
    for what, rank in history:
        if what == "save" and saved[rank] <= min(saved.values()) + 1:
            saved[rank] += 1
            versions[rank] = progress.saved(label(rank, saved[rank]), parts=PARTS, now=0.0)
        elif what == "copy" and rank in versions:
            progress.acknowledged(label(rank, saved[rank]), version=versions[rank])
            there.setdefault(saved[rank], set()).add(rank)
        whole = [step for step, ranks in there.items() if len(ranks) == PARTS]
        assert progress.copied == max(whole, default=None)


def test_a_part_that_is_saved_again_has_to_be_copied_again() -> None:
    progress = CopyProgress()
    first = [progress.saved(label(rank, 10), parts=2, now=0.0) for rank in (0, 1)]
    for rank in (0, 1):
        progress.acknowledged(label(rank, 10), version=first[rank])
    assert progress.copied == 10
    again = progress.saved(label(1, 10), parts=2, now=0.0)
    assert progress.copied is None
    progress.acknowledged(label(1, 10), version=first[1])
    assert progress.copied is None, "what arrived late is of the first time"
    progress.acknowledged(label(1, 10), version=again)
    assert progress.copied == 10


def test_a_step_of_an_earlier_round_says_nothing_about_the_same_step_of_a_later_one() -> None:
    progress = CopyProgress()
    version = progress.saved(label(0, 20, round=1), parts=1, now=0.0)
    progress.acknowledged(label(0, 20, round=1), version=version)
    assert progress.copied == 20
    progress.saved(label(0, 8, round=2), parts=1, now=0.0)
    assert progress.copied is None


def snapshots(progress: CopyProgress, count: int, *, every: float, copied: bool) -> float:
    for number in range(count):
        version = progress.saved(label(0, number + 1), parts=1, now=number * every)
        if copied:
            progress.acknowledged(label(0, number + 1), version=version)
    return (count - 1) * every


def test_copies_that_arrive_before_the_next_snapshot_keep_up() -> None:
    progress = CopyProgress()
    assert progress.lag(snapshots(progress, 50, every=1.0, copied=True)) is None


def test_copies_that_never_arrive_in_time_fall_behind() -> None:
    progress = CopyProgress()
    count = STARVING_AFTER + 1 + int(STARVING_FOR)
    lag = progress.lag(snapshots(progress, count, every=1.0, copied=False))
    assert lag is not None
    assert (lag.snapshots, lag.seconds) == (count - 1, count - 1.0)


def test_snapshots_of_a_few_moments_are_not_worth_a_word() -> None:
    progress = CopyProgress()
    assert progress.lag(snapshots(progress, 50, every=0.01, copied=False)) is None


def test_tries_become_rarer_while_none_succeeds() -> None:
    assert [skipped_after(failures) for failures in range(7)] == [0, 1, 3, 7, 15, 31, 31]
    assert skipped_after(10**6) == MOST_SKIPPED
