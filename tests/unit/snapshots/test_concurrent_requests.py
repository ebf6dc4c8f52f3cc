"""One thread writes and others read all the time: every part that can be opened is intact."""

from __future__ import annotations

import threading

from resile.snapshots.client import AgentSnapshotClient
from resile.snapshots.errors import SnapshotRequestRefused
from resile.snapshots.listener import SnapshotListener
from resile.snapshots.messages import WorkerHello
from resile.snapshots.server import SnapshotServer
from resile.snapshots.slot_table import SlotTable
from resile.snapshots.writer import WriterProcess
from tests.local.snapshots.parts import is_whole, open_part, save

STEPS = 150
READERS = 2


def test_readers_see_whole_parts_only_and_the_writer_goes_on() -> None:
    keeper = SnapshotServer(SlotTable(), WriterProcess())
    server = SnapshotListener(keeper)
    worker = WorkerHello(rank=0, local_rank=0, world=1, nproc=1, round=1)
    writing = AgentSnapshotClient(server.name, worker)
    over = threading.Event()
    torn: list[str] = []

    def read() -> None:
        memory = AgentSnapshotClient(server.name, worker)
        while not over.is_set():
            for held in memory.inventory():
                try:
                    part = open_part(memory, held.label)
                except SnapshotRequestRefused:
                    continue  # it was overwritten meanwhile
                with part:
                    if not is_whole(held.label, part.buffer):
                        torn.append(held.label.name)
        memory.close()

    readers = [threading.Thread(target=read) for _ in range(READERS)]
    for reader in readers:
        reader.start()
    try:
        for step in range(STEPS):
            save(writing, worker, step=step, data=100_000 + 1000 * step)
    finally:
        over.set()
        for reader in readers:
            reader.join()
        writing.close()
        server.close()
        keeper.close()
    assert torn == []
