"""The local platform: executes the controller's actions with real processes.

Each order to start a node becomes a record. Whenever the free capacity may have changed (a new
record, an exit) all records are placed again by the pure function in ``placement``; those that
are to start get a supervisor, which runs the node and reports its end. Reports are
level-triggered: ``observe`` returns the current state, and ``changed`` signals that it differs.

Everything happens in one event loop, and no method but ``close`` waits for a node. If this
process dies, the supervisors notice and end their nodes: the next run starts from scratch.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

from resile.control.actions import Action, DeleteNode, StartNode, StopNode
from resile.control.observed import ObservedNode
from resile.job.addresses import LOOPBACK
from resile.job.exits import ExitCause
from resile.local.capacity import Capacity
from resile.local.errors import NotLinuxError
from resile.local.limits.node_limits import Limiter, MemoryEnforcement, NodeLimits
from resile.local.limits.usage import NodeUsage, cpu_seconds, memory_bytes
from resile.local.node_record import LocalNodeRecord, NodeLeaving, State, node_exit
from resile.local.oom_watch import OomWatch
from resile.local.placement import Preemption, place
from resile.local.program import NoCommandError, program_of
from resile.local.supervisor.process import End, NodeProcess
from resile.local.supervisor.supervisor import REMAINS_GRACE
from resile.system.process_tree import list_processes

__all__ = [
    "LocalPlatform",
    "accept_connections",
]


CONNECT_TIMEOUT = 1.0
"""Seconds. A local connection takes microseconds, unless the listener's backlog is full."""


async def accept_connections(ports: Iterable[int]) -> bool:
    """Return whether each of ``ports`` accepts a connection, which is closed at once."""
    for port in ports:
        try:
            opening = asyncio.open_connection(LOOPBACK, port)
            _, writer = await asyncio.wait_for(opening, CONNECT_TIMEOUT)
        except (OSError, asyncio.TimeoutError):
            return False
        writer.close()
    return True


CLOSE_MARGIN = 5.0
"""Seconds after all grace periods until ``close`` kills a supervisor: its node does not end."""

FIRST_PROBE, LAST_PROBE, PROBES_SLOW_BY = 0.02, 0.5, 1.5
"""Seconds between two probes of a node's ports: first, at most, and the factor between. Most listen
within a second of their start, and others wait for them; loading a large model takes longer."""

log = logging.getLogger("resile.platform")


class LocalPlatform:
    """Runs the nodes of one job on this machine."""

    changed: asyncio.Event
    """Set whenever the result of ``observe`` changes; the caller clears it."""

    def __init__(
        self,
        *,
        job: str,
        folder: Path,
        capacity: Capacity,
        environment: Mapping[str, str],
        memory: MemoryEnforcement = MemoryEnforcement.AUTO,
    ) -> None:
        """``folder``: the job's own; ``environment``: variables of all nodes besides their own."""
        if sys.platform != "linux":
            raise NotLinuxError(f"`resile up` needs Linux, and this is {sys.platform}")
        self.changed = asyncio.Event()
        self._capacity = capacity
        self._environment = dict(environment)
        self._logs = folder / "logs"
        self._host = socket.gethostname()
        self._limiter = Limiter(job, memory)
        self._records: dict[int, LocalNodeRecord] = {}
        self._asked = 0
        self._reported: tuple[ObservedNode, ...] = ()
        self._guard = OomWatch(self._holders)
        self._chores: set[asyncio.Task[None]] = set()
        self._closing = False
        self._ended = asyncio.Event()

    # --- the controller's interface ---------------------------------------------------------

    async def apply(self, actions: Sequence[Action]) -> None:
        """Execute actions, which are idempotent. Returns before they have taken effect."""
        for action in actions:
            match action:
                case StartNode():
                    self._ask(action)
                case StopNode():
                    self._stop(action)
                case DeleteNode():
                    self._delete(action)
        self._settle()

    def observe(self) -> tuple[ObservedNode, ...]:
        """Return every node from its start order until its record is deleted."""
        return self._reported

    def usage(self) -> dict[int, NodeUsage]:
        """Return what the running nodes use, by node id."""
        processes = list_processes()
        used: dict[int, NodeUsage] = {}
        for record in self._holders():
            supervisor = processes.get(record.process.supervisor_pid) if record.process else None
            if supervisor is None:
                continue
            tree = record.tree(processes)
            record.cpu_seconds = max(record.cpu_seconds, cpu_seconds(supervisor, tree))
            cgroup = record.limits.memory
            memory = cgroup.used() if cgroup is not None else memory_bytes(tree)
            used[record.order.node.id] = NodeUsage(record.cpu_seconds, memory)
        return used

    def pids(self) -> dict[int, int]:
        """Return the pid of each running node (usually of its agent), by node id."""
        return {
            record.order.node.id: record.process.pid
            for record in self._holders()
            if record.process is not None and record.process.pid is not None
        }

    async def close(self, *, grace: float) -> None:
        """Stop every node, and return when all their processes have ended."""
        self._closing = True
        for record in list(self._records.values()):
            self._leave(record, NodeLeaving(ExitCause.DELETED, "`resile up` is ending"), grace)
        self._publish()
        if not await self._all_ended(grace + REMAINS_GRACE + CLOSE_MARGIN):
            for record in self._holders():
                log.warning("%s does not end: killing its supervisor", record.order.node.name)
                if record.process is not None:
                    record.process.abandon()
            await self._all_ended(CLOSE_MARGIN)
        await self._guard.close()
        while self._chores:
            await asyncio.wait(self._chores)
        self._limiter.close()

    # --- orders -----------------------------------------------------------------------------

    def _ask(self, order: StartNode) -> None:
        if order.node.id not in self._records and not self._closing:
            self._asked += 1
            self._records[order.node.id] = LocalNodeRecord(order, since=self._asked)

    def _stop(self, action: StopNode) -> None:
        record = self._records.get(action.node.id)
        if record is not None:
            self._leave(record, NodeLeaving(ExitCause.DELETED, action.reason), action.grace_seconds)

    def _delete(self, action: DeleteNode) -> None:
        record = self._records.get(action.node.id)
        if record is None:
            return
        record.delete_at_end = True
        self._leave(
            record, NodeLeaving(ExitCause.DELETED, action.reason), record.order.grace_seconds
        )
        if record.state is State.ENDED:
            self._records.pop(action.node.id, None)

    def _leave(self, record: LocalNodeRecord, leaving: NodeLeaving, grace: float) -> None:
        """Stop a node; the first reason given is the one that is reported."""
        if record.state is State.ENDED:
            return
        record.leaving = record.leaving or leaving
        if record.process is not None:
            record.process.stop(grace)
        else:
            self._finish(record, End())

    # --- placing and starting ---------------------------------------------------------------

    def _settle(self) -> None:
        """Start the nodes that fit, and preempt others for those of higher priority."""
        while not self._closing and self._place():
            pass
        self._publish()

    def _place(self) -> bool:
        """Place once; return whether a start failed, which leaves capacity for others."""
        holders = self._holders()
        placement = place(
            self._capacity,
            running=[record.claim for record in holders if not record.is_going],
            leaving=[record.claim for record in holders if record.is_going],
            pending=[r.claim for r in self._records.values() if r.state is State.WAITING],
        )
        for node_id, what in placement.waits.items():
            self._records[node_id].waits_for = what
        for preemption in placement.preemptions:
            self._preempt(preemption)
        failed = False
        for claim in placement.starts:
            failed |= not self._start(self._records[claim.id])
        return failed

    def _preempt(self, preemption: Preemption) -> None:
        victim = self._records[preemption.victim.id]
        why = f"to make room for {preemption.by.name}, which has a higher priority"
        log.info("preempting %s %s", victim.order.node.name, why)
        self._leave(victim, NodeLeaving(ExitCause.PREEMPTED, why), victim.order.grace_seconds)

    def _start(self, record: LocalNodeRecord) -> bool:
        record.state = State.STARTING
        record.limits = self._limiter.set_up(self._limits_name(record), record.order.resources)
        try:
            program = program_of(
                record.order,
                logs=self._logs,
                environment=self._environment,
                cgroups=record.limits.cgroups,
            )
            record.process = NodeProcess(
                program,
                on_started=partial(self._has_started, record),
                on_end=partial(self._has_ended, record),
            )
        except (NoCommandError, OSError) as error:
            self._finish(record, End(refused=str(error)))
            return False
        self._guard.wake()
        return True

    def _limits_name(self, record: LocalNodeRecord) -> str:
        """Return the node's name; with its id if it has taken over the name of another, whose
        cgroup may still exist."""
        node = record.order.node
        shared = [one for one in self._records.values() if one.order.node.name == node.name]
        return node.name if len(shared) == 1 else f"{node.name}.{node.id}"

    # --- starts and exits -------------------------------------------------------------------

    def _has_started(self, record: LocalNodeRecord) -> None:
        record.state = State.RUNNING
        record.started_at = _now()
        record.ready = not record.order.ports
        if not record.ready:
            self._chore(self._await_ready(record))
        self._publish()

    async def _await_ready(self, record: LocalNodeRecord) -> None:
        """Probe a node until all its ports accept connections, or it has ended."""
        ports = tuple(record.order.ports.values())
        pause = FIRST_PROBE
        while record.state is State.RUNNING:
            if await accept_connections(ports):
                record.ready = True
                self._publish()
                return
            await asyncio.sleep(pause)
            pause = min(pause * PROBES_SLOW_BY, LAST_PROBE)

    def _has_ended(self, record: LocalNodeRecord, end: End) -> None:
        record.out_of_memory = record.out_of_memory or record.limits.why_out_of_memory(lambda: [])
        self._finish(record, end)
        self._settle()

    def _finish(self, record: LocalNodeRecord, end: End) -> None:
        record.exit = node_exit(end, leaving=record.leaving, out_of_memory=record.out_of_memory)
        record.state = State.ENDED
        record.ended_at = _now()
        if not record.limits.take_down():
            self._chore(_take_down(record.limits))
        if record.delete_at_end:
            self._records.pop(record.order.node.id, None)
        self._ended.set()

    # --- keeping track ----------------------------------------------------------------------

    def _holders(self) -> list[LocalNodeRecord]:
        return [record for record in self._records.values() if record.holds_room]

    def _publish(self) -> None:
        report = tuple(record.observed(self._host) for record in self._records.values())
        if report != self._reported:
            self._reported = report
            self.changed.set()

    async def _all_ended(self, timeout: float) -> bool:
        deadline = asyncio.get_running_loop().time() + timeout
        while self._holders():
            self._ended.clear()
            left = deadline - asyncio.get_running_loop().time()
            try:
                await asyncio.wait_for(self._ended.wait(), max(0.0, left))
            except asyncio.TimeoutError:
                return False
        return True

    def _chore(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work)
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)


async def _take_down(limits: NodeLimits) -> None:
    """Remove cgroups whose last processes are exiting."""
    for _ in range(50):
        if limits.take_down():
            return
        await asyncio.sleep(0.02)
    log.warning("cgroups cannot be removed: %s", ", ".join(map(str, limits.cgroups)))


def _now() -> datetime:
    return datetime.now(timezone.utc)
