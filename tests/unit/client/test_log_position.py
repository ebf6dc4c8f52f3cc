"""A log that is read in several requests: every line once, in order."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resile.client.cluster.log_position import LogPosition

BEGIN = int(datetime(2024, 3, 9, 23, 59, 58, tzinfo=timezone.utc).timestamp())


def stamped(at: int, text: bytes) -> bytes:
    """A line as a kubelet sends it; ``at`` is in nanoseconds."""
    seconds, nanoseconds = divmod(at, 10**9)
    when = datetime.fromtimestamp(BEGIN + seconds, timezone.utc)
    return f"{when:%Y-%m-%dT%H:%M:%S}.{nanoseconds:09}Z ".encode() + text


def since(log: list[tuple[int, bytes]], position: LogPosition) -> list[bytes]:
    """The lines that a kubelet sends from that position on."""
    first = 0
    if position.since is not None:
        asked = datetime.strptime(position.since, "%Y-%m-%dT%H:%M:%S%z")
        first = (int(asked.timestamp()) - BEGIN) * 10**9
    return [stamped(at, text) for at, text in log if at >= first]


def read(position: LogPosition, lines: list[bytes]) -> list[bytes]:
    return [text for line in lines if (text := position.fresh(line)) is not None]


def test_nothing_read_is_asked_for_from_the_beginning() -> None:
    assert LogPosition().since is None


def test_time_is_asked_for_in_whole_seconds() -> None:
    position = LogPosition()
    assert position.fresh(stamped(1_999_999_999, b"a b")) == b"a b"
    assert position.since == "2024-03-09T23:59:59Z"


def test_lines_that_were_read_are_known_by_their_timestamps() -> None:
    position = LogPosition()
    log = [(n * 400_000_000, b"same") for n in range(8)]
    assert len(read(position, since(log[:5], position))) == 5
    position.rewind()
    assert len(since(log, position)) == 5, "two of them once more"
    assert len(read(position, since(log, position))) == 3


@pytest.mark.parametrize(
    "line", [b"2024-03-09T23:59:58.5Z", b"2024-03-10T01:59:58+02:00 x", b"2024-03-09T23:59:58Z "]
)
def test_timestamps_may_be_short_and_of_any_zone(line: bytes) -> None:
    position = LogPosition()
    assert position.fresh(line) == line.partition(b" ")[2]
    assert position.since == "2024-03-09T23:59:58Z"


@pytest.mark.parametrize(
    "line", [b"", b"failed to watch the log", b"2024-13-09T23:59:58Z no month", b"2024-03-09 a"]
)
def test_a_line_without_a_timestamp_is_told_as_it_is(line: bytes) -> None:
    position = LogPosition()
    assert position.fresh(line) == line
    assert position.since is None


TIMES = st.lists(st.integers(0, 4 * 10**9), max_size=20).map(sorted)
"""Sorted; some may be equal."""


@given(times=TIMES | st.lists(st.integers(0, 5), max_size=20).map(sorted), data=st.data())
def test_every_line_is_told_once_however_often_reading_breaks_off(
    times: list[int], data: st.DataObject
) -> None:
    log = [(at, b"%d" % number) for number, at in enumerate(times)]
    position, told = LogPosition(), []
    for _ in range(3):
        lines = since(log, position)
        position.rewind()
        told += read(position, lines[: data.draw(st.integers(0, len(lines)))])
    lines = since(log, position)
    position.rewind()
    assert told + read(position, lines) == [text for _, text in log]


def test_a_line_that_another_stream_overtook_is_told() -> None:
    """stdout and stderr are timestamped separately, and may be written in the other order."""
    log = [(5, b"a"), (20, b"b"), (10, b"c"), (30, b"d")]
    position = LogPosition()
    told = read(position, since(log[:2], position))
    position.rewind()
    assert told + read(position, since(log, position)) == [b"a", b"b", b"c", b"d"]
