"""Recovery of a master's state from the agents of a running job.

An empty store does not show whether a job never started or was lost. Its agents know: each has
its id, the round it holds, and the Start message of that round. A master that knows of no
round and meets an agent that holds one admits no new nodes until every member of the newest round
has reported; agents that connect are asked to retry. From their reports it builds the records that
a store would have had, and no worker notices.

A member that does not come within a lease counts as lost, as usual. Then the others retain their
ids and slots, and form a round that is newer than any they have seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from resile.job.elasticity import Elasticity
from resile.master.records import GroupMemory, JobRecord, NodeRecord, RoundPhase, RoundRecord
from resile.master.rounds import Round
from resile.master.selection import deciding_members
from resile.wire.messages import Hello, LocalState, NodeInfo, Refused, Start

__all__ = ["Recall", "newest_round", "remembers"]

UNHEARD_IDS = 1000
"""Ids that are skipped above the highest reported one. Nodes that are disconnected may hold some of
them, and no id is ever given twice."""

BELIEVED = 2**48
"""Upper bound for ids and rounds accepted from agents; larger ones are ignored so that counters
cannot overflow."""

TAKES_PART = frozenset({LocalState.RUNNING, LocalState.FAILED, LocalState.SUCCEEDED})
"""States of an agent that has started a round's workers and was not told to stop them."""


@dataclass(frozen=True)
class Holding:
    """The state of a job that one agent reports."""

    node: int
    round: int
    info: NodeInfo
    part: Start | None
    """The Start of the round it holds; None when it waits, or was still preparing."""

    restarts: int


def remembers(hello: Hello) -> bool:
    """Whether an agent knows of a round."""
    holding = _holding_of(hello)
    return holding is not None and holding.round > 0


def newest_round(hello: Hello) -> int:
    """Return the newest round that an agent reports, 0 if that number is not credible."""
    seen = max(hello.seen, hello.held.round if hello.held else 0)
    return seen if seen <= BELIEVED else 0


class Recall:
    """One recovery. ``until``: the deadline for agents to report."""

    def __init__(self, *, until: float) -> None:
        self.until = until
        self._heard: dict[tuple[int, str], Holding] = {}
        self._round = 0
        self._members: dict[int, Holding] = {}
        """Members of the newest round, by group rank."""

    def hear(self, hello: Hello, *, now: float) -> Refused:
        """Add what an agent holds; the answer asks it to retry soon."""
        holding = _holding_of(hello)
        if holding is not None:
            self._heard[holding.node, holding.info.name] = holding
            self._place(holding)
            if self._is_whole():
                self.until = min(self.until, now)
        return Refused(reason=self._wait_reason())

    @property
    def anything(self) -> bool:
        """Whether any agent reported something that it holds."""
        return bool(self._heard)

    def memory(self, job: JobRecord) -> GroupMemory:
        """Return the records that a store would have had, as far as they can be known."""
        heard = self._heard.values()
        slots = _slots(self._in_order(), job.elasticity)
        nodes = {member.node: _record(member, slot) for member, slot in slots}
        for holding in heard:
            nodes.setdefault(holding.node, _record(holding, None))
        restarts = max(holding.restarts for holding in heard)
        said = (job.newest, *(holding.info.generation for holding in heard))
        return GroupMemory(
            job=msgspec.structs.replace(
                job,
                next_node=max(job.next_node, max(nodes) + 1 + UNHEARD_IDS),
                restarts=max(job.restarts, min(restarts, job.elasticity.max_restarts)),
                recalled=self._round,
                newest=max((one for one in said if one is not None), default=None),
                run=next((part.run for _, part in self._in_order() if part.run), job.run),
            ),
            round=self._round_record(job.elasticity),
            nodes=tuple(nodes.values()),
        )

    @property
    def sentence(self) -> str:
        """The result, for people."""
        if not self._heard:
            return "the master lost its state, and no node holds anything of the job"
        if self._is_whole():
            agents = f"{len(self._heard)} agent{'s hold' if len(self._heard) > 1 else ' holds'}"
            return f"the master lost its state and resumed round {self._round} from what {agents}"
        return f"the master lost its state: {self._shortage()}"

    # --- the newest round -------------------------------------------------------------------

    def _place(self, holding: Holding) -> None:
        if holding.round > self._round:
            self._round, self._members = holding.round, {}
        if holding.round == self._round and holding.part is not None:
            self._members[holding.part.group_rank] = holding

    @property
    def _size(self) -> int:
        """The number of members of the newest round; 0 while none of them has reported."""
        parts = (member.part.group_world_size for member in self._members.values() if member.part)
        return next(parts, 0)

    def _in_order(self) -> list[tuple[Holding, Start]]:
        ranked = sorted(self._members.items())
        return [(member, member.part) for _, member in ranked if member.part is not None]

    def _is_whole(self) -> bool:
        """Whether the rebuilt round has for each member exactly the Start that it holds."""
        if not self._members or len(self._members) != self._size:
            return False
        members = self._in_order()
        record = RoundRecord(
            number=self._round,
            members=tuple(member.node for member, _ in members),
            store=members[0][1].store,
        )
        round = Round(record, {member.node: member.info for member, _ in members})
        run = members[0][1].run
        return all(
            _comparable(part) == _comparable(_start_in(round, member, part, run=run))
            for member, part in members
        )

    def _round_record(self, elasticity: Elasticity) -> RoundRecord:
        members = self._in_order()
        whole = self._is_whole()
        ids = tuple(member.node for member, _ in members)
        infos = {member.node: member.info for member, _ in members}
        return RoundRecord(
            number=self._round,
            phase=RoundPhase.RUNNING if whole else RoundPhase.GATHERING,
            members=ids,
            store=members[0][1].store if members else None,
            reason="resumed from what its nodes hold" if whole else self._shortage(),
            success=elasticity.success,
            deciding=deciding_members(ids, infos, elasticity),
        )

    def _shortage(self) -> str:
        if not self._heard:
            return "no node has come back yet"
        if not self._members:
            return f"no node that came back had started round {self._round}"
        return f"{len(self._members)} of {self._size} nodes of round {self._round} came back"

    def _wait_reason(self) -> str:
        return f"this master lost its state and is asking its nodes for it: {self._shortage()}"


def _start_in(round: Round, member: Holding, part: Start, *, run: str) -> Start:
    """Return the Start of a member in ``round``, with the counts of the one it holds."""
    return round.start_for(
        member.node,
        run=run,
        restarts=part.restart_count,
        max_restarts=part.max_restarts,
        neighbour=part.neighbour,
    )


def _comparable(start: Start) -> Start:
    """A Start without ``role_place``: it follows from the rest, and older agents do not hold it."""
    return msgspec.structs.replace(start, role_place=None)


def _holding_of(hello: Hello) -> Holding | None:
    held, start = hello.held, hello.start
    if held is None or max(held.node, held.round) > BELIEVED:
        return None
    takes_part = start is not None and start.round == held.round and hello.state in TAKES_PART
    return Holding(
        node=held.node,
        round=held.round,
        info=hello.info,
        part=start if takes_part else None,
        restarts=start.restart_count if start is not None else 0,
    )


def _record(holding: Holding, slot: int | None) -> NodeRecord:
    return NodeRecord(id=holding.node, info=holding.info, slot=slot)


def _slots(
    members: Iterable[tuple[Holding, Start]], elasticity: Elasticity
) -> Iterable[tuple[Holding, int]]:
    """Yield a slot in its role for each member, in rank order: the requested one where possible.

    Agents do not know their slots. What matters is their order, and that a replacement that names a
    slot finds its predecessor there; the slot of a lost member stays free.
    """
    first: dict[str, int] = {}
    following: dict[str, int] = {}
    for member, part in members:
        role = elasticity.role_of(member.info.role)
        place = part.group_rank - first.setdefault(role, part.group_rank if role else 0)
        wish = place if member.info.rank is None else member.info.rank
        slot = max(following.get(role, 0), wish)
        following[role] = slot + 1
        yield member, slot
