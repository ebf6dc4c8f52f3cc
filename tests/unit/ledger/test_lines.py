"""A ledger's lines decode to exactly what was encoded, also in their shorter form."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from resile.ledger.lines import TrainedLine, decode_line, encode_line, trained

indices = st.lists(st.integers(0, 10**9) | st.integers(0, 20))


@given(indices, st.integers(0, 10**6), st.integers(0, 100), st.none() | st.integers(0, 100))
def test_what_is_written_is_read(ids: list[int], step: int, epoch: int, total: int | None) -> None:
    line = decode_line(encode_line(trained(step, epoch, indices=ids, total=total)))
    assert isinstance(line, TrainedLine)
    assert (line.step, line.epoch, line.total) == (step, epoch, total)
    assert list(line.indices()) == ids
    assert len(line) == len(ids)


def test_neighbours_are_written_as_a_range() -> None:
    assert trained(1, 0, indices=[*range(5, 500), *range(7)], total=None).ranges == [
        (5, 500),
        (0, 7),
    ]


def test_scattered_indices_are_written_one_by_one() -> None:
    assert trained(1, 0, indices=[5, 3, 9], total=None).ids == [5, 3, 9]
