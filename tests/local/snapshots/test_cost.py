"""What a snapshot costs beside a plain copy of the same bytes; printed (pytest -s), not judged."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.local.snapshots.conftest import KeeperProcess, MakeKeeper
from tests.local.snapshots.parts import RANK

SIZE = 200_000_000


def test_the_cost_of_fetching_from_another_node(make_keeper: MakeKeeper) -> None:
    first, second = make_keeper(), make_keeper()
    giving, taking = first.connect(0, world=2), second.connect(1, world=2)
    giving.begin(RANK, step=1, size=SIZE).buffer[:] = b"x" * SIZE
    label = giving.complete(RANK)
    seconds = timed(lambda: taking.fetch(first.address, label).close())
    print(f"\n200 MB: fetched from another node's keeper in {seconds:.3f} s")
    assert label in [held.label for held in taking.inventory()]


def timed(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def test_the_cost_of_a_snapshot_beside_a_copy(keeper: KeeperProcess) -> None:
    memory = keeper.connect()
    source = memoryview(b"x" * SIZE)
    target = memoryview(bytearray(SIZE))

    def copy() -> None:
        target[:] = source

    def snapshot(step: int) -> None:
        memory.begin(RANK, step=step, size=SIZE).buffer[:] = source
        memory.complete(RANK)

    reserving = timed(lambda: memory.reserve(RANK, SIZE))
    populating = timed(memory._pairs[RANK]._populating.join)  # type: ignore[union-attr]
    snapshots = [timed(lambda step=step: snapshot(step)) for step in range(6)]  # type: ignore[misc]
    copies = [timed(copy) for _ in range(6)]
    print(
        f"\n200 MB: reserving {reserving:.3f} s, made ready in the background {populating:.3f} s; "
        f"snapshots {', '.join(f'{one:.4f}' for one in snapshots)}; "
        f"plain copies {', '.join(f'{one:.4f}' for one in copies)}"
    )
    assert len(memory.inventory()) == 2
