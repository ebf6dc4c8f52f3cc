"""Spans, the order of shards and the pool they are taken from: pure, over large spaces."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resile.shards.pool import LONGEST_WALK, Grid, Permutation, Pool, fair_share
from resile.shards.protocol import DatasetSpec, Shard
from resile.shards.spans import Spans, runs

SPANS = st.lists(st.tuples(st.integers(0, 80), st.integers(0, 80)), max_size=20)


def members(spans: list[tuple[int, int]]) -> set[int]:
    return {position for start, stop in spans for position in range(start, stop)}


@given(SPANS)
def test_spans_hold_what_was_added_in_the_fewest_pieces(added: list[tuple[int, int]]) -> None:
    spans, expected = Spans(added), members(added)
    assert members(list(spans)) == expected
    assert len(spans) == len(expected)
    assert spans.end == max(expected, default=-1) + 1
    pieces = list(spans)
    assert all(a[1] < b[0] for a, b in pairwise(pieces))
    assert all((position in spans) is (position in expected) for position in range(82))


@given(SPANS, SPANS)
def test_spans_unite_like_sets(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    spans = Spans(one)
    spans.unite(Spans(other))
    assert spans == Spans(one + other)


@given(SPANS, st.integers(0, 90), st.integers(0, 90))
def test_spans_know_what_is_missing(added: list[tuple[int, int]], start: int, stop: int) -> None:
    gaps = Spans(added).missing(start, stop)
    assert members(gaps) == set(range(start, stop)) - members(added)
    assert gaps == list(Spans(gaps))


@given(SPANS)
def test_spans_survive_being_told(added: list[tuple[int, int]]) -> None:
    assert Spans.decode(Spans(added).encode()) == Spans(added)


@pytest.mark.parametrize("numbers", [(1,), (0, 0), (-1, 2), (0, -3)])
def test_what_is_no_encoding_of_spans_is_refused(numbers: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="span"):
        Spans.decode(numbers)


@given(st.lists(st.integers(0, 30), max_size=30))
def test_runs_keep_every_position_in_its_order(positions: list[int]) -> None:
    assert [p for start, stop in runs(positions) for p in range(start, stop)] == positions


@given(st.integers(1, 700), st.integers(), st.integers(0, 5))
def test_an_epochs_order_has_each_shard_once(count: int, seed: int, epoch: int) -> None:
    order = Permutation(count, seed=seed, epoch=epoch)
    assert sorted(order[place] for place in range(count)) == list(range(count))


def test_orders_of_two_epochs_and_of_two_seeds_differ() -> None:
    def order(seed: int, epoch: int) -> list[int]:
        made = Permutation(1000, seed=seed, epoch=epoch)
        return [made[place] for place in range(1000)]

    assert len({tuple(order(*which)) for which in ((0, 0), (0, 1), (1, 0))}) == 3
    assert order(3, 4) == order(3, 4)


def test_neighbours_are_torn_apart_by_shuffling() -> None:
    order = Permutation(10_000, seed=1, epoch=0)
    places = [order[place] for place in range(10_000)]
    neighbours = sum(abs(a - b) == 1 for a, b in pairwise(places))
    assert neighbours < 30
    assert abs(sum(places[:5000]) / 5000 - 5000) < 150


@given(st.lists(st.integers(0, 40), min_size=1, max_size=8), st.integers(1, 12))
def test_shards_cover_all_pieces_and_cross_none(sizes: list[int], shard_size: int) -> None:
    grid = Grid(sizes, shard_size)
    shards = [grid[number] for number in range(len(grid))]
    covered = [position for start, stop in shards for position in range(start, stop)]
    assert covered == list(range(sum(sizes)))
    ends, end = set(), 0
    for size in sizes:
        end += size
        ends.add(end)
    for start, stop in shards:
        assert 0 < stop - start <= shard_size
        assert not any(start < end < stop for end in ends)


@given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=5),
    shard_size=st.integers(1, 12),
    done=SPANS,
    wanted=st.lists(st.tuples(st.integers(1, 30), st.integers(1, 4)), max_size=60),
    back=st.sets(st.integers(0, 59)),
    shuffle=st.booleans(),
)
def test_a_pool_hands_out_each_record_once_and_goes_on_from_its_state(
    sizes: list[int],
    shard_size: int,
    done: list[tuple[int, int]],
    wanted: list[tuple[int, int]],
    back: set[int],
    shuffle: bool,
) -> None:
    total = sum(sizes)
    spans = Spans((start, min(stop, total)) for start, stop in done)
    spec = DatasetSpec(sizes=tuple(sizes), shard_size=shard_size, shuffle=shuffle)
    pool = Pool(spec, epoch=0, done=[spans])
    given_out: Counter[int] = Counter()
    for turn, (records, shards) in enumerate(wanted):
        taken = pool.take(records=records, shards=shards)
        assert len(taken) <= shards
        assert sum(len(shard) for shard in taken) <= records
        if turn in back:
            pool.put_back(taken)
        else:
            given_out.update(p for shard in taken for p in range(shard.start, shard.stop))
        pool = Pool(spec, epoch=0, done=[spans], state=pool.state())
    while not pool.exhausted:
        taken = pool.take(records=7, shards=3)
        given_out.update(p for shard in taken for p in range(shard.start, shard.stop))
    assert pool.left == 0
    assert given_out == Counter(set(range(total)) - members(list(spans)))


@given(
    done=st.lists(SPANS, min_size=1, max_size=4),
    shard_size=st.integers(1, 10),
    takes=st.integers(1, 60),
)
def test_a_stream_gives_each_partition_its_turn_and_each_offset_once(
    done: list[list[tuple[int, int]]], shard_size: int, takes: int
) -> None:
    spec = DatasetSpec(partitions=len(done), shard_size=shard_size)
    spans = [Spans(one) for one in done]
    pool = Pool(spec, epoch=0, done=spans)
    given_out: list[Counter[int]] = [Counter() for _ in done]
    for _ in range(takes):
        for shard in pool.take(records=shard_size, shards=1):
            given_out[shard.partition].update(range(shard.start, shard.stop))
        pool = Pool(spec, epoch=0, done=spans, state=pool.state())
    for found, before in zip(given_out, spans, strict=True):
        assert set(found.values()) <= {1}
        assert not any(offset in before for offset in found)
        if found:
            missing = Spans([(o, o + 1) for o in found])
            missing.unite(before)
            assert not missing.missing(0, max(found) + 1), "no offset was passed over"


def test_a_pool_that_is_almost_done_does_not_pass_over_everything_in_one_call() -> None:
    total = LONGEST_WALK * 2 + 1
    spec = DatasetSpec(sizes=(total,), shard_size=1)
    pool = Pool(spec, epoch=0, done=[Spans([(0, total - 1)])])
    answers = [pool.take(records=1, shards=1) for _ in range(3)]
    assert answers == [[], [], [Shard(0, total - 1, total)]]
    assert pool.exhausted


@given(st.integers(0, 10**6), st.integers(1, 200), st.integers(1, 5000))
def test_a_fair_share_is_never_nothing_and_never_more_than_a_shard(
    left: int, clients: int, shard_size: int
) -> None:
    assert 1 <= fair_share(left, clients=clients, shard_size=shard_size) <= shard_size


def ends_of_clients(speeds: list[float], *, shard_size: int, cut: bool) -> list[float]:
    """Clients of different speeds lease until nothing is left; time is records over speed."""
    left, ends = 100_000, [0.0] * len(speeds)
    while left:
        client = min(range(len(speeds)), key=ends.__getitem__)
        fair = fair_share(left, clients=len(speeds), shard_size=shard_size)
        taken = min(left, fair if cut else shard_size)
        left -= taken
        ends[client] += taken / speeds[client]
    return ends


@pytest.mark.parametrize("slow", [1.0, 0.5, 0.25])
def test_shards_get_smaller_so_that_slow_clients_end_with_the_others(slow: float) -> None:
    speeds = [1.0, 1.0, 1.0, slow]
    even = ends_of_clients(speeds, shard_size=2000, cut=True)
    assert max(even) - min(even) < 0.05 * max(even)
    whole = ends_of_clients(speeds, shard_size=2000, cut=False)
    assert max(whole) - min(whole) > max(even) - min(even)
