"""The work queue: nothing lost, never two handlers for one key, failures are retried later."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resile.kube.runtime.backoff import Backoff
from resile.kube.runtime.workqueue import Retry, WorkQueue

AT_ONCE = Backoff(first=0.001, most=0.002)

pytestmark = pytest.mark.timeout(30)


@asynccontextmanager
async def running(
    queue: WorkQueue[str], handler: Callable[[str], Awaitable[None]], *, workers: int = 3
) -> AsyncIterator[None]:
    task = asyncio.ensure_future(queue.run(handler, workers=workers))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(),
    workers=st.integers(1, 4),
    additions=st.lists(st.sampled_from("abcd"), min_size=1, max_size=40),
)
def test_every_addition_is_followed_by_a_whole_handling_of_its_key(
    seed: int, workers: int, additions: list[str]
) -> None:
    """Whatever the order, and although handlers sometimes fail."""
    asyncio.run(_history(random.Random(seed), workers, additions))


async def _history(chance: random.Random, workers: int, additions: list[str]) -> None:
    queue: WorkQueue[str] = WorkQueue(retry=AT_ONCE)
    in_hand: Counter[str] = Counter()
    added: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    busiest = 0

    async def handler(key: str) -> None:
        nonlocal busiest
        at_start = added[key]
        in_hand[key] += 1
        busiest = max(busiest, in_hand.total())
        assert in_hand[key] == 1
        for _ in range(chance.randrange(3)):
            await asyncio.sleep(0)
        in_hand[key] -= 1
        if chance.random() < 0.2:
            raise Retry("chance")
        seen[key] = max(seen[key], at_start)

    async with running(queue, handler, workers=workers):
        for key in additions:
            added[key] += 1
            if chance.random() < 0.3:
                queue.add_after(key, chance.random() / 100)
            else:
                queue.add(key)
            if chance.random() < 0.5:
                await asyncio.sleep(0)
        await until(lambda: seen == added)
    assert busiest <= workers


async def test_a_key_added_twice_before_it_is_handled_is_handled_once() -> None:
    queue: WorkQueue[str] = WorkQueue()
    handled: list[str] = []
    for key in "aab":
        queue.add(key)
    assert queue.depth == 2

    async def handler(key: str) -> None:
        handled.append(key)

    async with running(queue, handler):
        await until(lambda: "b" in handled)
    assert handled == ["a", "b"]
    assert queue.depth == 0


async def test_a_key_added_while_it_is_handled_is_handled_again_after() -> None:
    queue: WorkQueue[str] = WorkQueue()
    handled: list[str] = []

    async def handler(key: str) -> None:
        if not handled:
            queue.add(key)
            queue.add(key)
        await asyncio.sleep(0)
        handled.append(key)

    queue.add("a")
    async with running(queue, handler):
        await until(lambda: len(handled) == 2 and queue.depth == 0)
    assert handled == ["a", "a"]


async def test_of_two_delays_the_earlier_counts() -> None:
    queue: WorkQueue[str] = WorkQueue()
    order: list[str] = []

    async def handler(key: str) -> None:
        order.append(key)

    queue.add_after("late", 0.02)
    queue.add_after("moved", 60)
    queue.add_after("moved", 0.01)
    queue.add_after("moved", 60)
    async with running(queue, handler):
        await until(lambda: len(order) == 2)
    assert order == ["moved", "late"]


async def test_a_failing_key_comes_back_and_is_named_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    queue: WorkQueue[str] = WorkQueue(retry=AT_ONCE)
    tries = 0

    async def handler(key: str) -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise ValueError("broken")

    queue.add("default/job")
    async with running(queue, handler):
        await until(lambda: tries == 3)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2
    assert all(
        "default/job: retrying in" in line and "ValueError: broken" in line for line in lines
    )


def test_each_failure_in_a_row_waits_about_twice_as_long_up_to_a_bound() -> None:
    delays = {n: Backoff(first=1, most=60).delay(n) for n in (1, 2, 3, 10, 1000)}
    assert 0.5 <= delays[1] <= 1 <= delays[2] <= 2 <= delays[3] <= 4
    assert 30 <= delays[10] <= 60
    assert 30 <= delays[1000] <= 60


async def test_a_success_forgets_the_failures_before_it() -> None:
    asked: list[int] = []

    class Asked(Backoff):
        def delay(self, failures: int) -> float:
            asked.append(failures)
            return 0.001

    queue: WorkQueue[str] = WorkQueue(retry=Asked(first=1, most=1))
    outcomes = iter([False, False, True, False, True])
    done = asyncio.Event()

    async def handler(key: str) -> None:
        if not next(outcomes):
            raise Retry("not yet")
        queue.add_after(key, 0.001)
        if len(asked) == 3:
            done.set()
            await asyncio.Event().wait()

    queue.add("a")
    async with running(queue, handler):
        await done.wait()
    assert asked == [1, 2, 1]


async def test_a_handler_may_say_when_to_come_back() -> None:
    queue: WorkQueue[str] = WorkQueue(retry=Backoff(first=60, most=60))
    tries = 0

    async def handler(key: str) -> None:
        nonlocal tries
        tries += 1
        raise Retry("not yet", after=0.001)

    queue.add("a")
    async with running(queue, handler):
        await until(lambda: tries >= 3)


async def test_a_key_in_hand_when_the_queue_is_stopped_is_handled_by_the_next_run() -> None:
    queue: WorkQueue[str] = WorkQueue()
    begun: list[str] = []
    done: list[str] = []

    async def stuck(key: str) -> None:
        begun.append(key)
        await asyncio.Event().wait()

    async def handler(key: str) -> None:
        done.append(key)

    queue.add("a")
    queue.add("b")
    async with running(queue, stuck, workers=1):
        await until(lambda: begun)
    assert queue.depth == 2
    async with running(queue, handler):
        await until(lambda: len(done) == 2)
    assert sorted(done) == ["a", "b"]


async def test_an_observer_hears_of_waits_work_and_failures() -> None:
    heard: Counter[str] = Counter()

    class Observer:
        def waited(self, seconds: float) -> None:
            heard["waited"] += seconds >= 0

        def handled(self, seconds: float) -> None:
            heard["handled"] += seconds >= 0

        def failed(self) -> None:
            heard["failed"] += 1

    queue: WorkQueue[str] = WorkQueue(retry=AT_ONCE, observer=Observer())

    async def handler(key: str) -> None:
        if heard["failed"] == 0:
            raise RuntimeError

    queue.add("a")
    async with running(queue, handler):
        await until(lambda: heard["handled"] == 2)
    assert heard == {"waited": 2, "handled": 2, "failed": 1}


async def test_a_key_that_rests_is_handled_afterwards_however_often_it_is_added() -> None:
    queue: WorkQueue[str] = WorkQueue()
    handled: list[str] = []

    async def handler(key: str) -> None:
        handled.append(key)
        await asyncio.sleep(0.001)
        queue.add(key)
        if key == "large":
            queue.rest(key, 0.2)

    async with running(queue, handler):
        queue.add("large")
        queue.add("small")
        await until(lambda: handled.count("large") == 3)
    assert handled.count("small") > 20
