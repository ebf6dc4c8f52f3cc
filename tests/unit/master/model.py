"""A job of simulated agents on a virtual clock, for testing the membership without any I/O.

The agents behave correctly: they respond to every instruction at once, unless a test holds their
responses. Every message is checked against the guarantees of the protocol.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from resile.job.elasticity import Elasticity
from resile.master.effects import Address, Effects
from resile.master.groups import Groups, MasterInfo
from resile.master.membership import Membership
from resile.master.records import JOB_KEY, JobRecord, RoundPhase, decode_state
from resile.wire.messages import (
    Drain,
    Fence,
    Fenced,
    FromMaster,
    Handover,
    HandoverCancelled,
    HandoverOver,
    HandoverPublish,
    HandoverStep,
    Hello,
    JobDone,
    LocalState,
    NodeInfo,
    Prepare,
    Progress,
    Refused,
    Start,
    StoreAddress,
    Wait,
    Welcome,
    WorkerFailure,
)

STEP = 7
"""The step that workers save before a planned change."""


@dataclass
class PretendAgent:
    """The state of an agent, and all messages it received."""

    name: str
    group: str = ""
    nproc: int = 1
    role: str = "default"
    rank: int | None = None
    generation: int | None = None
    warm: bool = True
    saves: bool = False
    """Whether its workers can save before a planned change."""
    slow: bool = False
    """Whether they never finish doing so."""
    copies: bool = True
    """Whether the next node has copies of what they save."""
    stores: bool = True
    """Whether what they save is written to storage."""
    terms: Elasticity | None = None
    """Its user's settings, if not the same as the others'."""
    node: int | None = None
    round: int = 0
    state: LocalState = LocalState.IDLE
    store: StoreAddress | None = None
    connected: bool = True
    start: Start | None = None
    seen: int = 0
    """The newest round ever: its keeper ignores workers of older ones."""
    asked: int = 0
    """The handover that its workers are asked for; 0 for none."""
    holding: bool = False
    """Whether its workers saved a step for that, and wait until it is over."""
    hold_until: float = 0.0
    newest: int = 0
    """The newest handover it ever received."""
    leaving: bool = False
    stubborn: bool = False
    """Whether it does not leave when asked to."""
    told: list[FromMaster] = field(default_factory=list)

    def hello(self, elasticity: Elasticity, job: str = "j") -> Hello:
        held = None if self.node is None else Fence(self.node, self.round)
        info = NodeInfo(
            name=self.name,
            host="h",
            address="a",
            nproc=self.nproc,
            role=self.role,
            rank=self.rank,
            generation=self.generation,
        )
        return Hello(
            job=job,
            info=info,
            elasticity=elasticity,
            held=held,
            warm=self.warm,
            state=self.state,
            store=self.store,
            start=self.start,
            seen=self.seen,
            leaving="SIGTERM" if self.leaving else "",
            handover=self.newest,
            group=self.group,
        )

    def go_on(self) -> None:
        """Let waiting workers train again, or be stopped."""
        self.asked, self.holding = 0, False


class Model:
    """One job. ``now`` moves only by :meth:`advance`.

    Tests with one group use the main one (``membership``, ``running``); agents of others have their
    group's name, and its sizes are in ``terms`` if they are not the main group's.
    """

    def __init__(self, *, terms: dict[str, Elasticity] | None = None, **sizes: object) -> None:
        self.elasticity = msgspec.convert(sizes, Elasticity)
        self.terms = terms or {}
        self.now = 0.0
        self.ends_with_job = True
        self.groups = self._beginning()
        self.agents: dict[str, PretendAgent] = {}
        self.by_node: dict[Address, PretendAgent] = {}
        self.kept: dict[str, bytes] = {}
        self.ids: set[Address] = set()
        self.answering = True
        self.losing = False
        """Whether the master dies between keeping records and sending messages."""
        self.dies_in: int | None = None
        """The number of further messages after which the master dies; None: it does not."""
        self.newcomers_die = False
        """Whether the nodes that are not in the round die with it."""
        self._names = 0

    @property
    def membership(self) -> Membership:
        return self.groups.main

    def of(self, agent: PretendAgent) -> Membership:
        """The group of an agent, for changes."""
        group = self.groups.touch(agent.group)
        assert group is not None
        return group

    def elasticity_of(self, group: str) -> Elasticity:
        return self.terms.get(group, self.elasticity)

    # --- what tests do ----------------------------------------------------------------------

    def join(self, **about: object) -> PretendAgent:
        self._names += 1
        agent = PretendAgent(name=f"n{self._names}", **about)  # type: ignore[arg-type]
        self.agents[agent.name] = agent
        self.connect(agent)
        return agent

    def connect(self, agent: PretendAgent) -> None:
        agent.connected = True
        terms = agent.terms or self.elasticity_of(agent.group)
        answer = self.groups.hello(agent.hello(terms), now=self.now)
        if isinstance(answer, int):
            self.by_node[Address(agent.group, answer)] = agent
        else:
            self._hear(agent, answer)
        self.settle()

    def cut(self, agent: PretendAgent) -> None:
        """Close its connection; it may come back."""
        agent.connected = False
        group = self.groups.touch(agent.group)
        if agent.node is not None and group is not None:
            group.disconnected(agent.node, now=self.now)
        self.settle()

    def kill(self, agent: PretendAgent) -> None:
        """Remove the agent for good."""
        self.agents.pop(agent.name)
        self.cut(agent)

    def leave(self, agent: PretendAgent) -> None:
        self.agents.pop(agent.name)
        agent.connected = False
        self.of(agent).left(self.fence(agent), "test", now=self.now)
        self.settle()

    def warm_up(self, agent: PretendAgent) -> None:
        agent.warm = True
        self.of(agent).reports.warmed(self.fence(agent), now=self.now)
        self.settle()

    def fail(
        self, agent: PretendAgent, code: int = 1, message: str = "", *, cannot_start: str = ""
    ) -> str | None:
        agent.state = LocalState.FAILED
        failure = WorkerFailure(
            local_rank=0,
            rank=0,
            pid=1,
            exit_code=code,
            message=message,
            cannot_start=cannot_start,
        )
        refusal = self.of(agent).reports.failed(self.fence(agent), (failure,), now=self.now)
        self.settle()
        return refusal

    def report(self, agent: PretendAgent, step: int) -> None:
        """Report that its workers reached a step."""
        self.of(agent).reports.renew(self.fence(agent), Progress(step=step), now=self.now)

    def reach(self, agent: PretendAgent) -> None:
        """Report that its workers reached the process group."""
        if agent.start is not None:
            ranks = tuple(range(agent.start.first_rank, agent.start.first_rank + agent.nproc))
            self.of(agent).reports.reached(self.fence(agent), ranks, (), now=self.now)
            self.settle()

    def succeed(self, agent: PretendAgent) -> None:
        agent.state = LocalState.SUCCEEDED
        self.of(agent).reports.succeeded(self.fence(agent), now=self.now)
        self.settle()

    def advance(self, seconds: float, *, renew: bool = True) -> None:
        """Let time pass, stopping at every deadline on the way."""
        end = self.now + seconds
        while True:
            if renew:
                self.renew_all()
            self.groups.tick(self.now)
            self.settle()
            deadline = self.groups.next_deadline()
            if deadline is None or deadline > end:
                break
            self.now = max(self.now, deadline)
        self.now = end
        for agent in self.agents.values():
            if agent.hold_until <= self.now:
                agent.go_on()
        if renew:
            self.renew_all()
        self.groups.tick(self.now)
        self.settle()

    def renew_all(self) -> None:
        for agent in self.agents.values():
            if agent.connected and agent.node is not None:
                self.of(agent).reports.renew(self.fence(agent), None, now=self.now)

    def crash_master(self) -> None:
        """Lose everything that was not stored; agents find the new master when they reconnect."""
        self.settle()
        self._return()

    def _die(self) -> None:
        """The master dies now, while sending."""
        self.dies_in = None
        if self.newcomers_die:
            for agent in list(self.agents.values()):
                group = self.groups.get(agent.group)
                if group is None or agent.node not in group.round:
                    del self.agents[agent.name]
        self._return()

    def _return(self) -> None:
        self.losing = False
        memory = decode_state(self.kept)
        assert memory is not None
        about = MasterInfo(ends_with_job=self.ends_with_job, how_to_discard="remove it")
        effects = Effects(memory.events)
        self.groups = Groups.restore(memory, effects=effects, about=about, now=self.now)
        self.by_node = {}
        for agent in self.agents.values():
            agent.connected = False
        self.settle()

    def lose_memory(self, *, after_round: int = 0) -> None:
        """Replace the master by one with an empty store, which does not know the ids in use.

        ``after_round``: the last round of the job, if the new master is given it.
        """
        self.settle()
        self.losing = False
        self.groups = self._beginning(after_round=after_round)
        self.kept, self.by_node, self.ids = {}, {}, set()
        for agent in self.agents.values():
            agent.connected = False
        self.settle()

    def _beginning(self, *, after_round: int = 0) -> Groups:
        job = JobRecord(job="j", elasticity=self.elasticity, floor=after_round, run="r")
        about, effects = MasterInfo(ends_with_job=self.ends_with_job), Effects()
        effects.put(JOB_KEY, job)
        return Groups.begin(job, effects=effects, about=about, forgotten=after_round > 0)

    def reconnect_all(self) -> None:
        for agent in list(self.agents.values()):
            if not agent.connected and agent.name in self.agents:
                self.connect(agent)

    # --- what tests ask ---------------------------------------------------------------------

    @staticmethod
    def fence(agent: PretendAgent) -> Fence:
        return Fence(-1 if agent.node is None else agent.node, agent.round)

    @property
    def running(self) -> set[str]:
        """Names of the main group's agents whose workers train in the current round."""
        return self.running_in("")

    def running_in(self, name: str) -> set[str]:
        """The same for any group."""
        group = self.groups.get(name)
        if group is None or group.round.phase is not RoundPhase.RUNNING:
            return set()
        return {
            agent.name
            for agent in self.agents.values()
            if agent.group == name
            and agent.state is LocalState.RUNNING
            and agent.round == group.round.number
        }

    @property
    def ended(self) -> bool:
        """Whether the job is over."""
        return self.membership.job.outcome is not None

    @property
    def last_event(self) -> str:
        return self.membership.effects.events[-1].text

    # --- carrying effects out -------------------------------------------------------------

    def settle(self) -> None:
        """Store and deliver everything, until no agent has anything more to send."""
        while True:
            pending_effects = self.groups.pending_effects()
            if self.dies_in == 0:
                self._die()  # before it could put what it decided
                return
            for key, record in pending_effects.records.items():
                if record is None:
                    self.kept.pop(key, None)
                else:
                    self.kept[key] = msgspec.msgpack.encode(record)
            if self.losing:
                return
            if not pending_effects.sends:
                self.check_holding()
                return
            for address, message in pending_effects.sends:
                if self.dies_in == 0:
                    self._die()
                    return
                agent = self.by_node.get(address)
                if agent and agent.connected:
                    self._hear(agent, message)
                if self.dies_in is not None:
                    self.dies_in -= 1
            self.check()

    def _hear(self, agent: PretendAgent, message: FromMaster) -> None:
        agent.told.append(message)
        match message:
            case Welcome(node=node, handover=handover):
                address = Address(agent.group, node)
                assert agent.node == node or address not in self.ids, "an id was used again"
                self.ids.add(address)
                agent.node = node
                if agent.asked != handover:
                    agent.go_on()
            case Prepare(round=number, host_store=host):
                assert number >= agent.seen
                agent.round, agent.state, agent.seen = number, LocalState.IDLE, number
                agent.go_on()
                agent.store = StoreAddress("a", 1000 + number) if host else None
                if self.answering:
                    self.answer_prepare(agent)
            case Start(round=number):
                if number == agent.round and agent.state is LocalState.READY:
                    agent.state, agent.start = LocalState.RUNNING, message
            case Handover(round=number, handover=handover):
                assert (number, LocalState.RUNNING) == (agent.round, agent.state)
                self._ask_to_save(agent, handover)
            case HandoverStep(handover=handover):
                self._save_all(agent.group, handover)
            case HandoverCancelled(handover=handover):
                # With workers that have ended it asks none, and may have been disconnected.
                ended = agent.state is LocalState.SUCCEEDED
                assert handover == agent.asked or not agent.saves or ended
                agent.go_on()
            case HandoverPublish() if not agent.slow:
                self.publish(agent, STEP if agent.stores else None)
            case HandoverOver() if agent.leaving:
                self.agents.pop(agent.name)
                agent.connected = False
                self.of(agent).left(self.fence(agent), "asked to", now=self.now)
            case Drain() if not agent.stubborn:
                agent.leaving = True
                self.of(agent).reports.leaving(self.fence(agent), "asked to", now=self.now)
            case Wait(stop_workers=True):
                agent.state = LocalState.IDLE
                agent.go_on()
            case Fenced():
                agent.node, agent.round, agent.state = None, 0, LocalState.IDLE
                agent.connected, agent.start = False, None
                agent.go_on()
            case JobDone(others_go_on=True):
                agent.connected = False
                self.agents.pop(agent.name, None)
            case JobDone() if self.elasticity_of(agent.group).independent:
                agent.connected = False
                self.agents.pop(agent.name, None)  # it exits; its group may start again
            case JobDone() | Refused():
                agent.connected = False

    def _ask_to_save(self, agent: PretendAgent, handover: int) -> None:
        assert handover >= agent.newest, "the number of a handover was used again"
        if agent.asked != handover:
            agent.go_on()
        agent.newest = handover
        if agent.saves:
            agent.asked = handover
            agent.hold_until = self.now + self.elasticity_of(agent.group).longest_hold
        fence = self.fence(agent)
        self.of(agent).reports.handover_told(fence, handover, able=agent.saves, now=self.now)
        if agent.holding:
            self.save(agent)  # a master that asks again gets the report again

    def _save_all(self, name: str, handover: int) -> None:
        """Rank 0's node chose a step: all members that were informed before save it."""
        group = self.groups.get(name)
        assert group is not None
        for node in group.round.members:
            member = self.by_node[Address(name, node)]
            assert member.asked == handover, "a worker could have passed the step unawares"
            if not member.slow:
                self.save(member)

    def save(self, agent: PretendAgent) -> None:
        """Its workers hold the step; reported again when the copies have arrived."""
        agent.holding = True
        if agent.connected:
            copied = STEP if agent.copies else None
            fence = self.fence(agent)
            self.of(agent).reports.handed_over(
                fence, agent.asked, STEP, copied=copied, now=self.now
            )

    def publish(self, agent: PretendAgent, stored: int | None = STEP) -> None:
        """Report whether storage has what its workers hold; the agent waits no longer."""
        self.of(agent).reports.handover_published(
            self.fence(agent), agent.asked, stored, now=self.now
        )

    def ask_to_leave(self, agent: PretendAgent) -> None:
        agent.leaving = True
        self.of(agent).reports.leaving(self.fence(agent), "SIGTERM", now=self.now)
        self.settle()

    def answer_prepare(self, agent: PretendAgent) -> None:
        agent.state = LocalState.READY
        self.of(agent).reports.ready(self.fence(agent), agent.store, now=self.now)

    def check(self) -> None:
        """Check the guarantees that hold at all times, for every group."""
        for group in self.groups:
            self._check_group(group)

    def _check_group(self, group: Membership) -> None:
        elasticity, current = self.elasticity_of(group.name), group.round
        if current.phase is not RoundPhase.GATHERING:
            assert len(current.members) % elasticity.node_unit == 0
            assert elasticity.min_nodes <= len(current.members) <= elasticity.max_nodes
            assert len(set(current.members)) == len(current.members)
            self._check_roles(group, elasticity)
        starts = [
            agent.start
            for agent in self.agents.values()
            if agent.group == group.name
            and agent.state is LocalState.RUNNING
            and agent.node is not None
            # not of a node that the master has forgotten
            and self.by_node.get(Address(agent.group, agent.node)) is agent
            and agent.start is not None
            and agent.start.round == current.number == agent.round
        ]
        if starts:
            stores = {(s.run, s.store.port, s.world_size, s.group_world_size) for s in starts}
            assert len(stores) == 1
            assert len({s.group_rank for s in starts}) == len(starts)
            assert len({s.first_rank for s in starts}) == len(starts)
        assert 0 <= group.job.restarts <= elasticity.max_restarts

    @staticmethod
    def _check_roles(group: Membership, elasticity: Elasticity) -> None:
        """Check that each role has its nodes in the round, and the first one the first ranks."""
        records = [group.nodes.get(node) for node in group.round.members]
        roles = [node.record.info.role for node in records if node is not None]
        order = [elasticity.order_of(role) for role in roles]
        assert order == sorted(order)
        if None not in records:
            for role in elasticity.roles:
                count = roles.count(role.name)
                assert role.smallest <= count <= role.max_nodes
                assert count % role.node_unit == 0

    def check_holding(self) -> None:
        """Check, when all is delivered, that workers only wait if the master knows of it."""
        for agent in self.agents.values():
            if agent.holding and agent.connected and agent.name in self.running_in(agent.group):
                group = self.groups.get(agent.group)
                assert group is not None
                assert group.handing_over, f"{agent.name} holds for nothing"
