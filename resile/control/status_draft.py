"""The draft of a job's next status, during one reconcile.

It is opened from the stored status and the observations, changed by the steps of ``reconcile`` one
after another, and closed into a new status. It lives for one call.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta

from msgspec.structs import replace

from resile.control.actions import Action, DeleteNode, StopNode
from resile.control.observed import GroupReport, Observed, ObservedNode
from resile.control.policy import Policy
from resile.control.start_requests import node_command, node_resources, start_request
from resile.control.suspect_hosts import hosts_to_avoid, still_suspect, with_suspect
from resile.job.events import EventKind
from resile.job.exits import ExitCause
from resile.job.naming import node_name, serial_of
from resile.job.node import LIVE, Node, NodePhase
from resile.job.spec.job import ElasticJob, JobSpec
from resile.job.spec.role import NodeResources, RoleSpec
from resile.job.status import (
    DecisionNote,
    JobStatus,
    NodeRequest,
    NodeStatus,
    RequestVerb,
    RoleStatus,
)

__all__ = ["ACTIVE_PHASES", "SUSPENDED", "StatusDraft"]

ACTIVE_PHASES = LIVE | {NodePhase.WAITING}
"""The phases of ranks that have a node or will get one."""

ROLES_REMEMBERED = 32
"""Removed roles whose counters are kept, so that no node name is used again. A status has no room
for all that ever existed; beyond that, serial numbers start above every id."""

SUSPENDED = "Suspended"
"""The reason of ranks that are stopped while the job is suspended."""


class StatusDraft:
    """Ranks, counters, requests and notes of the next status."""

    def __init__(
        self,
        job: ElasticJob,
        status: JobStatus,
        *,
        observed: Observed,
        now: datetime,
        policy: Policy,
    ) -> None:
        self.job, self.spec = job, job.spec
        self.before, self.observed = status, observed
        self.now, self.policy = now, policy
        self.phase = status.phase
        self.conditions = status.conditions
        self.start_time, self.completion_time = status.start_time, status.completion_time
        self.spent = status.spent
        self.troubled_hosts = still_suspect(status.troubled_hosts, now=now, policy=policy)
        self.roles = {name: status.roles.get(name, RoleStatus()) for name in job.spec.roles}
        """Includes roles that left the manifest: if they come back, no name is used again."""
        gone = {name: one for name, one in status.roles.items() if name not in job.spec.roles}
        for name in list(gone)[-ROLES_REMEMBERED:]:
            self.roles[name] = replace(gone[name], wanted=0, scaling="")
        if len(gone) >= ROLES_REMEMBERED:
            self._skip_used_serials()
        self.actions: list[Action] = []
        self.notes: list[DecisionNote] = []
        self._ranks = {(r.role, r.rank): r for r in status.nodes if r.role in job.spec.roles}
        self._pending_requests = {
            (request.node.id, request.verb): request for request in status.pending_requests
        }
        self._left: set[tuple[str, int]] | None = None
        self._commands: dict[str, tuple[str, ...]] = {}
        self._given: dict[tuple[str, str | None], NodeResources] = {}
        self._wake: list[datetime] = []
        self._seen = {found.node.id: found for found in observed.nodes}
        self._live_slots = {(f.node.role, f.node.rank) for f in observed.nodes if f.live}
        self._next_id = status.next_id
        self.trainings = _trainings(job.spec)
        """The roles of each training whose result a master may report, by group."""
        self._groups = {role: group for group, roles in self.trainings.items() for role in roles}
        for found in observed.nodes:
            self._reserve_identity(found.node)
        self._forget_answered_requests()

    # --- reading ----------------------------------------------------------------------------

    @property
    def ranks(self) -> list[NodeStatus]:
        """All ranks, in the order of roles in the manifest."""
        return self._in_order(self._ranks.values())

    def of_role(
        self, role: str, phases: Collection[NodePhase] = tuple(NodePhase)
    ) -> list[NodeStatus]:
        """The ranks of a role that are in one of ``phases``."""
        found = (rank for rank in self._ranks.values() if rank.role == role)
        return self._in_order(rank for rank in found if rank.phase in phases)

    def seen(self, rank: NodeStatus) -> ObservedNode | None:
        """The platform's report on the rank's current node, if any."""
        if rank.id is None or rank.id in self.observed.gone:
            return None
        return self._seen.get(rank.id)

    def was_there(self, rank: NodeStatus) -> bool:
        """Return whether the rank's current node ever existed: only then can it be gone."""
        return rank.seen or rank.id in self.observed.gone

    def report_on(self, role: str) -> GroupReport | None:
        """The result of the training that the role is part of, if it is over."""
        group = self._groups.get(role)
        return None if group is None else self.observed.reports.get(group)

    @property
    def winding_down(self) -> bool:
        """Return whether the job only waits for the nodes of a finished training to leave."""
        reports = self.observed.reports
        spec = self.spec
        failed = [roles for group, roles in self.trainings.items() if _has_failed(reports, group)]
        if any(spec.requires(role) for roles in failed for role in roles):
            return True
        complete = [self.report_on(role) is not None for role in spec.success_roles()]
        return any(complete) if spec.success.policy == "Any" else all(complete)

    def holder(self, node: Node) -> NodeStatus | None:
        """The rank whose current or last node this is; None if another node has it."""
        rank = self._ranks.get((node.role, node.rank))
        return rank if rank is not None and rank.id == node.id else None

    def occupied(self, rank: NodeStatus) -> bool:
        """Return whether an older node of the rank may still be alive; lingering does not count."""
        slot = (rank.role, rank.rank)
        return slot in self._live_slots or slot in self._slots_being_vacated()

    def _slots_being_vacated(self) -> set[tuple[str, int]]:
        """Slots of nodes that were asked to stop and are not reported; cached until a request."""
        if self._left is None:
            self._left = {
                (request.node.role, request.node.rank)
                for request in self._pending_requests.values()
                if request.verb is RequestVerb.STOP and request.node.id not in self._seen
            }
        return self._left

    @property
    def stops_under_way(self) -> bool:
        """Return whether a node that was asked to stop may still be alive."""
        return any(verb is RequestVerb.STOP for _, verb in self._pending_requests)

    @property
    def expires_at(self) -> datetime | None:
        """The time at which a finished job and everything it left is removed; None if never."""
        ttl = self.spec.ttl_seconds_after_finished
        if ttl is None or self.completion_time is None:
            return None
        return self.completion_time + timedelta(seconds=ttl)

    @property
    def expired(self) -> bool:
        """Return whether ``expires_at`` has passed."""
        return self.expires_at is not None and self.now >= self.expires_at

    # --- writing ----------------------------------------------------------------------------

    def put(self, rank: NodeStatus) -> None:
        """Replace the status of a rank."""
        self._ranks[rank.role, rank.rank] = rank

    def note(self, kind: EventKind, sentence: str, node: str = "") -> None:
        """Record a decision."""
        self.notes.append(
            DecisionNote(time=self.now, reason=kind.value, sentence=sentence, node=node)
        )

    def wake_at(self, when: datetime) -> None:
        """Request another reconcile at that time."""
        if when > self.now:
            self._wake.append(when)

    def count(self, role: str, *, spends: bool) -> None:
        """Count one relaunch."""
        known, cost = self.roles[role], int(spends)
        self.spent += cost
        self.roles[role] = replace(known, restarts=known.restarts + 1, spent=known.spent + cost)

    def start(self, rank: NodeStatus, reason: str) -> None:
        """Give a waiting rank a new node."""
        counters = self.roles[rank.role]
        name = node_name(self.job, rank.role, rank=rank.rank, serial=counters.next_serial)
        node = Node(role=rank.role, rank=rank.rank, id=self._next_id, name=name)
        self._reserve_identity(node)
        given = replace(
            rank,
            phase=NodePhase.PENDING,
            id=node.id,
            name=node.name,
            reason="Asked",
            message=reason,
            host="",
            resources=self._resources(rank),
            seen=False,
            ready=False,
            asked_at=self.now,
            avoids=hosts_to_avoid(self.troubled_hosts),
            started_at=None,
            ended_at=None,
            relaunch_at=None,
        )
        self.put(given)
        self.wake_at(self.now + self.policy.unseen_timeout)
        self.actions.append(
            start_request(
                self.job,
                given,
                wanted=counters.wanted,
                policy=self.policy,
                command=self._command(rank.role),
                resources=given.resources,
            )
        )

    def suspect(self, host: str, cause: ExitCause) -> None:
        """Record that a node ended on a machine, which may be at fault."""
        self.troubled_hosts = with_suspect(self.troubled_hosts, host, cause, now=self.now)

    def retire(self, rank: NodeStatus, reason: str, message: str) -> None:
        """Mark a rank as one that needs no node; its history is kept."""
        self.put(
            replace(rank, phase=NodePhase.STOPPED, reason=reason, message=message, relaunch_at=None)
        )
        node = rank.node
        missing = self.seen(rank) is None and not self.was_there(rank)
        under_way = rank.phase in LIVE and missing
        if node is not None and under_way:
            self.stop(node, message)  # it may still appear, when its rank no longer expects it

    def stop(self, node: Node, reason: str) -> None:
        """Request that a node is stopped, unless that was done just now."""
        if self._may_request(node, RequestVerb.STOP):
            grace = self.spec.roles.get(node.role, RoleSpec()).termination_grace_period_seconds
            self.actions.append(StopNode(node=node, grace_seconds=grace, reason=reason))

    def delete(self, node: Node, reason: str) -> None:
        """Request that an ended node's record is removed, unless that was done just now."""
        if self._may_request(node, RequestVerb.DELETE):
            self.actions.append(DeleteNode(node=node, reason=reason))

    def close(self) -> JobStatus:
        """The new status. Fields that others write, such as the step, stay as they were."""
        decisions = (*self.before.decisions, *self.notes)[-self.policy.decisions_kept :]
        scaled = self.spec.scaled_role()
        running = {name: len(self.of_role(name, {NodePhase.RUNNING})) for name in self.spec.roles}
        wanted = sum(role.wanted for role in self.roles.values())
        return replace(
            self.before,
            phase=self.phase,
            conditions=self.conditions,
            roles={name: self._counted(name) for name in self.roles},
            nodes=tuple(self.ranks),
            decisions=decisions,
            pending_requests=tuple(self._pending_requests.values()),
            next_id=self._next_id,
            spent=self.spent,
            troubled_hosts=still_suspect(self.troubled_hosts, now=self.now, policy=self.policy),
            start_time=self.start_time,
            completion_time=self.completion_time,
            ready=f"{sum(running.values())}/{wanted}",
            restarts=sum(role.restarts for role in self.roles.values()),
            replicas=running[scaled] if scaled is not None else 0,
        )

    @property
    def next_look(self) -> datetime | None:
        """The earliest time at which something changes without a report."""
        return min(self._wake, default=None)

    # --- internals --------------------------------------------------------------------------

    def _in_order(self, ranks: Iterable[NodeStatus]) -> list[NodeStatus]:
        order = {name: n for n, name in enumerate(self.spec.roles)}
        return sorted(ranks, key=lambda rank: (order[rank.role], rank.rank))

    def _counted(self, role: str) -> RoleStatus:
        return replace(
            self.roles[role],
            active=len(self.of_role(role, {NodePhase.RUNNING})),
            pending=len(self.of_role(role, {NodePhase.PENDING, NodePhase.WAITING})),
            succeeded=len(self.of_role(role, {NodePhase.SUCCEEDED})),
            failed=len(self.of_role(role, {NodePhase.FAILED})),
        )

    def _resources(self, rank: NodeStatus) -> NodeResources:
        """The resources of its next node; computed once for all ranks with the same."""
        key = (rank.role, rank.memory)
        if key not in self._given:
            role = self.spec.roles[rank.role]
            self._given[key] = node_resources(role, learnt=rank.memory)
        return self._given[key]

    def _command(self, role: str) -> tuple[str, ...]:
        if role not in self._commands:
            self._commands[role] = node_command(self.spec, role)
        return self._commands[role]

    def _skip_used_serials(self) -> None:
        """A new role may be one that was removed and forgotten: start its serials at the next id,
        which is higher than the number of any of its nodes."""
        for name in self.spec.roles:
            if name not in self.before.roles:
                self.roles[name] = replace(self.roles[name], next_serial=self.before.next_id)

    def _reserve_identity(self, node: Node) -> None:
        """Keep the node's id and name from being used for another one."""
        self._next_id = max(self._next_id, node.id + 1)
        serial = serial_of(self.job, node)
        if node.role in self.roles and serial is not None:
            known = self.roles[node.role]
            self.roles[node.role] = replace(known, next_serial=max(known.next_serial, serial + 1))

    def _may_request(self, node: Node, verb: RequestVerb) -> bool:
        asked = self._pending_requests.get((node.id, verb))
        if asked is not None and self.now < asked.at + self.policy.request_again_after:
            self.wake_at(asked.at + self.policy.request_again_after)
            return False
        seen = node.id in self._seen
        self._pending_requests[node.id, verb] = NodeRequest(
            node=node, verb=verb, at=self.now, seen=seen
        )
        self._left = None
        self.wake_at(self.now + self.policy.request_again_after)
        return True

    def _forget_answered_requests(self) -> None:
        for (node_id, verb), request in list(self._pending_requests.items()):
            found = self._seen.get(node_id)
            if found is not None:
                answered = verb is RequestVerb.STOP and not found.holds_room
                self._pending_requests[node_id, verb] = replace(request, seen=True)
            else:
                late_until = request.at + self.policy.unseen_timeout
                answered = request.seen or self.now >= late_until
                if not answered:
                    self.wake_at(late_until)
            if answered:
                del self._pending_requests[node_id, verb]


def _trainings(spec: JobSpec) -> dict[str, tuple[str, ...]]:
    """The job's groups. In a job without any, the command of a role may start `resile run` itself:
    then the training is that of the roles whose success the job waits for."""
    return spec.worlds() or {spec.main_group: spec.success_roles()}


def _has_failed(reports: Mapping[str, GroupReport], group: str) -> bool:
    report = reports.get(group)
    return report is not None and not report.succeeded
