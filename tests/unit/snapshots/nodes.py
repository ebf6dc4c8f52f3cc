"""Several nodes' keepers in one process, each with a worker as its client."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from resile.snapshots.client import AgentSnapshotClient
from resile.snapshots.listener import SnapshotListener
from resile.snapshots.messages import WorkerHello
from resile.snapshots.peers import Peers
from resile.snapshots.peers.client import copy_to
from resile.snapshots.peers.replicator import LockedPart
from resile.snapshots.peers.transfers import Transfer
from resile.snapshots.server import SnapshotServer
from resile.snapshots.slot_table import SlotTable
from resile.snapshots.slots import BEGIN, Label, read_control, take
from resile.snapshots.writer import WriterProcess
from tests.local.snapshots.parts import save

TOKEN = "a token that nobody can guess"


class Node:
    """One node's keeper, and its one worker."""

    def __init__(
        self,
        rank: int,
        *,
        token: str = TOKEN,
        limit: int | None = None,
        world: int = 2,
        group: str = "",
    ) -> None:
        self.news: list[str] = []
        self.holdings, self.carrier = SlotTable(limit=limit), WriterProcess()
        self.peers = Peers(
            "127.0.0.1",
            token=token,
            slots=self.holdings,
            writer=self.carrier,
            news=lambda level, text: self.news.append(f"{logging.getLevelName(level)} {text}"),
        )
        self.keeper = SnapshotServer(self.holdings, self.carrier, peers=self.peers)
        self.server = SnapshotListener(self.keeper)
        self.worker = WorkerHello(
            rank=rank, local_rank=0, world=world, nproc=1, round=1, group=group
        )
        self.memory = AgentSnapshotClient(self.server.name, self.worker)

    def save(self, step: int, data: int = 10_000) -> Label:
        return save(self.memory, self.worker, step=step, data=data)

    def put(self, label: Label, content: bytes) -> None:
        """Put a part into memory, whoever owns it."""
        filling = self.holdings.fill(label, len(content))
        assert filling is not None
        with open(filling.descriptor, "wb", closefd=False) as file:
            file.seek(BEGIN)
            file.write(content)
        filling.complete()

    def has(self, label: Label) -> bool:
        return any(held.label == label for held in self.memory.inventory())

    def is_free(self, label: Label) -> bool:
        """Whether a worker could overwrite a part, because it is not held."""
        free = False
        for slot in self.holdings.reserve(label.place, 0).descriptors:
            own = take(slot) if read_control(slot).label == label else None
            free = free or own is not None
            for descriptor in (slot, own):
                if descriptor is not None:
                    os.close(descriptor)
        return free

    def copy(self, label: Label, to: Node | str, *, transfer: Transfer | None = None) -> None:
        """Copy a part to another node; the part is held meanwhile."""
        held = self.holdings.hold(label)
        assert held is not None
        part = LockedPart(label, *held, version=1)
        address = to if isinstance(to, str) else to.peers.address
        try:
            copy_to(address, part, transfer or Transfer(self.carrier), token=TOKEN)
        finally:
            os.close(part.descriptor)

    def close(self) -> None:
        self.memory.close()
        self.server.close()
        self.keeper.close()


MakeNode = Callable[..., Node]


@contextmanager
def nodes() -> Iterator[MakeNode]:
    """A function that creates nodes, all of which end with the context."""
    made: list[Node] = []

    def one(
        rank: int,
        *,
        token: str = TOKEN,
        limit: int | None = None,
        world: int = 2,
        group: str = "",
    ) -> Node:
        made.append(Node(rank, token=token, limit=limit, world=world, group=group))
        return made[-1]

    try:
        yield one
    finally:
        for node in made:
            node.close()


def hung_up(connection: socket.socket) -> bool:
    """Whether the other side closes the connection without another message."""
    try:
        return connection.recv(100) == b""
    except ConnectionResetError:
        return True
