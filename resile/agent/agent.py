"""The agent of one node: carries out the master's instructions and reports on its workers.

All events (messages from the master, exits of workers) go through one inbox and are handled in
order, so it is never in doubt which of two came first. The node's state is kept by its session
(``wire/session.py``), which turns messages into instructions; this module carries them out.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time

from resile.agent.config import AgentConfig
from resile.agent.console import LineSource
from resile.agent.daemon_thread import run_in_daemon_thread
from resile.agent.failure_report import report_job_end
from resile.agent.handover import HandoverParticipant
from resile.agent.isolation import CutOff, Isolation, probe_targets
from resile.agent.link_thread import LinkThread
from resile.agent.master_launcher import MasterLauncher
from resile.agent.node_workers import NodeWorkers
from resile.agent.nursery import Nursery, SpawnFailed, StoreUnavailable
from resile.agent.pg_probe import watch_reached_ranks
from resile.agent.round_store import HostedStore
from resile.agent.shutdown import INTERACTIVE_SIGNALS, ShutdownRequests
from resile.agent.snapshot_service import SnapshotService
from resile.agent.torch_events import TorchEvents
from resile.agent.worker_env import node_environment
from resile.agent.workers import WorkerGroup
from resile.job.exits import NodeExitCode
from resile.wire.errors import ProtocolError, RefusedByPeer
from resile.wire.instructions import (
    EndWithJob,
    Joined,
    KeepWaiting,
    LeaveJob,
    PrepareRound,
    Rejoin,
    RepeatReady,
    StartWorkers,
    StopWorkers,
)
from resile.wire.link import MasterUnreachable
from resile.wire.messages import (
    FromAgent,
    FromMaster,
    Hello,
    JobDone,
    Outcome,
    Renew,
    Start,
    WorkerFailure,
    WorkersNow,
    WorkersReached,
)
from resile.wire.session import NodeSession

log = logging.getLogger("resile.agent")

STALLED_CONSOLE = 1.0
"""Seconds without a reader after which a node that is leaving gives up the rest of its output. A
node whose job is over waits for its console, as any program does."""


class Agent:
    """Runs one node until the job is over or the node leaves."""

    def __init__(self, config: AgentConfig, launcher: MasterLauncher | None) -> None:
        """``launcher`` restarts the master, if that is this machine's task."""
        self._config = config
        self._shutdown = ShutdownRequests()
        self._inbox: asyncio.Queue[FromMaster | WorkerGroup | CutOff] = asyncio.Queue()
        self._snapshots = SnapshotService(
            config.address, token=config.access.token, limit=config.snapshot_memory
        )
        self._session = _session(config, peer_address=self._snapshots.peer_address)
        environment = node_environment(
            config.environment,
            nproc=config.nproc,
            address=config.address,
            master=str(config.access.endpoint),
            group=config.group,
        )
        self._nursery = Nursery(
            command=config.command,
            env=environment,
            cwd=config.working_dir,
            preload=config.preload,
            address=config.address,
        )
        self._workers = NodeWorkers(
            config,
            self._nursery,
            environment=environment,
            snapshots=self._snapshots,
            on_exit=self._inbox.put_nowait,
        )
        self._round_store = HostedStore(
            self._nursery,
            address=config.address,
            fixed=config.fixed_store,
            lost=self._store_lost,
        )
        self._events = _torch_events(config)
        self._link = LinkThread(
            config.access,
            hello=self._hello,
            renewal=self._renewal,
            deliver=self._inbox.put_nowait,
            revive=launcher.start_if_absent if launcher else None,
            give_up_after=self._give_up_after,
        )
        self._handover = HandoverParticipant(
            self._snapshots,
            session=self._session,
            say=self._say,
            connected=lambda: self._link.connected,
        )
        self._isolation = Isolation(
            answers=lambda: self._link.answers,
            others=lambda: probe_targets(config.access.endpoint, self._session.start),
            lease=lambda: self._session.elasticity.lease,
        )

    # --- life -------------------------------------------------------------------------------

    @property
    def ever_joined(self) -> bool:
        """Whether a master has welcomed this node."""
        return self._session.ever_joined

    async def run(self) -> int:
        """Take part in the job; return the exit code of this node."""
        self._shutdown.listen(self._config.signals)
        await self._nursery.start()
        line = asyncio.create_task(self._link.run())
        working = asyncio.create_task(self._work())
        asked = asyncio.create_task(self._shutdown.requested())
        watching = (
            asyncio.create_task(watch_reached_ranks(self._running, self._say_reached)),
            asyncio.create_task(self._warm_up()),
            asyncio.create_task(self._isolation.watch(self._inbox.put_nowait)),
        )
        try:
            await asyncio.wait([line, working, asked], return_when=asyncio.FIRST_COMPLETED)
            if asked.done():
                return await self._leave_for(await asked, working)
            if line.done() and line.exception():
                return self._hopeless(line)
            return await self._worked(working)
        finally:
            tasks = (line, working, asked, *watching)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._clean_up()

    async def _warm_up(self) -> None:
        """Report when workers can be started without delay: until then the other nodes should not
        stop for this one."""
        await self._nursery.ready()
        self._say(self._session.warmed())

    async def _worked(self, working: asyncio.Task[int]) -> int:
        try:
            return await working
        except (StoreUnavailable, ProtocolError) as error:
            log.error("%s", error)
            return NodeExitCode.JOB_FAILED

    async def _clean_up(self) -> None:
        """Stop everything this agent started. Another signal gives up the last checkpoint."""
        self._workers.kill()
        await self._shutdown.unless_requested_again(
            self._snapshots.flush(self._config.flush_timeout, grace=self._config.publish_grace)
        )
        self._snapshots.close()
        await self._nursery.close()
        self._workers.close()
        await self._shutdown.unless_requested_again(run_in_daemon_thread(self._drain_output))

    def _drain_output(self) -> None:
        """Wait until all output is shown, however slowly it is read. A node that is leaving does
        not wait for a console without a reader."""
        self._config.output.drain(
            stall=STALLED_CONSOLE, keep_waiting=lambda: not self._shutdown.under_way
        )

    def _hopeless(self, line: asyncio.Task[None]) -> int:
        """Log that the master is unavailable for good; return the exit code."""
        error = line.exception()
        if isinstance(error, (RefusedByPeer, MasterUnreachable)):
            log.error("%s", error)
            self._events.interrupted(str(error))
            return NodeExitCode.JOB_FAILED
        raise error if error else RuntimeError("the link ended without a reason")

    async def _leave_for(self, name: signal.Signals, working: asyncio.Task[int]) -> int:
        """Leave cleanly: the others continue at once, then our workers get time to exit."""
        self._shutdown.begin()
        reason = f"received {name.name}"
        log.info("%s: leaving the job", name.name)
        self._events.interrupted(reason)
        if name not in INTERACTIVE_SIGNALS:
            await self._shutdown.unless_requested_again(
                self._handover.before_leaving(reason, unless=working)
            )
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        # Workers that exit from here on exit because we leave.
        if leave := self._session.leave(reason):
            self._link.send(leave)
            await self._link.flush()
        if group := self._workers.group:
            grace = self._config.shutdown_timeout
            stopping = asyncio.create_task(group.stop(grace=grace, number=name))
            await self._shutdown.unless_requested_again(asyncio.shield(stopping))
            group.kill()
            await stopping
        return NodeExitCode.INTERRUPTED if name is signal.SIGINT else NodeExitCode.DRAINED

    async def _work(self) -> int:
        """Handle the inbox until the node's part is over; return the exit code."""
        while True:
            match await self._inbox.get():
                case WorkerGroup() as group:
                    await self._workers_changed(group)
                case CutOff(seconds=seconds):
                    await self._cut_off(seconds)
                case message:
                    code = await self._obey(message)
                    if code is not None:
                        return code

    # --- instructions -----------------------------------------------------------------------

    async def _obey(self, message: FromMaster) -> int | None:
        match self._session.obey(message):
            case None:
                return None  # late, or a duplicate
            case Joined() as joined:
                await self._joined(joined)
            case PrepareRound() as prepare:
                await self._prepare(prepare)
            case RepeatReady(ready=ready):
                self._say(ready)
            case StartWorkers(start=start):
                await self._start(start)
            case KeepWaiting(reason=reason):
                log.info("%s", reason)
            case StopWorkers(reason=reason):
                log.info("%s", reason)
                await self._stop_workers()
            case Rejoin(reason=reason):
                await self._rejoin(reason)
            case LeaveJob(reason=reason):
                log.info("leaving the job: %s", reason)
                self._shutdown.drain()
            case EndWithJob(done=done):
                return await self._job_done(done)
            case instruction:
                self._handover.carry_out(instruction)
        return None

    async def _joined(self, joined: Joined) -> None:
        if joined.new:
            log.info("joined job '%s' as node %d", self._config.run_id, joined.node)
            await self._stop_workers()
        self._handover.under_way(joined.handover)
        if joined.note:
            log.warning("%s", joined.note)
        if self._session.warm:
            # It may have become warm after the Hello was sent.
            self._say(self._session.warmed())

    async def _prepare(self, prepare: PrepareRound) -> None:
        log.info("round %d is forming: %s", prepare.round, prepare.reason)
        self._handover.forget()
        store = None
        if prepare.host_store:
            _, store = await asyncio.gather(self._stop_workers(), self._round_store.open())
        else:
            await self._stop_workers()
        self._say(self._session.ready(prepare.round, store))

    async def _start(self, start: Start) -> None:
        try:
            group = await self._workers.start(start)
            self._events.started(start, group.pids)
        except SpawnFailed as error:
            self._break_round(start.first_rank, str(error), 1)

    async def _rejoin(self, reason: str) -> None:
        log.warning("evicted: %s; rejoining as a new node", reason)
        await self._workers.stop(grace=0)
        self._handover.forget()
        self._handover.release()  # the others no longer wait for what this node holds
        self._link.rejoin()

    async def _job_done(self, done: JobDone) -> int:
        await self._stop_workers()
        self._events.ended(succeeded=done.outcome is Outcome.SUCCEEDED)
        return report_job_end(done, error_file=self._config.error_file)

    # --- the workers ------------------------------------------------------------------------

    async def _workers_changed(self, group: WorkerGroup) -> None:
        if group is not self._running():
            return
        if group.has_failed:
            await group.read_failure_messages()
            failures = group.failures()
            self._say_failed(failures)
            self._events.failed(failures)
            for failure in failures:
                log.warning("rank %d exited with code %d", failure.rank, failure.exit_code)
            group.begin_stop(grace=self._config.restart_grace)
        elif group.succeeded:
            succeeded = self._session.succeeded()
            self._say(self._renewal())  # with the last step
            self._say(succeeded)

    def _store_lost(self, why: str, code: int) -> None:
        """Fail a running round whose store is lost: workers that still need it would hang."""
        if group := self._running():
            self._break_round(group.first_rank, why, code)

    def _break_round(self, rank: int, why: str, code: int) -> None:
        """Report the loss of something that workers depend on as the failure of a worker."""
        log.error("%s", why)
        failure = WorkerFailure(local_rank=0, rank=rank, pid=0, exit_code=code, message=why)
        self._say_failed((failure,))

    def _say_failed(self, failures: tuple[WorkerFailure, ...]) -> None:
        self._say(self._session.failed(failures, now=time.monotonic()))

    def _say_reached(self, reached: tuple[int, ...], missing: tuple[int, ...]) -> None:
        fence = self._session.fence
        self._say(WorkersReached(fence=fence, reached=reached, missing=missing))

    def _running(self) -> WorkerGroup | None:
        """The workers of the running round, if there is one."""
        return self._workers.group if self._session.runs else None

    async def _stop_workers(self) -> None:
        await self._workers.stop(grace=self._config.restart_grace)

    async def _cut_off(self, seconds: float) -> None:
        """Stop the workers: no other node can be reached, so the job may continue elsewhere."""
        if not self._session.idle():
            return
        log.error(
            "neither the master nor another node of the round could be reached for %.0f s: "
            "stopping the workers, because the job may continue without this node until it is "
            "back",
            seconds,
        )
        await self._stop_workers()
        self._link.hang_up()  # the next connection has to report it

    # --- the link ---------------------------------------------------------------------------

    def _hello(self) -> Hello:
        return self._session.hello(now=time.monotonic())

    def _renewal(self) -> FromAgent | None:
        """Return the next renewal. Called in the link's thread: reads state and changes nothing."""
        held = self._session.held
        if held is None:
            return None
        return Renew(
            fence=held,
            progress=self._workers.progress,
            usage=self._config.usage(time.monotonic()),
            workers=WorkersNow(pids=self._workers.pids, failures=self._session.broken_rounds),
            ranks=self._workers.rank_progress,
        )

    def _give_up_after(self) -> float:
        return self._session.give_up_after(
            to_join=self._config.connect_timeout, working=self._workers.alive
        )

    def _say(self, message: FromAgent | None) -> None:
        """Send a message while the node is in the job."""
        if message is not None and self._session.held is not None:
            self._link.send(message)


def _session(config: AgentConfig, *, peer_address: str) -> NodeSession:
    return NodeSession(
        config.run_id,
        config.node_info(peer_address=peer_address),
        elasticity=config.elasticity,
        group=config.group,
        warm=False,
    )


def _torch_events(config: AgentConfig) -> TorchEvents:
    console, source = config.output.console.err, LineSource()
    return TorchEvents(
        config.event_log_handler,
        run_id=config.run_id,
        role=config.role,
        program=config.command.target,
        write=lambda line: console.write(source, line),
    )
