"""Which parts a step needs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from resile.checkpoint.part import PartHeader, PartKind
from resile.train.checkpoint.restore.select_source import is_complete, missing_parts


def rank(index: int, world: int) -> PartHeader:
    return PartHeader(step=1, kind=PartKind.RANK, index=index, count=world, world=world)


def replica(index: int, count: int, world: int) -> PartHeader:
    return PartHeader(step=1, kind=PartKind.REPLICA, index=index, count=count, world=world)


@given(st.integers(1, 6), st.integers(1, 4), st.data())
def test_it_is_complete_with_all_ranks_and_one_nodes_replicas(
    world: int, count: int, data: st.DataObject
) -> None:
    parts = [rank(k, world) for k in range(world)] + [
        replica(j, count, world) for j in range(count)
    ]
    assert is_complete(data.draw(st.permutations(parts)))
    gone = data.draw(st.sampled_from(parts))
    rest = [part for part in parts if part is not gone]
    assert not is_complete(rest)
    if len(rest) > world or gone.kind is PartKind.RANK:
        assert missing_parts(rest) == (gone.name,)


def test_replicas_of_nodes_with_different_numbers_of_workers_do_not_add_up() -> None:
    ranks = [rank(k, 3) for k in range(3)]
    torn = [*ranks, replica(0, 2, 3), replica(1, 3, 3)]
    assert missing_parts(torn) == ("replica-00001-of-00002",)
    assert is_complete([*torn, replica(0, 1, 3)])


def test_copies_of_a_part_from_several_nodes_are_no_trouble() -> None:
    assert is_complete([rank(0, 1), rank(0, 1), replica(0, 1, 1), replica(0, 1, 1)])


def test_nothing_lacks_everything() -> None:
    assert missing_parts([]) == ("every part",)
    assert missing_parts([rank(0, 1)]) == ("the replica parts of any node",)
