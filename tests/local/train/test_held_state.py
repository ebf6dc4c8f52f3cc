"""A sharded state comes back from the nodes' memories after a lost node, the same to the bit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.local.train.ranks import run_ranks


@pytest.mark.parametrize("change", ["replaced", "fewer"])
@pytest.mark.parametrize("world", [3, 4])
def test_after_a_node_was_lost_and(change: str, world: int, tmp_path: Path) -> None:
    run_ranks("held_state.py", change, world=world, meeting=tmp_path / "meeting")
