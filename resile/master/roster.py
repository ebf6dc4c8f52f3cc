"""The nodes of a job as its master sees them now: who is here, who is away, since when.

Only a node's record survives the master. Everything else here is what a living agent says again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from resile.master.records import NodeRecord
from resile.wire.messages import LocalState, Progress, RankProgress, Usage, WorkersNow

RECONNECT_WINDOW = 2.0
"""After a master's return its agents are given this long before anything hastens their end."""


@dataclass
class Node:
    """One node. ``proof_at`` is when the loss of its connection becomes proof of its death."""

    record: NodeRecord
    lease_until: float
    proof_at: float | None = None
    not_before: float = 0.0
    """Evidence may not bring ``proof_at`` nearer than this."""

    warm: bool = True
    """Whether it can start workers at once."""

    state: LocalState = LocalState.IDLE
    progress: Progress | None = None
    usage: Usage | None = None
    workers: WorkersNow | None = None
    missing: tuple[int, ...] = ()
    """Global ranks of its workers that have not reached the process group."""

    leave_by: float | None = None
    """Until when it may stay although another has its place: its workers may want to save."""

    killed_early: bool = False
    """Its workers were killed before they ever reached the process group."""

    waited_for: bool = False
    """Its lease is over, and it is kept because nobody could take its place."""

    told: str = ""
    """The reason it was last given for waiting, so that it is told once."""

    ranks: tuple[RankProgress, ...] = ()
    """How far each of its workers has come, as it said last."""

    @property
    def id(self) -> int:
        """The node's id."""
        return self.record.id

    @property
    def connected(self) -> bool:
        """Whether it holds a connection to this master."""
        return self.proof_at is None

    @property
    def label(self) -> str:
        """What people call it: by the name its platform gave it, which has an id of its own."""
        info = self.record.info
        return info.name if info.generation is not None else f"node {self.record.id} ({info.name})"


class Roster:
    """All nodes of the job, and among them those in *limbo*: away, but not yet proven lost."""

    def __init__(self) -> None:
        self._nodes: dict[int, Node] = {}
        self._claims: dict[int, set[int]] = {}
        self.limbo: set[int] = set()
        self.cold: set[int] = set()
        """Those who cannot start workers yet."""
        self.parting: set[int] = set()
        """Those who have said that they are about to leave."""

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(list(self._nodes.values()))

    def __contains__(self, node: object) -> bool:
        return node in self._nodes

    def __getitem__(self, node: int) -> Node:
        return self._nodes[node]

    def get(self, node: int) -> Node | None:
        """The node with this id, if it is in the job."""
        return self._nodes.get(node)

    def add(self, node: Node) -> None:
        """A node joins the job."""
        self._nodes[node.id] = node
        self.claim(node, node.record.info.rank)
        self.claim(node, node.record.slot)
        if not node.connected:
            self.limbo.add(node.id)
        if not node.warm:
            self.cold.add(node.id)

    def warmed(self, node: Node) -> None:
        """It can start workers from now on."""
        node.warm = True
        self.cold.discard(node.id)

    def claim(self, node: Node, rank: int | None) -> None:
        """A node holds a rank, or wishes to."""
        if rank is not None:
            self._claims.setdefault(rank, set()).add(node.id)

    def renounce(self, node: Node, rank: int | None) -> None:
        """A node got another rank than it held; the one that it wishes for stays its wish."""
        if rank is not None and rank != node.record.info.rank:
            self._claims.get(rank, set()).discard(node.id)

    def claimants(self, rank: int) -> list[Node]:
        """Nodes in the job that hold a rank, or wish to."""
        return [self._nodes[node] for node in sorted(self._claims.get(rank, ()))]

    def staying(self) -> Collection[Node]:
        """Those who have not said that they are about to leave."""
        if not self.parting:
            return self
        return [node for node in self._nodes.values() if node.id not in self.parting]

    def remove(self, node: Node) -> None:
        """A node is out of the job."""
        del self._nodes[node.id]
        self.limbo.discard(node.id)
        self.cold.discard(node.id)
        self.parting.discard(node.id)
        for rank in (node.record.info.rank, node.record.slot):
            if rank is not None:
                self._claims.get(rank, set()).discard(node.id)

    def lost_connection(self, node: Node, *, proof_at: float, not_before: float) -> None:
        """Its connection is gone; that is proof at ``proof_at``."""
        node.proof_at, node.not_before = proof_at, not_before
        self.limbo.add(node.id)

    def is_back(self, node: Node, *, lease_until: float) -> None:
        """It holds a connection again."""
        node.proof_at, node.lease_until = None, lease_until
        self.limbo.discard(node.id)

    def hasten(self, members: Collection[int], *, proof_at: float) -> None:
        """Others fail while these are away: with two witnesses the grace is shorter."""
        for node_id in self.limbo.intersection(members):
            node = self._nodes[node_id]
            sooner = max(proof_at, node.not_before)
            node.proof_at = sooner if node.proof_at is None else min(node.proof_at, sooner)

    def proven_lost(self, now: float) -> list[Node]:
        """Those whose connection has been gone for longer than its grace."""
        away = (self._nodes[node] for node in self.limbo)
        return [node for node in away if node.proof_at is not None and node.proof_at <= now]

    def silent(self, now: float) -> list[Node]:
        """Those who hold a connection but let their lease run out."""
        return [n for n in self._nodes.values() if n.connected and n.lease_until <= now]

    def overstaying(self, now: float) -> list[Node]:
        """Those who should have left by now."""
        return [n for n in self._nodes.values() if n.leave_by is not None and n.leave_by <= now]

    def deadlines(self) -> Iterator[float]:
        """When those in limbo are proven lost, and those who are replaced have to be gone."""
        for node in self.limbo:
            proof_at = self._nodes[node].proof_at
            if proof_at is not None:
                yield proof_at
        yield from (n.leave_by for n in self._nodes.values() if n.leave_by is not None)
