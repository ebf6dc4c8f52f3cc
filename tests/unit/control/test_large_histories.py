"""A large job decides like a small one, although its status has no space for everything.

Here every job counts as large: every history of ``test_histories`` is run with a status that is
compacted, packed and read again before each reconciliation.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resile.job import compact_status as module
from resile.job.node import NodePhase
from resile.job.spec.job import ElasticJob
from tests.unit.control.builders import job
from tests.unit.control.test_histories import (
    EVENTS,
    MISHAPS,
    Player,
    histories,
    jobs,
    left_in_peace,
)


@pytest.fixture(autouse=True, scope="module")
def every_job_is_large() -> Iterator[None]:
    patch = pytest.MonkeyPatch()
    patch.setattr(module, "LISTED", -1)
    patch.setattr(module, "SHOWN", 0)
    patch.setattr(module, "HOSTS", 0)
    yield
    patch.undo()


AT_ONCE = "a_second_look_changes_nothing"
"""Messages of the first reconciliation for which there is no space are missing in the second."""


@settings(max_examples=60, deadline=None)
@given(described=jobs(), room=st.integers(1, 8), machines=st.integers(1, 4), history=histories)
def test_no_history_breaks_a_promise(
    described: ElasticJob, room: int, machines: int, history: list[tuple[str, int]]
) -> None:
    player = Player(described, room=room, machines=machines)
    for event, number in history:
        if event != AT_ONCE:
            EVENTS[event](player, number)
            player.check()
    player.sim.look()
    player.sim.look(carry_out=False)  # decides what the actions before made possible, in words
    first = player.sim.look(carry_out=False)
    again = player.sim.look(carry_out=False)
    assert module.compact(again.status) == module.compact(first.status), "nothing is written"


@settings(max_examples=30, deadline=None)
@given(
    machines=st.integers(1, 3),
    history=st.lists(
        st.tuples(st.sampled_from([one for one in MISHAPS if one != AT_ONCE]), st.integers(0, 999)),
        max_size=60,
    ),
)
def test_after_any_mishaps_it_has_all_its_nodes_again(
    machines: int, history: list[tuple[str, int]]
) -> None:
    described = job({"worker": {"replicas": 3, "dependsOn": ["ps"]}, "ps": {}})
    sim = left_in_peace(described, machines, history)
    assert [rank.phase for rank in sim.status.nodes] == [NodePhase.RUNNING] * 4
    assert sim.status.spent == 0
