"""Keys with many items wait behind keys with few."""

from __future__ import annotations

import asyncio

from resile.kube.runtime.events import FairQueue


async def taken(queue: FairQueue[str, int], count: int) -> list[tuple[str, int]]:
    found = []
    for _ in range(count):
        key, item = await asyncio.wait_for(queue.take(), 10)
        found.append((key, item))
        queue.done(key)
    return found


async def test_keys_take_turns_and_each_is_handled_in_order() -> None:
    queue: FairQueue[str, int] = FairQueue(each=10, total=100)
    for number in range(3):
        queue.put("loud", number)
    queue.put("quiet", 0)
    assert await taken(queue, 4) == [("loud", 0), ("quiet", 0), ("loud", 1), ("loud", 2)]


async def test_one_key_has_so_many_and_no_other_loses_any() -> None:
    queue: FairQueue[str, int] = FairQueue(each=2, total=100)
    assert [queue.put("loud", number) for number in range(4)] == [0, 0, 1, 1]
    assert queue.put("quiet", 7) == 0
    assert await taken(queue, 3) == [("loud", 0), ("quiet", 7), ("loud", 1)]


async def test_where_all_have_too_many_the_one_with_the_most_loses() -> None:
    queue: FairQueue[str, int] = FairQueue(each=10, total=4)
    dropped = [queue.put("loud", number) for number in range(4)]
    dropped += [queue.put("quiet", number) for number in range(2)]
    assert dropped == [0, 0, 0, 0, 1, 1]
    assert await taken(queue, 4) == [("loud", 0), ("quiet", 0), ("loud", 1), ("quiet", 1)]


async def test_what_is_put_off_holds_up_its_own_key_only() -> None:
    queue: FairQueue[str, int] = FairQueue(each=10, total=100)
    queue.put("a", 1)
    queue.put("a", 2)
    queue.put("b", 1)
    key, item = await queue.take()
    queue.put_off(key, item, 0.05)
    assert await taken(queue, 3) == [("b", 1), ("a", 1), ("a", 2)]


async def test_a_key_that_had_its_turn_is_forgotten() -> None:
    queue: FairQueue[str, int] = FairQueue(each=1, total=100)
    for _ in range(3):
        assert queue.put("a", 1) == 0
        assert await taken(queue, 1) == [("a", 1)]
