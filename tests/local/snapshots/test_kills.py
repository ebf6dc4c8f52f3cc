"""Workers killed at any moment of a copy, and everything killed at once."""

from __future__ import annotations

import os
import random
import signal
import time

from resile.snapshots.client import AgentSnapshotClient
from tests.local.commands import wait_for
from tests.local.jobs import is_alive
from tests.local.snapshots.conftest import KeeperProcess, MakeKeeper, Start
from tests.local.snapshots.memory import holders
from tests.local.snapshots.parts import RANK, is_whole, label_of, open_part, part_bytes, save

DATA = 4_000_000
KILLS = 12


def test_a_kill_at_any_moment_leaves_a_whole_snapshot(keeper: KeeperProcess, start: Start) -> None:
    chance = random.Random(20)
    newest = 0
    for round_ in range(1, KILLS + 1):
        worker = start("worker", keeper.name, "0", "1", str(round_), str(DATA))
        assert worker.stdout is not None
        worker.stdout.readline()
        # Not a wait for a condition: the kill should come at a random moment of a copy.
        time.sleep(chance.uniform(0, 0.03))
        worker.kill()
        said = [newest, *(int(line) for line in worker.communicate()[0].split())]
        newest = _check(keeper, round_ + 1, at_least=said[-1])


def test_a_kill_between_any_two_pieces_of_a_copy_leaves_the_snapshot_before(
    keeper: KeeperProcess,
) -> None:
    pieces = 8
    for moment in range(pieces + 2):
        memory = keeper.connect(round=moment + 1)
        before = save(memory, memory.worker, step=10 * moment + 5, data=DATA)
        child = os.fork()
        if child == 0:
            try:
                _die_in_the_middle(memory, 10 * moment + 6, moment=moment, pieces=pieces)
            finally:
                os._exit(1)
        status = os.waitpid(child, 0)[1]
        assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
        held = [one.label for one in memory.inventory()]
        assert before in held
        for label in held:
            with open_part(memory, label) as part:
                assert is_whole(label, part.buffer), label.name
        assert (max(label.step for label in held) > before.step) == (moment > pieces)
        memory.close()


def _die_in_the_middle(memory: AgentSnapshotClient, step: int, *, moment: int, pieces: int) -> None:
    content = part_bytes(label_of(memory.worker, RANK, step), DATA)
    buffer = memory.begin(RANK, step=step, size=len(content)).buffer
    size = len(content) // pieces + 1
    for number in range(min(moment, pieces)):
        piece = slice(number * size, (number + 1) * size)
        buffer[piece] = content[piece]
    if moment > pieces:
        memory.complete(RANK)
    os.kill(os.getpid(), signal.SIGKILL)


def _check(keeper: KeeperProcess, round_: int, *, at_least: int) -> int:
    memory = keeper.connect(round=round_)
    try:
        held = [one.label for one in memory.inventory()]
        assert held
        for label in held:
            with open_part(memory, label) as part:
                assert is_whole(label, part.buffer), label.name
        newest = max(label.step for label in held)
        assert newest >= at_least
        return newest
    finally:
        memory.close()


def test_after_a_kill_of_everything_no_memory_is_left(
    make_keeper: MakeKeeper, start: Start, tmp_path: object
) -> None:
    keeper = make_keeper()
    worker = start("worker", keeper.name, "0", "1", "1", str(DATA))
    assert worker.stdout is not None
    for _ in range(3):
        worker.stdout.readline()
    memory = keeper.connect()
    memory.persist(str(tmp_path), step=memory.inventory()[0].label.step, kinds=(), attempt="first")
    memory.close()
    carriers = wait_for(keeper.carriers, "the process that writes")
    everybody = [keeper.pid, worker.pid, *carriers]
    assert keeper.pid in holders(everybody)
    for pid in (keeper.pid, worker.pid):
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not any(is_alive(pid) for pid in everybody), "the end of all")
    assert holders(everybody) == []


def test_the_process_that_writes_ends_with_its_keeper(
    keeper: KeeperProcess, tmp_path: object
) -> None:
    memory = keeper.connect()
    save(memory, memory.worker, step=1)
    memory.persist(str(tmp_path), step=1, kinds=(), attempt="first")
    (carrier,) = wait_for(keeper.carriers, "the process that writes")
    keeper.process.kill()
    wait_for(lambda: not is_alive(carrier), "its end")
