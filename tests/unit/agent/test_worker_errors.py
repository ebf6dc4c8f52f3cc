"""The error messages of all workers of a node fit into one frame."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from resile.agent.logs import last_lines
from resile.agent.worker_errors import LONGEST_ERROR_FILE, ErrorFile, message_end, read_error_file
from resile.agent.workers import ALL_MESSAGES, LONGEST_MESSAGE
from resile.wire.codec import MAX_FRAME, encode_from_agent
from resile.wire.messages import Fence, WorkerFailure, WorkersFailed


@pytest.mark.parametrize("workers", [1, 8, 64, 1000])
@pytest.mark.parametrize("letter", ["x", "\N{GRINNING FACE}", "\ud800"])
def test_a_whole_node_failing_with_long_words_fits_into_a_frame(workers: int, letter: str) -> None:
    longest = min(LONGEST_MESSAGE, ALL_MESSAGES // workers)
    failure = WorkerFailure(
        local_rank=0, rank=0, pid=1, exit_code=1, message=message_end(letter * 100_000, longest)
    )
    message = WorkersFailed(fence=Fence(1, 1), failures=(failure,) * workers)
    assert len(encode_from_agent(1, message)) < MAX_FRAME


def test_the_end_is_what_counts() -> None:
    assert message_end("begin, middle, end", 3) == "end"
    assert message_end("short", 100) == "short"


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff", b"[" * 100_000, b'{"message": 7}', b"{}", b"x" * (LONGEST_ERROR_FILE + 1)],
)
def test_an_error_file_that_makes_no_sense_says_nothing(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "error.json"
    path.write_bytes(content)
    assert read_error_file(path) == ErrorFile()


def test_an_error_file_that_is_none_says_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "error.json")
    assert read_error_file(tmp_path / "error.json") == ErrorFile()


def test_of_redrawn_lines_the_last_state_is_kept() -> None:
    assert last_lines(b"begin\r\n\r 1%\r 2%\r\nend\n") == "begin\n 2%\nend"
