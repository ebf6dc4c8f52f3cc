"""A small platform that exists only in memory, with some machines and capacity for some nodes.

It carries out the controller's actions and reports the outcome, and lets a test end, remove or
delay any node. It rejects what no platform could accept: an id used twice, or two live nodes of one
rank.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from msgspec import structs

from resile.control.actions import Action, Decision, DeleteNode, StartNode, StopNode
from resile.control.observed import UNSCHEDULABLE, GroupReport, MasterState, Observed, ObservedNode
from resile.control.reconcile import reconcile
from resile.job.compact_status import compact, packed, unpacked
from resile.job.exits import NodeExit, NodeExitCode
from resile.job.node import Node, NodePhase
from resile.job.spec.job import ElasticJob
from resile.job.status import JobStatus, NodeStatus
from tests.statuses import decode_status, encode_status
from tests.unit.control.builders import START, job


class SimulatedPlatform:
    """Nodes start at once if there is capacity, and stop when the test allows it."""

    def __init__(self, job: ElasticJob, *, room: int = 1000, machines: int = 1000) -> None:
        self.job = job
        self.room = room
        self.machines = [f"machine-{number}" for number in range(machines)]
        self.avoids: dict[int, tuple[str, ...]] = {}
        self.status = JobStatus()
        self.now: datetime = START
        self.nodes: dict[int, ObservedNode] = {}
        self.gone: set[int] = set()
        self.used_ids: set[int] = set()
        self.used_names: set[str] = set()
        self.started: list[StartNode] = []
        self.wanted: dict[str, int] = {}
        self.reports: dict[str, GroupReport] = {}
        self.deleting = False
        self.no_master = ""

    @property
    def master(self) -> GroupReport | None:
        """The master's report on the main group's training."""
        return self.reports.get(self.job.spec.main_group)

    @master.setter
    def master(self, report: GroupReport) -> None:
        self.reports[self.job.spec.main_group] = report

    # --- the controller ---------------------------------------------------------------------

    def observed(self) -> Observed:
        return Observed(
            nodes=tuple(self.nodes.values()),
            gone=frozenset(self.gone),
            reports=dict(self.reports),
            wanted=dict(self.wanted),
            deleting=self.deleting,
            master=MasterState(ready=not self.no_master, problem=self.no_master),
        )

    def look(self, *, carry_out: bool = True) -> Decision:
        """Call the controller once, as after a crash: with the status read back from JSON."""
        remembered = unpacked(decode_status(encode_status(packed(self.status))))
        assert remembered == self.status
        decision = reconcile(self.job, remembered, self.observed(), self.now)
        self.status = compact(decision.status)
        assert compact(self.status) == self.status
        if carry_out:
            for action in decision.actions:
                self.carry_out(action)
        return decision

    def settle(self, most: int = 50) -> None:
        """Reconcile until there is nothing more to do."""
        for _ in range(most):
            if not self.look().actions:
                return
        raise AssertionError(f"still acting after {most} looks")

    def carry_out(self, action: Action) -> None:
        if isinstance(action, StartNode):
            self._start(action)
        elif isinstance(action, StopNode):
            self._stop(action.node)
        elif isinstance(action, DeleteNode):
            assert not self.nodes[action.node.id].holds_room, "a live node was to be deleted"
            del self.nodes[action.node.id]

    def _start(self, action: StartNode) -> None:
        node = action.node
        assert node.id not in self.used_ids, f"id {node.id} was used before"
        assert node.name not in self.used_names, f"name {node.name} was used before"
        rivals = [f for f in self.live() if _slot(f.node) == _slot(node)]
        assert not rivals, f"{node} is started beside {rivals}"
        self.used_ids.add(node.id)
        self.used_names.add(node.name)
        self.started.append(action)
        self.avoids[node.id] = action.avoid
        self.nodes[node.id] = ObservedNode(node, NodePhase.PENDING, reason=UNSCHEDULABLE)
        self.place()

    def _stop(self, node: Node) -> None:
        found = self.nodes.get(node.id)
        if found is not None and found.holds_room:
            self.nodes[node.id] = replace(found, stopping=True)

    # --- what the test does -----------------------------------------------------------------

    def live(self) -> list[ObservedNode]:
        return [found for found in self.nodes.values() if found.live]

    def place(self) -> None:
        """Start pending nodes while there is capacity on machines that they do not avoid."""
        for found in list(self.nodes.values()):
            if found.phase is NodePhase.PENDING and not found.stopping:
                self._place(found)

    def _place(self, found: ObservedNode) -> None:
        taken = sum(f.phase is NodePhase.RUNNING or f.lingers for f in self.nodes.values())
        number = found.node.id
        usable = [host for host in self.machines if host not in self.avoids.get(number, ())]
        if taken < self.room and usable:
            self.nodes[number] = replace(
                found,
                phase=NodePhase.RUNNING,
                reason="",
                host=usable[number % len(usable)],
                started_at=self.now,
            )

    def end(self, node: Node, end: NodeExit, *, lingers: bool = False) -> None:
        """End a node in this way, as a whole or only its program."""
        phase = NodePhase.SUCCEEDED if end.code == 0 and not end.reason else NodePhase.FAILED
        found = self.nodes[node.id]
        self.nodes[node.id] = replace(
            found, phase=phase, exit=end, ended_at=self.now, stopping=False, lingers=lingers
        )
        self.place()

    def vanish(self, node: Node) -> None:
        """Remove the node's record, as by `kubectl delete --force`."""
        del self.nodes[node.id]
        self.place()

    def let_stop(self) -> None:
        """Let every node stop that was asked to."""
        for found in list(self.nodes.values()):
            if found.stopping:
                self.end(found.node, found.exit or NodeExit(code=NodeExitCode.DRAINED))

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def rank(self, role: str, rank: int) -> NodeStatus:
        return next(r for r in self.status.nodes if (r.role, r.rank) == (role, rank))

    def node(self, role: str, rank: int) -> Node:
        """The current node of a rank."""
        found = self.rank(role, rank).node
        assert found is not None
        return found


def _slot(node: Node) -> tuple[str, int]:
    return node.role, node.rank


def running(described: ElasticJob | None = None, room: int = 1000) -> SimulatedPlatform:
    """A job whose nodes are all started."""
    sim = SimulatedPlatform(described or job(), room=room)
    sim.settle()
    return sim


def suspend(sim: SimulatedPlatform, value: bool) -> None:
    """Set ``spec.suspend``, like a user."""
    sim.job = structs.replace(sim.job, spec=structs.replace(sim.job.spec, suspend=value))


def ask_for(sim: SimulatedPlatform, replicas: int | None) -> None:
    """Set ``spec.replicas``, like a user."""
    sim.job = structs.replace(sim.job, spec=structs.replace(sim.job.spec, replicas=replicas))
