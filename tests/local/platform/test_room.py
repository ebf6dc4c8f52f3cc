"""Capacity of the machine: which nodes wait, start when there is some, or are preempted."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from resile.control.observed import UNSCHEDULABLE, Observed
from resile.control.reconcile import reconcile
from resile.job.exits import ExitCause, classify
from resile.job.manifest.parse import job_from_data
from resile.job.node import NodePhase
from resile.job.status import JobStatus, NodeStatus
from resile.local.platform import LocalPlatform
from tests.local.platform.conftest import MakePlatform
from tests.local.platform.nodes import ended, running, seen, start, stop, until


async def test_what_does_not_fit_is_pending_and_says_what_is_missing(make: MakePlatform) -> None:
    platform = make("cpu=2,memory=1Gi")
    await platform.apply([start(0, cpu="1500m"), start(1, cpu="1")])
    await running(platform, 0)
    waiting = seen(platform, 1)
    assert (waiting.phase, waiting.reason) == (NodePhase.PENDING, UNSCHEDULABLE)
    assert waiting.message == "0.5 of 2 cpu free, 1 wanted"


async def test_a_node_starts_when_room_appears(make: MakePlatform) -> None:
    platform = make("cpu=2,memory=1Gi")
    await platform.apply([start(0, memory="600Mi"), start(1, memory="600Mi")])
    await running(platform, 0)
    assert seen(platform, 1).message == "424Mi of 1Gi memory free, 600Mi wanted"
    await platform.apply([stop(0)])
    await running(platform, 1)


async def test_room_appears_when_a_start_fails(make: MakePlatform) -> None:
    platform = make("cpu=1")
    await platform.apply([start(0, "no-such-program", cpu="1"), start(1, cpu="1")])
    await running(platform, 1)


async def test_a_waiting_node_that_is_stopped_never_starts(
    make: MakePlatform, tmp_path: Path
) -> None:
    platform = make("cpu=1")
    await platform.apply([start(0, cpu="1"), start(1, "touch", "started", cpu="1", cwd=tmp_path)])
    await platform.apply([stop(1)])
    found = await ended(platform, 1)
    assert found.exit is not None
    assert classify(found.exit) is ExitCause.DELETED
    await platform.apply([stop(0)])
    await ended(platform, 0)
    assert not (tmp_path / "started").exists()


async def test_the_more_important_starts_first_and_then_the_longest_waiting(
    make: MakePlatform,
) -> None:
    platform = make("cpu=1")
    await platform.apply([start(0, cpu="1", priority=9)])
    await platform.apply([start(1, cpu="1"), start(2, cpu="1"), start(3, cpu="1", priority=5)])
    order = []
    for _ in range(4):
        await until(platform, lambda: any(n.phase is NodePhase.RUNNING for n in platform.observe()))
        (now,) = [n.node.id for n in platform.observe() if n.phase is NodePhase.RUNNING]
        order.append(now)
        await platform.apply([stop(now)])
        await ended(platform, now)
    assert order == [0, 3, 1, 2]


async def test_a_more_important_node_preempts_as_few_as_possible(make: MakePlatform) -> None:
    platform = make("cpu=3")
    await platform.apply([start(id, cpu="1") for id in range(3)])
    await running(platform, 0, 1, 2)
    await platform.apply([start(3, cpu="1", priority=1)])
    assert seen(platform, 3).message == "waiting for here-worker-2 to leave"
    await running(platform, 3)
    victim = await ended(platform, 2)
    assert victim.phase is NodePhase.FAILED
    assert victim.exit is not None
    assert classify(victim.exit) is ExitCause.PREEMPTED
    assert "here-worker-3" in victim.exit.message
    assert [n.node.id for n in platform.observe() if n.live] == [0, 1, 3]


async def test_nobody_is_preempted_in_vain(make: MakePlatform) -> None:
    platform = make("cpu=2")
    await platform.apply([start(0, cpu="1"), start(1, cpu="1", priority=1)])
    await running(platform, 0, 1)
    await platform.apply([start(2, cpu="2", priority=1)])
    assert not any(found.stopping for found in platform.observe())
    assert seen(platform, 2).message == "0 of 2 cpu free, 2 wanted"


async def test_a_preempted_rank_waits_free_of_budget_and_comes_back(make: MakePlatform) -> None:
    """The whole cycle, with the real controller."""
    platform = make("cpu=2")
    sleep: dict[str, Any] = {"command": ["sleep", "1000"], "resources": {"requests": {"cpu": 1}}}
    roles = {
        "worker": {**sleep, "replicas": 2, "priority": "low"},
        "evaluator": {**sleep, "replicas": {"min": 0, "max": 1, "wanted": 0}, "priority": "high"},
    }
    job = job_from_data(
        {
            "apiVersion": "resile.dev/v1alpha1",
            "kind": "ElasticJob",
            "metadata": {"name": "here"},
            "spec": {"roles": roles},
        }
    )
    status = JobStatus()

    async def control(evaluators: int, done: dict[tuple[str, int], NodePhase]) -> JobStatus:
        nonlocal status
        wanted = {"evaluator": evaluators}
        while True:
            platform.changed.clear()
            observed = Observed(platform.observe(), wanted=wanted)
            decision = reconcile(job, status, observed, datetime.now(timezone.utc))
            status = decision.status
            await platform.apply(decision.actions)
            if {key: _rank(status, *key).phase for key in done} == done:
                return status
            await _next_change(platform)

    both = {("worker", 0): NodePhase.RUNNING, ("worker", 1): NodePhase.RUNNING}
    await control(0, both)
    await control(1, {("evaluator", 0): NodePhase.RUNNING, ("worker", 1): NodePhase.PENDING})
    waiting = _rank(status, "worker", 1)
    assert waiting.last_end is ExitCause.PREEMPTED
    assert (waiting.restarts, waiting.spent) == (1, 0)
    await control(0, both)
    assert _rank(status, "worker", 0).restarts == 0


def _rank(status: JobStatus, role: str, rank: int) -> NodeStatus:
    found = (node for node in status.nodes if (node.role, node.rank) == (role, rank))
    return next(found, NodeStatus(role=role, rank=rank, phase=NodePhase.WAITING))


async def _next_change(platform: LocalPlatform) -> None:
    before = platform.observe()
    await until(platform, lambda: platform.observe() != before)
