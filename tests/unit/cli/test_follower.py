"""Following logs: every line once, whole, whatever the pieces."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from resile.cli.follower import LogFollower
from resile.wire.views import LogFile


@dataclass
class Logs:
    """Logs in memory that are answered a few bytes at a time."""

    content: dict[str, bytes] = field(default_factory=dict)
    piece: int = 3

    def log_files(self) -> list[LogFile]:
        return [LogFile(node=name, size=len(text)) for name, text in self.content.items()]

    def log(self, node: str, *, offset: int = 0) -> bytes:
        return self.content[node][offset : offset + self.piece]

    def write(self, node: str, text: bytes) -> None:
        self.content[node] = self.content.get(node, b"") + text


def test_half_a_line_waits_for_its_rest() -> None:
    logs = Logs()
    follower = LogFollower(logs)
    logs.write("n", b"one\ntw")
    assert list(follower.lines()) == [("n", "one")]
    logs.write("n", b"o\n")
    assert list(follower.lines()) == [("n", "two")]
    logs.write("n", b"end")
    assert list(follower.lines()) == []
    assert list(follower.rests()) == [("n", "end")]


def test_a_node_that_appears_later_is_read_from_its_first_line() -> None:
    logs = Logs()
    follower = LogFollower(logs)
    logs.write("a", b"a\n")
    assert list(follower.lines()) == [("a", "a")]
    logs.write("b", b"b\n")
    assert list(follower.lines()) == [("b", "b")]


@given(
    writes=st.lists(st.tuples(st.sampled_from("ab"), st.binary(max_size=12)), max_size=20),
    piece=st.integers(1, 9),
)
def test_all_lines_come_once_and_in_order(writes: list[tuple[str, bytes]], piece: int) -> None:
    logs = Logs(piece=piece)
    follower = LogFollower(logs)
    read: list[tuple[str, str]] = []
    for node, text in writes:
        logs.write(node, text)
        read += follower.lines()
    read += follower.rests()
    for node, content in logs.content.items():
        lines = [line for name, line in read if name == node]
        expected = [p.decode(errors="replace").rstrip("\r") for p in content.split(b"\n")]
        assert lines == (expected if content.split(b"\n")[-1] else expected[:-1])
