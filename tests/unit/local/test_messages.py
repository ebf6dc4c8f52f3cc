"""The connection between the platform and a supervisor."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from resile.local.supervisor.messages import (
    Ended,
    Kill,
    LineReader,
    Message,
    SpawnNode,
    Started,
    StartRefused,
    Stop,
    pack,
)

words = st.text(st.characters(), max_size=20)
messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(
        SpawnNode,
        argv=st.lists(words),
        env=st.dictionaries(words, words),
        cwd=words,
        grace=st.floats(0, 1e6),
        cgroups=st.lists(words),
    ),
    st.builds(Stop, grace=st.floats(0, 1e6)),
    st.just(Kill()),
    st.builds(Started, pid=st.integers(1, 2**22)),
    st.builds(StartRefused, why=words),
    st.builds(Ended, code=st.integers(-64, 255), stop_ordered=st.booleans()),
)


@given(st.lists(messages), st.data())
def test_messages_arrive_whole_however_the_line_cuts_them(
    sent: list[Message], data: st.DataObject
) -> None:
    stream = b"".join(pack(message) for message in sent)
    reader, heard = LineReader(), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        heard += reader.feed(stream[:size])
        stream = stream[size:]
    assert heard == sent
    assert [type(message) for message in heard] == [type(message) for message in sent]


def test_bytes_that_are_not_text_survive() -> None:
    stray = b"caf\xe9".decode(errors="surrogateescape")
    (heard,) = LineReader().feed(pack(StartRefused(stray)))
    assert heard == StartRefused(stray)
