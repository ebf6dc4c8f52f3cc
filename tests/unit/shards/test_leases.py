"""The rules of the shard book: who may begin and lease what, and the end of leases."""

from __future__ import annotations

from collections import Counter

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from resile.master.effects import Effects
from resile.shards.leases import MOST_DATASETS, LeaseManager, Lessee
from resile.shards.protocol import (
    Begin,
    Begun,
    DatasetSpec,
    EpochOver,
    Lease,
    Leased,
    NotAccepted,
    NotYet,
    Pace,
    Shard,
    digest_of,
)
from resile.shards.records import decode_shards
from resile.shards.spans import Spans
from tests.unit.shards.model import Master

SPEC = DatasetSpec(sizes=(100,), shard_size=10, pace=Pace.TOGETHER)


def begin(
    spec: DatasetSpec = SPEC,
    *,
    leader: bool = True,
    dataset: str = "train",
    epoch: int = 0,
    generation: int = 0,
    done: Spans | None = None,
) -> Begin:
    spans = done or Spans()
    return Begin(
        dataset=dataset,
        epoch=epoch,
        generation=generation,
        spec=spec,
        digest=digest_of(spec, epoch=epoch, done=[spans]),
        done=(spans.encode(),) if leader else None,
    )


def lease(
    number: int,
    *,
    records: int = 10,
    epoch: int = 0,
    done: tuple[Shard, ...] = (),
    returned: tuple[Shard, ...] = (),
    generation: int = 0,
) -> Lease:
    return Lease(
        dataset="train",
        epoch=epoch,
        generation=generation,
        number=number,
        records=records,
        shards=1,
        done=done,
        returned=returned,
    )


def shard_of(answer: object) -> Shard:
    assert isinstance(answer, Leased), answer
    (shard,) = answer.shards
    return shard


def reason_of(answer: object) -> str:
    assert isinstance(answer, NotAccepted), answer
    return answer.reason


FIRST, SECOND = Lessee("rank-0", 1), Lessee("rank-1", 1)


def test_ranks_wait_for_the_first_one_to_say_what_is_done() -> None:
    master = Master()
    assert isinstance(master.begin(SECOND, begin(leader=False)), NotYet)
    assert isinstance(master.begin(FIRST, begin()), Begun)
    assert isinstance(master.begin(SECOND, begin(leader=False)), Begun)


def test_beginning_twice_is_beginning_once() -> None:
    master = Master()
    master.begin(FIRST, begin())
    first = shard_of(master.lease(FIRST, lease(1)))
    assert isinstance(master.begin(FIRST, begin()), Begun)
    assert shard_of(master.lease(FIRST, lease(2))) != first


def test_ranks_that_restored_different_steps_are_told_so() -> None:
    master = Master()
    master.begin(FIRST, begin(done=Spans([(0, 30)])))
    other = begin(leader=False, done=Spans([(0, 20)]))
    assert "another position in the data" in reason_of(master.begin(SECOND, other))
    larger = begin(DatasetSpec(sizes=(100,), shard_size=20), leader=False)
    assert "another shard_size" in reason_of(master.begin(SECOND, larger))


def test_only_what_is_not_done_is_leased() -> None:
    master = Master()
    master.begin(FIRST, begin(done=Spans([(0, 25), (40, 100)])))
    taken = [shard_of(master.lease(FIRST, lease(1))), shard_of(master.lease(FIRST, lease(2)))]
    assert taken == [Shard(0, 25, 30), Shard(0, 30, 40)]
    assert isinstance(master.lease(FIRST, lease(3)), EpochOver)


def test_the_same_request_gets_the_same_answer_also_from_the_next_master() -> None:
    master = Master()
    master.begin(FIRST, begin())
    first = master.lease(FIRST, lease(1))
    assert master.lease(FIRST, lease(1)) == first
    master.dies_and_returns()
    assert master.lease(FIRST, lease(1)) == first
    assert shard_of(master.lease(FIRST, lease(2))) != shard_of(first)
    late = master.lease(FIRST, lease(1))
    assert isinstance(late, NotAccepted)
    assert late.stale


def test_a_new_round_voids_all_leases_and_begins_from_what_it_restored() -> None:
    master = Master()
    master.begin(FIRST, begin())
    for number in range(1, 6):
        master.lease(FIRST, lease(number))
    later = Lessee("rank-0", 2)
    assert "not begun" in reason_of(master.lease(later, lease(1)))
    assert isinstance(master.begin(Lessee("rank-1", 2), begin(leader=False)), NotYet)
    master.begin(later, begin(done=Spans([(0, 10)])))
    assert shard_of(master.lease(later, lease(1))) == Shard(0, 10, 20)
    assert "not begun by rank-0 of round 1" in reason_of(master.lease(FIRST, lease(6)))
    stale = master.begin(FIRST, begin())
    assert isinstance(stale, NotAccepted)
    assert stale.stale


def test_state_restored_again_within_a_round_begins_again() -> None:
    master = Master()
    master.begin(FIRST, begin())
    master.lease(FIRST, lease(1))
    master.begin(FIRST, begin(generation=1))
    late = master.lease(SECOND, lease(1))
    assert isinstance(late, NotAccepted)
    assert late.stale
    assert shard_of(master.lease(FIRST, lease(2, generation=1))) == Shard(0, 0, 10)


def test_the_next_epoch_ends_the_one_before() -> None:
    master = Master()
    master.begin(FIRST, begin())
    master.lease(FIRST, lease(1))
    master.begin(FIRST, begin(epoch=1))
    assert isinstance(master.lease(SECOND, lease(1)), EpochOver)
    assert shard_of(master.lease(SECOND, lease(2, epoch=1))) == Shard(0, 0, 10)
    assert "was not begun" in reason_of(master.lease(SECOND, lease(3, epoch=2)))


def test_reports_have_no_meaning_in_a_round() -> None:
    master = Master()
    master.begin(FIRST, begin())
    shard = shard_of(master.lease(FIRST, lease(1)))
    assert "done when saved" in reason_of(master.lease(FIRST, lease(2, done=(shard,))))


def test_one_name_is_used_with_rounds_or_without() -> None:
    master = Master()
    master.begin(FIRST, begin())
    assert "another name" in reason_of(master.begin(Lessee("somebody"), begin()))


def test_a_dataset_that_makes_no_sense_is_refused() -> None:
    master = Master()
    nothing = begin(DatasetSpec(shard_size=10))
    assert "pieces of a known size or partitions" in reason_of(master.begin(FIRST, nothing))
    assert "than it has" in reason_of(master.begin(FIRST, begin(done=Spans([(90, 101)]))))
    garbled = Begin(dataset="train", spec=SPEC, digest="", done=((1,),))
    assert "cannot be decoded" in reason_of(master.begin(FIRST, garbled))
    twice = Begin(dataset="train", spec=SPEC, digest="", done=((), ()))
    assert "fewer partitions" in reason_of(master.begin(FIRST, twice))


def test_a_job_has_so_many_datasets_and_no_more() -> None:
    master = Master()
    for number in range(MOST_DATASETS):
        assert isinstance(master.begin(FIRST, begin(dataset=f"d{number}")), Begun)
    assert str(MOST_DATASETS) in reason_of(master.begin(FIRST, begin(dataset="one more")))


# --- without rounds -----------------------------------------------------------------------------

ANN, BOB = Lessee("ann"), Lessee("bob")


def test_clients_without_rounds_have_to_mean_the_same_dataset() -> None:
    master = Master()
    master.begin(ANN, begin())
    assert isinstance(master.begin(BOB, begin()), Begun)
    other = begin(DatasetSpec(sizes=(90,), shard_size=10))
    assert "another sizes" in reason_of(master.begin(BOB, other))


def test_a_lost_clients_shards_go_to_others_and_its_late_report_is_refused() -> None:
    master = Master()
    master.begin(ANN, begin())
    shard = shard_of(master.lease(ANN, lease(1)))
    master.book.client_disconnected("ann", proof_at=0.5)
    master.tick(0.4)
    assert shard_of(master.lease(BOB, lease(1))) != shard
    master.tick(0.5)
    again = shard_of(master.lease(BOB, lease(2)))
    assert again.start == shard.start
    late = master.lease(ANN, lease(2, records=0, done=(shard,)))
    assert isinstance(late, NotAccepted)
    assert late.stale


def test_a_client_that_comes_back_in_time_keeps_its_shards() -> None:
    master = Master()
    master.begin(ANN, begin())
    shard = shard_of(master.lease(ANN, lease(1)))
    master.book.client_disconnected("ann", proof_at=0.5)
    master.book.reconnected("ann")
    master.tick(1.0)
    assert isinstance(master.lease(ANN, lease(2, records=0, done=(shard,))), Leased)


def test_after_a_masters_return_clients_have_time_to_come_back() -> None:
    master = Master()
    master.begin(ANN, begin())
    shard = shard_of(master.lease(ANN, lease(1)))
    master.dies_and_returns()
    master.book.expect_reconnects(proof_at=5.0)
    master.tick(4.9)
    assert shard_of(master.lease(BOB, lease(1))) != shard
    assert master.book.next_deadline() == 5.0
    master.tick(5.0)
    assert shard_of(master.lease(BOB, lease(2))).start == shard.start


def test_a_lease_that_is_held_for_too_long_is_void() -> None:
    master = Master()
    spec = DatasetSpec(sizes=(1,), shard_size=10, patience=60.0)
    master.begin(ANN, begin(spec))
    shard = shard_of(master.lease(ANN, lease(1)))
    assert master.book.next_deadline() is not None
    master.tick(59.0)
    assert isinstance(master.lease(BOB, lease(1)), NotYet)
    master.tick(61.0)
    assert shard_of(master.lease(BOB, lease(1))).start == shard.start


def test_the_last_shards_are_waited_for_because_they_may_come_back() -> None:
    master = Master()
    spec = DatasetSpec(sizes=(1,), shard_size=10)
    master.begin(ANN, begin(spec))
    shard = shard_of(master.lease(ANN, lease(1)))
    assert isinstance(master.lease(BOB, lease(1)), NotYet)
    assert isinstance(master.lease(ANN, lease(2)), EpochOver), "nobody waits for himself"
    master.lease(ANN, lease(3, records=0, returned=(shard,)))
    assert shard_of(master.lease(BOB, lease(2))) == shard


def test_epochs_follow_each_other_when_all_of_one_is_done() -> None:
    master = Master()
    spec = DatasetSpec(sizes=(1,), shard_size=10, epochs=2)
    master.begin(ANN, begin(spec))
    shard = shard_of(master.lease(ANN, lease(1)))
    again = master.lease(ANN, lease(2, done=(shard,)))
    assert again == Leased(epoch=1, shards=(shard,))
    assert master.lease(ANN, lease(2, done=(shard,))) == again
    over = master.lease(ANN, lease(3, epoch=1, done=(shard,)))
    assert over == EpochOver(epoch=1)
    assert master.lease(ANN, lease(3, epoch=1, done=(shard,))) == over


@settings(max_examples=200, deadline=None)
@given(
    records=st.integers(0, 60),
    shard_size=st.integers(1, 20),
    epochs=st.integers(1, 2),
    shuffle=st.booleans(),
    events=st.lists(
        st.tuples(st.sampled_from(["take", "done", "back", "die", "master"]), st.integers(0, 3)),
        max_size=60,
    ),
)
def test_without_rounds_each_record_is_reported_as_done_once(
    records: int, shard_size: int, epochs: int, shuffle: bool, events: list[tuple[str, int]]
) -> None:
    spec = DatasetSpec(sizes=(records,), shard_size=shard_size, shuffle=shuffle, epochs=epochs)
    master, done = Master(), Counter[tuple[int, int]]()
    master.begin(ANN, begin(spec))
    clients = [_Client(master, number) for number in range(4)]
    for what, which in events:
        client = clients[which]
        if what == "take":
            client.take()
        elif what == "done":
            done.update(client.report())
        elif what == "back":
            client.give_back()
        elif what == "die":
            client.die()
            clients[which] = _Client(master, which + 10 * len(done) + 100)
        else:
            master.dies_and_returns()
    for client in clients:
        client.die()
    survivor = _Client(master, 99)
    while survivor.take():
        done.update(survivor.report())
    expected = Counter((epoch, record) for epoch in range(epochs) for record in range(records))
    assert done == expected


class _Client:
    """A client that takes a shard at a time."""

    def __init__(self, master: Master, name: int) -> None:
        self._master = master
        self._taker = Lessee(f"client-{name}")
        self._number = 0
        self._held: list[tuple[int, Shard]] = []

    def take(self) -> bool:
        answer = self._ask(records=15)
        if isinstance(answer, Leased):
            self._held += [(answer.epoch, shard) for shard in answer.shards]
        return isinstance(answer, Leased)

    def report(self) -> list[tuple[int, int]]:
        if not self._held:
            return []
        epoch, shard = self._held.pop()
        answer = self._ask(records=0, epoch=epoch, done=(shard,))
        assert isinstance(answer, (Leased, EpochOver)), answer
        return [(epoch, record) for record in range(shard.start, shard.stop)]

    def give_back(self) -> None:
        if self._held:
            epoch, shard = self._held.pop()
            self._ask(records=0, epoch=epoch, returned=(shard,))

    def die(self) -> None:
        self._held = []
        self._master.book.client_disconnected(self._taker.client, proof_at=self._master.now + 0.5)
        self._master.tick(self._master.now + 0.5)

    def _ask(
        self,
        *,
        records: int,
        epoch: int = 0,
        done: tuple[Shard, ...] = (),
        returned: tuple[Shard, ...] = (),
    ) -> object:
        self._number += 1
        request = lease(self._number, records=records, epoch=epoch, done=done, returned=returned)
        return self._master.lease(self._taker, request)


def test_what_groups_lease_under_one_name_is_kept_apart() -> None:
    effects, kept = Effects(), dict[str, bytes]()
    book = LeaseManager(effects)
    for group, number in (("", 1), ("a/b", 2), ("a@b", 3)):
        lessee = Lessee("rank-0", 1, group)
        assert isinstance(book.begin(lessee, begin(), now=0), Begun)
        for request in range(1, number + 1):
            assert isinstance(book.lease(lessee, lease(request), now=0), Leased)
    for key, record in effects.take().records.items():
        kept[key] = msgspec.msgpack.encode(record)
    restored = LeaseManager(Effects(), decode_shards(kept))
    for group, number in (("", 1), ("a/b", 2), ("a@b", 3)):
        answer = restored.lease(Lessee("rank-0", 1, group), lease(number + 1), now=0)
        assert isinstance(answer, Leased)
        assert answer.shards[0].start == 10 * number, "each goes on where it was"


def test_a_group_may_not_have_datasets_without_limit() -> None:
    book = LeaseManager(Effects())
    lessee = Lessee("rank-0", 1, "g")
    for number in range(MOST_DATASETS):
        assert isinstance(book.begin(lessee, begin(dataset=str(number)), now=0), Begun)
    assert "group 'g'" in reason_of(book.begin(lessee, begin(dataset="one more"), now=0))
    other = book.begin(Lessee("rank-0", 1, "h"), begin(dataset="one more"), now=0)
    assert isinstance(other, Begun)
