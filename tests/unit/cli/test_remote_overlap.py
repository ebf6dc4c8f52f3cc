"""Going on with a log where it broke off."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from resile.platform.kubernetes.remote.overlap import Overlap

LINES = st.lists(st.sampled_from([b"a", b"b", b"c"]), max_size=12)


def take(overlap: Overlap, lines: list[bytes], now: float = 0.0) -> list[bytes]:
    return [one for line in lines for one in overlap.fresh(line, now)]


def test_what_was_read_is_not_told_again() -> None:
    overlap = Overlap()
    assert take(overlap, [b"1", b"2", b"3"]) == [b"1", b"2", b"3"]
    overlap.again(0.0)
    assert take(overlap, [b"2", b"3", b"4", b"5"]) == [b"4", b"5"]


def test_an_answer_that_begins_after_the_break_is_all_new() -> None:
    overlap = Overlap()
    take(overlap, [b"1", b"2"])
    overlap.again(0.0)
    assert take(overlap, [b"3", b"4"]) == [b"3", b"4"]


def test_lines_from_before_the_break_are_not_looked_for() -> None:
    overlap = Overlap()
    take(overlap, [b"1", b"2"], now=1.0)
    take(overlap, [b"3"], now=9.0)
    overlap.again(5.0)
    assert take(overlap, [b"1", b"2"]) == [b"1", b"2"], "the program printed them once more"
    assert overlap.last == 0.0


def test_lines_that_are_held_back_come_at_the_end() -> None:
    overlap = Overlap()
    take(overlap, [b"x", b"y", b"x"])
    overlap.again(0.0)
    assert take(overlap, [b"x"]) == [], "it may be the first or the last x"
    assert overlap.rest(0.0) == []
    overlap.again(0.0)
    assert take(overlap, [b"x", b"y"]) == []
    assert overlap.rest(0.0) == [b"y"], "the last x had been read, y is new"


@given(before=LINES, after=LINES, again=st.integers(0, 12))
def test_every_line_is_told_and_none_twice_unless_it_looks_the_same(
    before: list[bytes], after: list[bytes], again: int
) -> None:
    """With numbered lines, which are all different, it is exact."""
    numbered = [b"%d" % n for n in range(len(before) + len(after))]
    overlap = Overlap()
    told = take(overlap, numbered[: len(before)])
    overlap.again(0.0)
    told += take(overlap, numbered[max(0, len(before) - again) :])
    told += overlap.rest(0.0)
    assert told == numbered


@given(before=LINES, after=LINES, again=st.integers(0, 12))
def test_lines_that_look_alike_are_never_told_too_often(
    before: list[bytes], after: list[bytes], again: int
) -> None:
    overlap = Overlap()
    told = take(overlap, before)
    overlap.again(0.0)
    told += take(overlap, [*before[max(0, len(before) - again) :], *after])
    told += overlap.rest(0.0)
    assert told[: len(before)] == before
    missing = len(before) + len(after) - len(told)
    assert missing >= 0
    assert told[len(before) :] == after[missing:]
