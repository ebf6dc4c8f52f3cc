"""The reports of nodes are remembered after they have left."""

from __future__ import annotations

from resile.master.progress import MAX_NODES, GroupProgress
from resile.wire.messages import Progress, WorkersNow


def test_what_one_node_leaves_out_another_said() -> None:
    reported = GroupProgress()
    reported.hear("a", Progress(step=3, total=100), None)
    reported.hear("b", Progress(step=4, loss=0.5), WorkersNow(pids=(1, 2), failures=2))
    reported.hear("a", Progress(resumed=3, source="memory"), WorkersNow(failures=0))
    reported.hear("a", None, None)
    assert (reported.step, reported.total, reported.loss) == (4, 100, 0.5)
    assert (reported.resumed, reported.source) == (3, "memory")
    assert reported.failures == {"b": 2}


def test_failures_of_no_more_nodes_than_anybody_reads_are_kept() -> None:
    reported = GroupProgress()
    for number in range(2 * MAX_NODES):
        reported.hear(f"node-{number}", None, WorkersNow(failures=1))
    assert len(reported.failures) == MAX_NODES
    assert f"node-{2 * MAX_NODES - 1}" in reported.failures
