"""The samples that count as trained, and that every error in a ledger is found."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from resile.ledger import Ledger, LedgerDamaged, LedgerVerdict, NoLedger, check, read_ledger
from resile.ledger.check import Extent


def worker(
    folder: Path, round: str, *, rank: int = 0, world: int = 1, length: int | None = 8
) -> Ledger:
    return Ledger(folder, length=length, rank=rank, world=world, round=round)


def verdict(folder: Path, *, epochs: int | None = None) -> LedgerVerdict:
    return check(read_ledger(folder), epochs=epochs)


def train(ledger: Ledger, first: int, *batches: Sequence[int], epoch: int = 0) -> None:
    for step, batch in enumerate(batches, start=first):
        ledger.record(step, epoch, batch, total=len(batch))


def test_an_epoch_trained_once_is_complete(tmp_path: Path) -> None:
    train(worker(tmp_path, "1"), 1, [3, 1, 0, 2], [4, 5, 6, 7])
    (stream,) = verdict(tmp_path, epochs=1).streams
    assert stream.sound
    assert [epoch.extent for epoch in stream.epochs] == [Extent.COMPLETE]
    assert (stream.steps, stream.lost, stream.rounds) == (2, 0, 1)


def test_an_epoch_under_way_is_sound_unless_more_was_asked_for(tmp_path: Path) -> None:
    train(worker(tmp_path, "1"), 1, [0, 1])
    assert verdict(tmp_path).sound
    assert verdict(tmp_path).streams[0].epochs[0].extent is Extent.OPEN
    assert verdict(tmp_path, epochs=1).streams[0].faults == ["0 epochs are complete, 1 should be"]


def test_a_gap_is_a_fault_once_the_next_epoch_has_begun(tmp_path: Path) -> None:
    ledger = worker(tmp_path, "1")
    train(ledger, 1, [0, 1, 2], [5, 6, 7])
    train(ledger, 3, [0], epoch=1)
    epoch = verdict(tmp_path).streams[0].epochs[0]
    assert not epoch.sound
    assert (epoch.missing, epoch.gaps) == (2, [(3, 5)])


def test_an_index_trained_twice_is_named_with_its_places(tmp_path: Path) -> None:
    train(worker(tmp_path, "1"), 1, [0, 1, 2], [2, 3])
    (repeat,) = verdict(tmp_path).streams[0].epochs[0].repeats
    assert repeat.index == 2
    assert [(place.step, place.rank, place.round) for place in repeat.places] == [
        (1, 0, "1"),
        (2, 0, "1"),
    ]


def test_an_index_that_the_data_do_not_have_is_named(tmp_path: Path) -> None:
    train(worker(tmp_path, "1"), 1, [0, 8], range(5, 12))
    epoch = verdict(tmp_path).streams[0].epochs[0]
    assert not epoch.sound
    assert [one.index for one in epoch.strays] == [8, 9, 10, 11]


def test_steps_lost_by_a_crash_do_not_count_and_their_repetition_does(tmp_path: Path) -> None:
    train(worker(tmp_path, "1"), 1, [0, 1], [2, 3], [4, 5])
    second = worker(tmp_path, "2")
    second.resumed(1, of="1")
    train(second, 2, [2, 3], [4, 5], [6, 7])
    (stream,) = verdict(tmp_path, epochs=1).streams
    assert stream.sound
    assert stream.lost == 2


def test_a_round_of_another_world_size_is_another_one_whatever_its_name(tmp_path: Path) -> None:
    train(worker(tmp_path, "1"), 1, [0, 1])
    for rank in (1, 0):
        ledger = worker(tmp_path, "1", rank=rank, world=2)
        ledger.resumed(1, of="1")
        ledger.record(2, 0, range(2 + 3 * rank, 5 + 3 * rank), total=6)
    (stream,) = verdict(tmp_path, epochs=1).streams
    assert stream.sound, stream
    assert stream.rounds == 2


def test_a_round_that_resumes_from_nothing_starts_all_over(tmp_path: Path) -> None:
    train(worker(tmp_path, "1"), 1, [0, 1], [2, 3])
    train(worker(tmp_path, "2"), 1, range(8))
    assert verdict(tmp_path, epochs=1).sound


def test_the_state_that_was_restored_decides_whose_steps_count(tmp_path: Path) -> None:
    """A round that resumed from an old step is itself superseded when a node returns that holds a
    newer one."""
    train(worker(tmp_path, "1"), 1, [0, 1], [2, 3], [4, 5])
    second = worker(tmp_path, "2")
    second.resumed(1, of="1")
    train(second, 2, [2, 3])
    third = worker(tmp_path, "3")
    third.resumed(3, of="1")
    train(third, 4, [6, 7])
    (stream,) = verdict(tmp_path, epochs=1).streams
    assert stream.sound
    assert stream.lost == 1


def test_without_a_name_the_round_before_is_meant(tmp_path: Path) -> None:
    train(worker(tmp_path, "1"), 1, [0, 1], [2, 3])
    second = worker(tmp_path, "2")
    second.resumed(1)
    train(second, 2, range(2, 8))
    assert verdict(tmp_path, epochs=1).sound


def test_a_process_may_restore_again_while_it_runs(tmp_path: Path) -> None:
    ledger = worker(tmp_path, "1")
    train(ledger, 1, [0, 1], [2, 3])
    kept = ledger.round
    train(ledger, 3, [4, 5])
    ledger.resumed(2, of=kept)
    assert ledger.round != kept
    train(ledger, 3, range(4, 8))
    assert verdict(tmp_path, epochs=1).sound


def test_resuming_from_what_nobody_recorded_is_a_fault(tmp_path: Path) -> None:
    ledger = worker(tmp_path, "2")
    ledger.resumed(5, of="1")
    train(ledger, 6, range(8))
    (fault,) = verdict(tmp_path).streams[0].faults
    assert "round 2 resumed from step 5 of round 1, which is not in the ledger" in fault


def test_resuming_from_the_state_before_the_first_step_is_none(tmp_path: Path) -> None:
    ledger = worker(tmp_path, "2")
    ledger.resumed(0)
    train(ledger, 1, range(8))
    assert verdict(tmp_path, epochs=1).sound


def test_rounds_of_one_name_are_told_apart_by_their_ranks(tmp_path: Path) -> None:
    for _ in range(2):
        for rank in range(2):
            ledger = worker(tmp_path, "same", rank=rank, world=2)
            ledger.record(1, 0, range(4 * rank, 4 * rank + 4), total=8)
    (stream,) = verdict(tmp_path, epochs=1).streams
    assert stream.sound
    assert stream.rounds == 2


def test_ranks_that_resumed_from_different_steps_are_named(tmp_path: Path) -> None:
    for rank in range(2):
        worker(tmp_path, "1", rank=rank, world=2).record(1, 0, [rank], total=2)
    for rank in range(2):
        ledger = worker(tmp_path, "2", rank=rank, world=2)
        ledger.resumed(1 - rank, of="1")
    faults = verdict(tmp_path).streams[0].faults
    assert "the ranks of round 2 resumed from different steps (rank 0: step 1, rank 1: step 0)" in (
        faults
    )


def test_the_last_step_is_under_way_until_all_ranks_have_recorded_it(tmp_path: Path) -> None:
    first, second = (worker(tmp_path, "1", rank=rank, world=2) for rank in (0, 1))
    first.record(1, 0, [0, 1], total=4)
    second.record(1, 0, [2, 3], total=4)
    first.record(2, 0, [4, 5], total=4)
    (stream,) = verdict(tmp_path).streams
    assert stream.sound
    assert (stream.steps, stream.epochs[0].trained) == (1, 4)
    assert not verdict(tmp_path, epochs=1).sound
    second.record(2, 0, [6, 7], total=4)
    assert verdict(tmp_path, epochs=1).sound


def test_a_share_that_a_rank_did_not_record_is_found_in_an_epoch_under_way(tmp_path: Path) -> None:
    first, second = (worker(tmp_path, "1", rank=rank, world=2) for rank in (0, 1))
    first.record(1, 0, [0, 1], total=4)
    first.record(2, 0, [4, 5], total=4)
    second.record(2, 0, [6, 7], total=4)
    (fault,) = verdict(tmp_path).streams[0].faults
    assert fault == "step 1 trained 4 samples of epoch 0, but 2 are recorded (by ranks 0)"


def test_a_step_that_nobody_recorded_is_found(tmp_path: Path) -> None:
    ledger = worker(tmp_path, "1")
    train(ledger, 1, [0])
    train(ledger, 3, [1])
    train(ledger, 6, [2])
    assert verdict(tmp_path).streams[0].faults == [
        "step 2 was not recorded by any worker",
        "steps 4 to 5 were not recorded by any worker",
    ]


def test_what_is_dropped_at_an_epochs_end_is_less_than_a_batch(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, length=8, drops=True, rank=0, world=1, round="1")
    train(ledger, 1, [0, 1, 2], [3, 4, 5])
    train(ledger, 3, [0, 1, 2], epoch=1)
    first, second = verdict(tmp_path).streams[0].epochs
    assert (first.extent, first.dropped) == (Extent.COMPLETE, 2)
    assert (second.extent, second.dropped) == (Extent.OPEN, 0)


def test_data_without_a_known_length_may_have_no_holes(tmp_path: Path) -> None:
    ledger = worker(tmp_path, "1", length=None)
    train(ledger, 1, [0, 1], [4, 5])
    train(ledger, 3, [0], epoch=1)
    assert verdict(tmp_path).streams[0].epochs[0].gaps == [(2, 4)]


def test_streams_are_judged_apart(tmp_path: Path) -> None:
    for name in ("one", "other"):
        train(Ledger(tmp_path, name, length=2, rank=0, world=1, round="1"), 1, [0, 1])
    assert [stream.name for stream in verdict(tmp_path, epochs=1).streams] == ["one", "other"]
    assert verdict(tmp_path, epochs=1).sound


def test_a_last_line_cut_off_by_a_crash_is_left_out(tmp_path: Path) -> None:
    train(worker(tmp_path, "1"), 1, [0, 1], [2, 3])
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-5])
    assert verdict(tmp_path).streams[0].steps == 1


def test_any_other_broken_line_is_named(tmp_path: Path) -> None:
    train(worker(tmp_path, "1"), 1, [0, 1], [2, 3])
    (file,) = tmp_path.iterdir()
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(lines[0] + b'{"type":"trained"}\n' + lines[2])
    with pytest.raises(LedgerDamaged, match=rf"{file}, line 2, is invalid"):
        read_ledger(tmp_path)


def test_a_folder_without_a_ledger_says_so(tmp_path: Path) -> None:
    with pytest.raises(NoLedger, match="there is no ledger in"):
        read_ledger(tmp_path)
