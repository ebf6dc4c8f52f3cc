"""What a node's workers said last has to fit into one message, whatever it was."""

from __future__ import annotations

import pytest

from resile.agent.workers import ALL_MESSAGES, LONGEST_MESSAGE, sendable
from resile.wire.codec import MAX_FRAME, encode_from_agent
from resile.wire.messages import Fence, WorkerFailure, WorkersFailed


@pytest.mark.parametrize("workers", [1, 8, 64, 1000])
@pytest.mark.parametrize("letter", ["x", "\N{GRINNING FACE}", "\ud800"])
def test_a_whole_node_failing_with_long_words_fits_into_a_frame(workers: int, letter: str) -> None:
    longest = min(LONGEST_MESSAGE, ALL_MESSAGES // workers)
    failure = WorkerFailure(
        local_rank=0, rank=0, pid=1, exit_code=1, message=sendable(letter * 100_000, longest)
    )
    message = WorkersFailed(fence=Fence(1, 1), failures=(failure,) * workers)
    assert len(encode_from_agent(1, message)) < MAX_FRAME


def test_the_end_is_what_counts() -> None:
    assert sendable("begin, middle, end", 3) == "end"
    assert sendable("short", 100) == "short"
