"""The nodes of a group as its master sees them: connected or not, warm or not, leaving or not.

Only a node's record is stored. Agents report everything else again to a restarted master.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from resile.master.records import NodeRecord
from resile.wire.messages import LocalState, Progress, RankProgress, Usage, WorkersNow

RECONNECT_WINDOW = 2.0
"""Seconds after a restart of the master in which no agent's grace period is shortened."""


@dataclass
class NodeEntry:
    """A node. ``proof_at`` is when the loss of its connection becomes proof of its loss."""

    record: NodeRecord
    lease_until: float
    proof_at: float | None = None
    not_before: float = 0.0
    """Evidence may not move ``proof_at`` to before this."""

    warm: bool = True
    """Whether it can start workers at once."""

    state: LocalState = LocalState.IDLE
    progress: Progress | None = None
    usage: Usage | None = None
    workers: WorkersNow | None = None
    missing: tuple[int, ...] = ()
    """Global ranks of its workers that have not reached the process group."""

    leave_by: float | None = None
    """Until when it may stay although it was replaced: its workers may want to save."""

    killed_early: bool = False
    """Its workers were killed before they ever reached the process group."""

    waited_for: bool = False
    """Its lease is over, and it is kept because no other node could take its place."""

    wait_reason: str = ""
    """The last reason for waiting that it was sent, so that each is sent once."""

    ranks: tuple[RankProgress, ...] = ()
    """The last reported progress of each of its workers."""

    @property
    def id(self) -> int:
        """The node's id."""
        return self.record.id

    @property
    def connected(self) -> bool:
        """Whether it is connected to this master."""
        return self.proof_at is None

    @property
    def label(self) -> str:
        """Its name in messages for people: a platform's names are unique, others get the id."""
        info = self.record.info
        return info.name if info.generation is not None else f"node {self.record.id} ({info.name})"


class NodeTable:
    """All nodes of a group. ``disconnected``: without a connection, but not yet proven lost."""

    def __init__(self) -> None:
        self._nodes: dict[int, NodeEntry] = {}
        self._claims: dict[int, set[int]] = {}
        self.disconnected: set[int] = set()
        self.cold: set[int] = set()
        """Nodes that cannot start workers yet."""
        self.leaving: set[int] = set()
        """Nodes that have announced that they leave."""

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[NodeEntry]:
        return iter(list(self._nodes.values()))

    def __contains__(self, node: object) -> bool:
        return node in self._nodes

    def __getitem__(self, node: int) -> NodeEntry:
        return self._nodes[node]

    def get(self, node: int) -> NodeEntry | None:
        """Return the node with this id, None if there is none."""
        return self._nodes.get(node)

    def add(self, node: NodeEntry) -> None:
        """Add a node."""
        self._nodes[node.id] = node
        self.claim(node, node.record.info.rank)
        self.claim(node, node.record.slot)
        if not node.connected:
            self.disconnected.add(node.id)
        if not node.warm:
            self.cold.add(node.id)

    def warmed(self, node: NodeEntry) -> None:
        """Note that a node can start workers from now on."""
        node.warm = True
        self.cold.discard(node.id)

    def claim(self, node: NodeEntry, rank: int | None) -> None:
        """Note that a node holds a rank, or requests it."""
        if rank is not None:
            self._claims.setdefault(rank, set()).add(node.id)

    def release_claim(self, node: NodeEntry, rank: int | None) -> None:
        """Note that a node no longer holds a rank; its request for one stays."""
        if rank is not None and rank != node.record.info.rank:
            self._claims.get(rank, set()).discard(node.id)

    def holders_of_rank(self, rank: int) -> list[NodeEntry]:
        """Return the nodes that hold a rank, or request it."""
        return [self._nodes[node] for node in sorted(self._claims.get(rank, ()))]

    def staying(self) -> Collection[NodeEntry]:
        """Return the nodes that have not announced that they leave."""
        if not self.leaving:
            return self
        return [node for node in self._nodes.values() if node.id not in self.leaving]

    def remove(self, node: NodeEntry) -> None:
        """Remove a node."""
        del self._nodes[node.id]
        self.disconnected.discard(node.id)
        self.cold.discard(node.id)
        self.leaving.discard(node.id)
        for rank in (node.record.info.rank, node.record.slot):
            if rank is not None:
                self._claims.get(rank, set()).discard(node.id)

    def lost_connection(self, node: NodeEntry, *, proof_at: float, not_before: float) -> None:
        """Note that a node is disconnected; that is proof of its loss at ``proof_at``."""
        node.proof_at, node.not_before = proof_at, not_before
        self.disconnected.add(node.id)

    def reconnected(self, node: NodeEntry, *, lease_until: float) -> None:
        """Note that a node is connected again."""
        node.proof_at, node.lease_until = None, lease_until
        self.disconnected.discard(node.id)

    def shorten_grace(self, members: Collection[int], *, proof_at: float) -> None:
        """Shorten the grace of disconnected members: failures elsewhere are a second evidence."""
        for node_id in self.disconnected.intersection(members):
            node = self._nodes[node_id]
            sooner = max(proof_at, node.not_before)
            node.proof_at = sooner if node.proof_at is None else min(node.proof_at, sooner)

    def proven_lost(self, now: float) -> list[NodeEntry]:
        """Return the nodes that have been disconnected for longer than their grace."""
        away = (self._nodes[node] for node in self.disconnected)
        return [node for node in away if node.proof_at is not None and node.proof_at <= now]

    def silent(self, now: float) -> list[NodeEntry]:
        """Return the nodes that are connected but let their lease expire."""
        return [n for n in self._nodes.values() if n.connected and n.lease_until <= now]

    def overdue(self, now: float) -> list[NodeEntry]:
        """Return the nodes that should have left by now."""
        return [n for n in self._nodes.values() if n.leave_by is not None and n.leave_by <= now]

    def deadlines(self) -> Iterator[float]:
        """Yield when disconnected nodes are proven lost, and when replaced ones have to be gone."""
        for node in self.disconnected:
            proof_at = self._nodes[node].proof_at
            if proof_at is not None:
                yield proof_at
        yield from (n.leave_by for n in self._nodes.values() if n.leave_by is not None)
