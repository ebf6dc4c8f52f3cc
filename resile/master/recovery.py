"""Recovery of a job by a new master: from its agents when the store is empty, or from a store that
its nodes abandoned.

An empty store does not show whether a job never started or was lost. Its agents know: each has its
id, the round it holds, and the Start message of that round. A master that knows of no round and
meets an agent that holds one admits no new nodes until every member of the newest round has
reported; agents that connect are asked to retry. From their reports it builds the records that a
store would have had, and no worker notices. A member that does not come within a lease counts as
lost, as usual. Then the others retain their ids and slots, and form a round that is newer than any
they have seen.

A job whose processes were all killed is not over for its store. The next one at the same endpoint
continues it: round numbers go on, and so do leased records. The settings of the dead nodes are not
inherited: sizes, timeouts, and the restarts that they used up. A job counts as abandoned when every
node in the store has had its time to come back and none did. Nodes that joined meanwhile are told
so, and how to discard the old job instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from resile.job.elasticity import Elasticity
from resile.job.events import EventKind
from resile.master.nodes import NodeEntry
from resile.master.records import JobRecord, NodeRecord, RoundPhase, RoundRecord, StoredGroup
from resile.master.round import Round, deciding_members
from resile.master.state import GroupState
from resile.wire.messages import Hello, LocalState, NodeInfo, Refused, Start, Wait

__all__ = [
    "AbandonedJob",
    "AgentRecovery",
    "StateRecovery",
    "knows_a_round",
    "newest_round",
]


SKIPPED_IDS = 1000
"""Ids that are skipped above the highest reported one. Nodes that are disconnected may hold some of
them, and no id is ever given twice."""

MAX_TRUSTED = 2**48
"""Upper bound for ids and rounds accepted from agents; larger ones are ignored so that counters
cannot overflow."""

STARTED_STATES = frozenset({LocalState.RUNNING, LocalState.FAILED, LocalState.SUCCEEDED})
"""States of an agent that has started a round's workers and was not told to stop them."""


@dataclass(frozen=True)
class ReportedState:
    """The state of a job that one agent reports."""

    node: int
    round: int
    info: NodeInfo
    part: Start | None
    """The Start of the round it holds; None when it waits, or was still preparing."""

    restarts: int


def knows_a_round(hello: Hello) -> bool:
    """Whether an agent knows of a round."""
    reported = _holding_of(hello)
    return reported is not None and reported.round > 0


def newest_round(hello: Hello) -> int:
    """Return the newest round that an agent reports, 0 if that number is not credible."""
    seen = max(hello.seen, hello.held.round if hello.held else 0)
    return seen if seen <= MAX_TRUSTED else 0


class AgentRecovery:
    """A recovery. ``until``: the deadline for agents to report."""

    def __init__(self, *, until: float) -> None:
        self.until = until
        self._heard: dict[tuple[int, str], ReportedState] = {}
        self._round = 0
        self._members: dict[int, ReportedState] = {}
        """Members of the newest round, by group rank."""

    def hear(self, hello: Hello, *, now: float) -> Refused:
        """Add what an agent holds; the answer asks it to retry soon."""
        reported = _holding_of(hello)
        if reported is not None:
            self._heard[reported.node, reported.info.name] = reported
            self._place(reported)
            if self._is_whole():
                self.until = min(self.until, now)
        return Refused(reason=self._wait_reason())

    @property
    def anything(self) -> bool:
        """Whether any agent reported something that it holds."""
        return bool(self._heard)

    def memory(self, job: JobRecord) -> StoredGroup:
        """Return the records that a store would have had, as far as they can be known."""
        heard = self._heard.values()
        slots = _slots(self._in_order(), job.elasticity)
        nodes = {member.node: _record(member, slot) for member, slot in slots}
        for reported in heard:
            nodes.setdefault(reported.node, _record(reported, None))
        restarts = max(reported.restarts for reported in heard)
        said = (job.newest, *(reported.info.generation for reported in heard))
        return StoredGroup(
            job=msgspec.structs.replace(
                job,
                next_node=max(job.next_node, max(nodes) + 1 + SKIPPED_IDS),
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

    def _place(self, reported: ReportedState) -> None:
        if reported.round > self._round:
            self._round, self._members = reported.round, {}
        if reported.round == self._round and reported.part is not None:
            self._members[reported.part.group_rank] = reported

    @property
    def _size(self) -> int:
        """The number of members of the newest round; 0 while none of them has reported."""
        parts = (member.part.group_world_size for member in self._members.values() if member.part)
        return next(parts, 0)

    def _in_order(self) -> list[tuple[ReportedState, Start]]:
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


def _start_in(round: Round, member: ReportedState, part: Start, *, run: str) -> Start:
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


def _holding_of(hello: Hello) -> ReportedState | None:
    held, start = hello.held, hello.start
    if held is None or max(held.node, held.round) > MAX_TRUSTED:
        return None
    takes_part = start is not None and start.round == held.round and hello.state in STARTED_STATES
    return ReportedState(
        node=held.node,
        round=held.round,
        info=hello.info,
        part=start if takes_part else None,
        restarts=start.restart_count if start is not None else 0,
    )


def _record(reported: ReportedState, slot: int | None) -> NodeRecord:
    return NodeRecord(id=reported.node, info=reported.info, slot=slot)


def _slots(
    members: Iterable[tuple[ReportedState, Start]], elasticity: Elasticity
) -> Iterable[tuple[ReportedState, int]]:
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


class StateRecovery:
    """Asks agents what they hold, as long as nothing of the group's rounds is known."""

    def __init__(self, state: GroupState, *, forgotten: bool) -> None:
        """``forgotten``: the job is known to have trained, but its state is lost."""
        self._state = state
        self._forgotten = forgotten
        self._from_agents: AgentRecovery | None = None

    @property
    def recovering(self) -> bool:
        """Whether agents are being asked; no node is admitted meanwhile."""
        return self._from_agents is not None

    @property
    def until(self) -> float | None:
        """The deadline for agents to report; None while they are not asked."""
        return None if self._from_agents is None else self._from_agents.until

    def concerns(self, hello: Hello) -> bool:
        """Whether this agent or others may hold a round that this master does not know."""
        if self._state.round.number:
            return False
        return self._forgotten or knows_a_round(hello)

    def start(self, now: float) -> None:
        """Start asking agents."""
        elasticity = self._state.elasticity
        timeout = elasticity.lease
        if self._forgotten:
            # The old master may still run, and nodes with it that save before they leave.
            timeout += elasticity.leave_timeout
        self._from_agents = AgentRecovery(until=now + timeout)

    def hear(self, hello: Hello, *, now: float) -> Refused | None:
        """Add what an agent holds; the answer asks it to retry soon."""
        if self._from_agents is None or self._state.round.number:
            return None
        return self._from_agents.hear(hello, now=now)

    def nobody_holds_anything(self, *, now: float) -> None:
        """Stop waiting for nodes that this master might not know of: all of them are gone."""
        if self._from_agents is None:
            self._forgotten = False
        elif not self._from_agents.anything:
            self._from_agents.until = min(self._from_agents.until, now)

    def adopt(self, now: float) -> str:
        """Continue from what agents hold; return a description of the result."""
        recall, self._from_agents, self._forgotten = self._from_agents, None, False
        if recall is None:
            raise RuntimeError("no agent was asked what it holds")
        if recall.anything:
            self._state.adopt(recall.memory(self._state.job), now=now)
        return recall.sentence


class AbandonedJob:
    """Tracks the nodes that a restarted master found in its store."""

    def __init__(self, state: GroupState, how_to_discard: str) -> None:
        self._state = state
        self._how_to_forget = how_to_discard
        self._expected: set[int] = set()
        """Nodes of the store that have not come back; empty once the question is settled."""
        self._terms: Elasticity | None = None
        """The settings of the first node that joined meanwhile."""

    def expect(self, nodes: Iterable[NodeEntry]) -> None:
        """Expect the nodes of the store: any that comes back shows that the job is alive."""
        self._expected = {node.id for node in nodes}

    def came_back(self, node: NodeEntry) -> None:
        """A node is back: the job was not abandoned."""
        if node.id in self._expected:
            self._expected.clear()
            self._terms = None

    def joined(self, node: NodeEntry, terms: Elasticity) -> None:
        """A node joined that was not in the store."""
        if not self._expected:
            return
        self._terms = self._terms or terms
        state = self._state
        count = f"{len(self._expected)} node{'s' if len(self._expected) > 1 else ''}"
        reason = (
            f"found the job '{state.job.job}' at round {state.round.number}: its {count} "
            f"may rejoin within {state.elasticity.lease:g} s"
        )
        state.send(node.id, Wait(reason=reason))

    def gone(self, node: NodeEntry, now: float) -> None:
        """A node is out of the job. If it was the last one of the store, continue with the settings
        of the nodes that are here."""
        if node.id not in self._expected:
            return
        self._expected.discard(node.id)
        if self._expected or self._terms is None:
            return
        terms, self._terms = self._terms, None
        state = self._state
        state.set_job(elasticity=terms, restarts=0)
        number = state.round.number
        text = (
            f"the nodes of the job '{state.job.job}', at round {number}, did not come back: it "
            "continues with the settings of the present nodes and with all restarts"
        )
        state.record_event(EventKind.JOB_CONTINUED, text, now)
        if self._how_to_forget:
            text += f"; to discard it, {self._how_to_forget}"
        for present in state.nodes:
            state.welcome(present, 0, note=text)
