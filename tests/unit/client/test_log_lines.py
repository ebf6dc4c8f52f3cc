"""Following logs: every line once and whole, whatever the chunks."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from resile.client.job import Batch
from resile.client.log_lines import LogLines
from resile.wire.views import LogFile


@dataclass
class Logs:
    """Logs in memory that are read a few bytes at a time."""

    content: dict[str, bytes] = field(default_factory=dict)
    piece: int = 3
    lines: LogLines = field(default_factory=LogLines)

    def write(self, node: str, text: bytes) -> None:
        self.content[node] = self.content.get(node, b"") + text

    def read(self) -> Batch:
        read: Batch = []
        for name, text in self.content.items():
            file = LogFile(node=name, size=len(text))
            while (offset := self.lines.offset(file)) is not None:
                read += self.lines.take(name, text[offset : offset + self.piece])
        return read


def test_half_a_line_waits_for_its_rest() -> None:
    logs = Logs()
    logs.write("n", b"one\ntw")
    assert logs.read() == [("n", "one")]
    logs.write("n", b"o\n")
    assert logs.read() == [("n", "two")]
    logs.write("n", b"end")
    assert logs.read() == []
    assert logs.lines.rests() == [("n", "end")]


def test_a_node_that_appears_later_is_read_from_its_first_line() -> None:
    logs = Logs()
    logs.write("a", b"a\n")
    assert logs.read() == [("a", "a")]
    logs.write("b", b"b\n")
    assert logs.read() == [("b", "b")]


@given(
    writes=st.lists(st.tuples(st.sampled_from("ab"), st.binary(max_size=12)), max_size=20),
    piece=st.integers(1, 9),
)
def test_all_lines_come_once_and_in_order(writes: list[tuple[str, bytes]], piece: int) -> None:
    logs = Logs(piece=piece)
    read: Batch = []
    for node, text in writes:
        logs.write(node, text)
        read += logs.read()
    read += logs.lines.rests()
    for node, content in logs.content.items():
        lines = [line for name, line in read if name == node]
        expected = [p.decode(errors="replace").rstrip("\r") for p in content.split(b"\n")]
        assert lines == (expected if content.split(b"\n")[-1] else expected[:-1])
