"""Workers' bytes on one console: prefixes, unfinished lines, carriage returns, characters."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from resile.agent.console import LineMerger, LineSource, complete_utf8_length


def merged(*writes: tuple[LineSource, bytes]) -> bytes:
    merger = LineMerger()
    return b"".join(merger.merge(source, data) for source, data in writes)


def test_each_line_has_the_prefix_of_who_wrote_it() -> None:
    a, b = LineSource(b"[a] "), LineSource(b"[b] ")
    assert merged((a, b"1\n2\n"), (b, b"3\n"), (a, b"\n")) == b"[a] 1\n[a] 2\n[b] 3\n[a] \n"


def test_an_unfinished_line_goes_on_where_it_was_left() -> None:
    a = LineSource(b"[a] ")
    assert merged((a, b"name? "), (a, b"Ann\n")) == b"[a] name? Ann\n"


def test_another_source_does_not_write_into_an_unfinished_line() -> None:
    a, b = LineSource(b"[a] "), LineSource(b"[b] ")
    assert merged((a, b"name? "), (b, b"hi\n"), (a, b"Ann\n")) == b"[a] name? \n[b] hi\n[a] Ann\n"


def test_a_redrawn_line_keeps_its_carriage_returns_and_has_the_prefix_each_time() -> None:
    a = LineSource(b"[a] ")
    assert merged((a, b"\r 1%"), (a, b"\r 2%"), (a, b"\n")) == b"\r[a]  1%\r[a]  2%\n"


def test_a_windows_line_end_stays_one_also_when_it_comes_in_two_parts() -> None:
    a = LineSource(b"[a] ")
    assert merged((a, b"x\r\ny\r"), (a, b"\nz\n")) == b"[a] x\r\n[a] y\r\n[a] z\n"


def test_a_carriage_return_alone_is_no_unfinished_line() -> None:
    a, b = LineSource(b"[a] "), LineSource(b"[b] ")
    assert merged((a, b"x\n"), (a, b"\r"), (b, b"y\n")) == b"[a] x\n\r[b] y\n"


@given(st.lists(st.binary(max_size=20)))
def test_without_a_prefix_bytes_are_not_touched(writes: list[bytes]) -> None:
    a, b = LineSource(own_lines=False), LineSource(own_lines=False)
    written = merged(*((b if index % 2 else a, data) for index, data in enumerate(writes)))
    assert written == b"".join(writes)


@given(st.lists(st.binary(max_size=20)))
def test_prefixes_are_all_that_is_added(writes: list[bytes]) -> None:
    source = LineSource(b"\xffprefix\xff")
    written = merged(*((source, data) for data in writes))
    assert written.replace(source.prefix, b"") == b"".join(writes)


@given(st.text(min_size=1), st.integers(0, 3))
def test_characters_are_not_cut(text: str, less: int) -> None:
    data = text.encode(errors="replace")
    part = data[: max(0, len(data) - less)]
    part[: complete_utf8_length(part)].decode()


@given(st.binary(max_size=50))
def test_what_is_no_text_is_held_back_by_three_bytes_at_most(data: bytes) -> None:
    assert len(data) - 3 <= complete_utf8_length(data) <= len(data)
