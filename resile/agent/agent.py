"""One node's agent: does what the master says, and says what its workers do.

Everything that happens (the master's words, workers' ends) comes through one inbox and is handled
in order, so there is never a question which of two things came first. What the agent holds (node,
round, state, store) is said to every master it meets; that is how a restarted master learns it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import time

from resile.agent.config import AgentConfig
from resile.agent.departure import Departure
from resile.agent.environment import node_environment
from resile.agent.handover import HandoverPart
from resile.agent.isolation import CutOff, Isolation, others_than_this_node
from resile.agent.keeper import MasterKeeper
from resile.agent.lines import LineSource
from resile.agent.linkthread import LinkThread
from resile.agent.logs import log_root
from resile.agent.nursery import Nursery, SpawnFailed, StoreUnavailable
from resile.agent.offloop import off_the_loop
from resile.agent.progress import ProgressSocket
from resile.agent.reach import Told
from resile.agent.report import failure_text, pass_on
from resile.agent.roundstore import RoundStore
from resile.agent.snapshots import Snapshots
from resile.agent.torch_events import TorchEvents
from resile.agent.workers import WorkerGroup
from resile.job.exits import NodeExitCode
from resile.wire.errors import RefusedByPeer
from resile.wire.link import MasterGone
from resile.wire.messages import (
    Drain,
    Fence,
    Fenced,
    FromAgent,
    FromMaster,
    Handover,
    HandoverCancelled,
    HandoverOver,
    HandoverPublish,
    HandoverStep,
    Hello,
    JobDone,
    Leave,
    LocalState,
    NodeInfo,
    Outcome,
    Prepare,
    Ready,
    Renew,
    Start,
    StoreAddress,
    Wait,
    Warmed,
    Welcome,
    WorkerFailure,
    WorkersFailed,
    WorkersNow,
    WorkersReached,
    WorkersSucceeded,
)

log = logging.getLogger("resile.agent")

REACH_INTERVAL = 1.0
"""How often it is looked whether workers have reached the process group, until all have."""

STALLED_CONSOLE = 1.0
"""Seconds without anybody reading, after which a node that leaves gives up the rest of its output.
A node whose job is over waits for its console, as any program does."""

IN_A_HURRY = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
"""Signals of a person at a terminal: others are not asked to save before the node leaves."""

LAST_WORDS_WAIT = 0.05
"""A dead worker's output is read to its end within this, or a grandchild holds the pipe."""


class Agent:
    """Runs one node until the job is over or the node leaves."""

    def __init__(self, config: AgentConfig, keeper: MasterKeeper | None) -> None:
        """``keeper`` starts the master again, where that is this machine's to do."""
        self._config = config
        self._environment = node_environment(
            config.environment,
            nproc=config.nproc,
            address=config.address,
            master=str(config.access.endpoint),
        )
        self._node: int | None = None
        self._joined = False
        self._round = 0
        self._seen = 0
        """The newest round ever, also as another node: our keeper hears no older one's workers."""
        self._given: Start | None = None
        """The last word about a round that runs, for a master that lost its memory."""
        self._warm = False
        self._departure = Departure()
        self._state = LocalState.IDLE
        self._store: StoreAddress | None = None
        self._group: WorkerGroup | None = None
        self._elasticity = config.elasticity
        self._inbox: asyncio.Queue[FromMaster | WorkerGroup | CutOff] = asyncio.Queue()
        self._log_root = log_root(config.logs, config.run_id)
        self._progress = ProgressSocket()
        self._failures = 0
        self._snapshots = Snapshots(
            config.address, token=config.access.token, limit=config.snapshot_memory
        )
        self._handover = HandoverPart(
            self._snapshots, say=self._say, connected=lambda: self._link.connected
        )
        self._nursery = Nursery(
            command=config.command,
            env=self._environment,
            cwd=config.working_dir,
            preload=config.preload,
            address=config.address,
        )
        console, source = config.output.console.err, LineSource()
        self._events = TorchEvents(
            config.event_log_handler,
            run_id=config.run_id,
            role=config.role,
            program=config.command.target,
            write=lambda line: console.write(source, line),
        )
        self._round_store = RoundStore(
            self._nursery,
            address=config.address,
            fixed=config.fixed_store,
            lost=self._store_lost,
        )
        self._link = LinkThread(
            config.access,
            hello=self._hello,
            renewal=self._renewal,
            deliver=self._inbox.put_nowait,
            revive=keeper.revive if keeper else None,
            patience=self._patience,
        )
        self._isolation = Isolation(
            answers=lambda: self._link.answers,
            others=lambda: others_than_this_node(config.access.endpoint, self._given),
            lease=lambda: self._elasticity.lease,
        )

    # --- life -------------------------------------------------------------------------------

    @property
    def ever_joined(self) -> bool:
        """Whether a master has welcomed this node."""
        return self._joined

    async def run(self) -> int:
        """Take part in the job; returns the exit code of this node."""
        leaving = self._departure.asked
        loop = asyncio.get_running_loop()
        for name in self._config.signals:
            # Whoever started this with nohup wants it to outlive the terminal.
            if name is not signal.SIGHUP or signal.getsignal(name) is not signal.SIG_IGN:
                loop.add_signal_handler(name, self._departure.signalled, name)
        await self._nursery.start()
        line = asyncio.create_task(self._link.run())
        working = asyncio.create_task(self._work())
        asked = asyncio.create_task(leaving.get())
        reaching = asyncio.create_task(self._watch_reach())
        warming = asyncio.create_task(self._warm_up())
        isolating = asyncio.create_task(self._isolation.watch(self._inbox.put_nowait))
        try:
            await asyncio.wait([line, working, asked], return_when=asyncio.FIRST_COMPLETED)
            if asked.done():
                return await self._leave_for(await asked, working, leaving)
            if line.done() and line.exception():
                return self._hopeless(line)
            return await self._worked(working)
        finally:
            tasks = (line, working, asked, reaching, warming, isolating)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._clean_up()

    async def _warm_up(self) -> None:
        """Say when workers can be started at once: before that nobody should stop for this node."""
        await self._nursery.ready()
        self._warm = True
        self._say(Warmed(fence=self._fence()))

    async def _worked(self, working: asyncio.Task[int]) -> int:
        try:
            return await working
        except StoreUnavailable as error:
            log.error("%s", error)
            return NodeExitCode.JOB_FAILED

    async def _clean_up(self) -> None:
        """End everything that is ours. Another signal, and the last checkpoint is given up."""
        if self._group:
            self._group.kill()
        await self._flush()
        self._snapshots.close()
        await self._nursery.close()
        self._progress.close()
        self._log_root.remove()
        await self._departure.unless_asked_again(off_the_loop(self._drain_output))

    async def _flush(self) -> None:
        """Have the last checkpoint written, unless somebody is in a hurry."""
        await self._departure.unless_asked_again(
            self._snapshots.flush(self._config.flush_timeout, grace=self._config.publish_grace)
        )

    def _drain_output(self) -> None:
        """Have everything shown, however slowly it is read; one that leaves does not wait for a
        console that nobody reads."""
        self._config.output.drain(
            stall=STALLED_CONSOLE, keep_waiting=lambda: not self._departure.under_way
        )

    def _hopeless(self, line: asyncio.Task[None]) -> int:
        """The master cannot be had: nothing to do but to say so."""
        error = line.exception()
        if isinstance(error, (RefusedByPeer, MasterGone)):
            log.error("%s", error)
            self._events.interrupted(str(error))
            return NodeExitCode.JOB_FAILED
        raise error if error else RuntimeError("the link ended without a reason")

    async def _leave_for(
        self,
        name: signal.Signals,
        working: asyncio.Task[int],
        again: asyncio.Queue[signal.Signals],
    ) -> int:
        """Leave cleanly: the others go on at once, then our workers have time to end."""
        self._departure.under_way = True
        log.info("%s: leaving the job", name.name)
        self._events.interrupted(f"received {name.name}")
        if name not in IN_A_HURRY and not self._snapshots.can_hand_over:
            # Between two rounds nobody can save, but this node may hold what others do not.
            await self._departure.unless_asked_again(
                self._snapshots.secured(patience=self._elasticity.handover_timeout)
            )
        if name not in IN_A_HURRY and self._state is LocalState.RUNNING:
            await self._handover.offer(
                self._fence(),
                f"received {name.name}",
                patience=self._elasticity.leave_timeout,
                unless=working,
                again=again,
            )
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        if self._node is not None:
            self._link.send(Leave(fence=self._fence(), reason=f"received {name.name}"))
            await self._link.flush()
        self._state = LocalState.IDLE  # what ends from here on ends because we leave
        if self._group:
            grace = self._config.shutdown_timeout
            stopping = asyncio.create_task(self._group.stop(grace=grace, number=name))
            await self._departure.unless_asked_again(asyncio.shield(stopping))
            self._group.kill()
            await stopping
        return NodeExitCode.INTERRUPTED if name is signal.SIGINT else NodeExitCode.DRAINED

    async def _work(self) -> int:
        """Handle the inbox until there is nothing more to do; returns the exit code."""
        while True:
            item = await self._inbox.get()
            if isinstance(item, WorkerGroup):
                await self._workers_changed(item)
                continue
            if isinstance(item, CutOff):
                await self._cut_off(item)
                continue
            code = await self._obey(item)
            if code is not None:
                return code

    # --- the master's words -----------------------------------------------------------------

    async def _obey(self, message: FromMaster) -> int | None:
        match message:
            case Welcome():
                self._welcomed(message)
            case Prepare():
                await self._prepare(message)
            case Start():
                await self._start(message)
            case Wait(reason=reason, stop_workers=stop):
                log.info("%s", reason)
                if stop:
                    await self._stop_workers()
                    self._state = LocalState.IDLE
            case Handover():
                patience = self._elasticity.longest_hold
                self._handover.asked(self._fence(), message, patience=patience)
            case HandoverStep(round=number, handover=handover):
                self._handover.may_choose(handover, round=number)
            case HandoverPublish(handover=handover):
                patience = self._elasticity.handover_timeout
                self._handover.publish(self._fence(), handover, patience=patience)
            case HandoverOver():
                self._handover.released()
            case HandoverCancelled(reason=reason):
                self._handover.called_off(reason)
            case Fenced(reason=reason):
                await self._fenced(reason)
            case Drain(reason=reason):
                log.info("leaving the job: %s", reason)
                self._departure.drain()
            case JobDone():
                return await self._job_done(message)
        return None

    def _welcomed(self, welcome: Welcome) -> None:
        self._elasticity = welcome.elasticity
        if self._node != welcome.node:
            log.info("joined job '%s' as node %d", self._config.run_id, welcome.node)
        self._node, self._joined = welcome.node, True
        self._handover.under_way(welcome.handover)
        if welcome.note:
            log.warning("%s", welcome.note)
        if self._warm:
            # It may have become so after the Hello was said.
            self._say(Warmed(fence=self._fence()))

    async def _prepare(self, prepare: Prepare) -> None:
        if prepare.round == self._round and self._state is not LocalState.IDLE:
            # A master that returned asks again. The store is known to others by now: keep it.
            if self._state is LocalState.READY:
                self._say(Ready(fence=self._fence(), store=self._store))
            return
        log.info("round %d forms: %s", prepare.round, prepare.reason)
        self._round, self._state, self._store = prepare.round, LocalState.IDLE, None
        self._seen = max(self._seen, prepare.round)
        self._handover.forget()
        if prepare.host_store:
            _, self._store = await asyncio.gather(self._stop_workers(), self._round_store.open())
        else:
            await self._stop_workers()
        self._state = LocalState.READY
        self._say(Ready(fence=self._fence(), store=self._store))

    def _store_lost(self, why: str, code: int) -> None:
        """The store of a running round is lost: what still needs it would wait for ever."""
        if self._state is LocalState.RUNNING and self._group:
            self._break_round(self._group.first_rank, why, code)

    async def _start(self, start: Start) -> None:
        if start.round != self._round or self._state is not LocalState.READY:
            return
        log.info(
            "round %d runs: group rank %d of %d, %s of %d, store %s:%d",
            start.round,
            start.group_rank,
            start.group_world_size,
            _ranks(start.first_rank, self._config.nproc),
            start.world_size,
            start.store.host,
            start.store.port,
        )
        self._progress.new_round(start.round)
        self._snapshots.new_round(start.round)
        self._group = WorkerGroup(
            self._config,
            self._nursery,
            environment=self._environment,
            log_root=self._log_root.path,
            progress_socket=self._progress.name,
            snapshots_socket=self._snapshots.name,
            on_exit=self._inbox.put_nowait,
        )
        self._state, self._given = LocalState.RUNNING, start
        try:
            await self._group.start(start)
            self._events.started(start, self._group.pids)
        except SpawnFailed as error:
            self._break_round(start.first_rank, str(error), 1)

    def _break_round(self, rank: int, why: str, code: int) -> None:
        """Something that workers cannot do without is not there: as bad as a dead worker."""
        log.error("%s", why)
        failure = WorkerFailure(local_rank=0, rank=rank, pid=0, exit_code=code, message=why)
        self._state = LocalState.FAILED
        self._failures += 1
        self._say(WorkersFailed(fence=self._fence(), failures=(failure,)))

    async def _fenced(self, reason: str) -> None:
        log.warning("put out of the job: %s; joining again as a new node", reason)
        if self._group:
            await self._group.stop(grace=0)
            self._group = None
        self._node, self._round, self._state, self._store = None, 0, LocalState.IDLE, None
        self._given = None
        self._handover.forget()
        self._handover.released()  # nobody waits for what this node holds any more
        self._link.rejoin()

    async def _job_done(self, done: JobDone) -> int:
        await self._stop_workers()
        self._events.ended(succeeded=done.outcome is Outcome.SUCCEEDED)
        if done.outcome is Outcome.SUCCEEDED:
            log.info("the job succeeded")
            return 0
        if done.outcome is Outcome.STOPPED:
            log.info("the job was stopped: %s", done.reason)
            return NodeExitCode.DRAINED
        log.error("%s", failure_text(done))
        if self._config.error_file and done.report:
            pass_on(self._config.error_file, done.report)
        return NodeExitCode.JOB_FAILED

    # --- the workers ------------------------------------------------------------------------

    async def _workers_changed(self, group: WorkerGroup) -> None:
        if group is not self._group or self._state is not LocalState.RUNNING:
            return
        if group.has_failed:
            await asyncio.wait([asyncio.ensure_future(group.read_all())], timeout=LAST_WORDS_WAIT)
            await group.hear_last_words()
            self._state = LocalState.FAILED
            self._failures += 1
            self._say(WorkersFailed(fence=self._fence(), failures=group.failures()))
            self._events.failed(group.failures())
            for failure in group.failures():
                log.warning("rank %d ended with %d", failure.rank, failure.exit_code)
            group.begin_stop(grace=self._config.restart_grace)
        elif group.succeeded:
            self._state = LocalState.SUCCEEDED
            if renewal := self._renewal():
                self._say(renewal)  # with the last step
            self._say(WorkersSucceeded(fence=self._fence()))

    async def _stop_workers(self) -> None:
        group, self._group = self._group, None
        if group is not None:
            await group.stop(grace=self._config.restart_grace)

    async def _watch_reach(self) -> None:
        """Tell the master which workers have reached the process group, as it changes.

        Not in the first moments of a round, in which workers restore and need the machine.
        """
        told = Told()
        while True:
            await asyncio.sleep(REACH_INTERVAL)
            group = self._group if self._state is LocalState.RUNNING else None
            if group is None or not group.pids:
                continue
            if told.round != group.round:
                told = Told(group.round)
                continue
            now = told.looked(group.pids, group.store_port)
            if now != told:
                told = now
                missing = tuple(sorted(told.unreached(group.pids).values()))
                fence = self._fence()
                self._say(WorkersReached(fence=fence, reached=told.reached, missing=missing))

    # --- cut off ----------------------------------------------------------------------------

    async def _cut_off(self, found: CutOff) -> None:
        """Nobody can be reached: the job may go on elsewhere, so it does not go on here."""
        if self._state is not LocalState.RUNNING:
            return
        log.error(
            "neither the master nor another node of the round was reached for %.0f s: stopping "
            "the workers, because the job may go on without this node until it is back",
            found.seconds,
        )
        self._state = LocalState.IDLE
        await self._stop_workers()
        self._link.hang_up()  # whoever answers next has to hear of it

    # --- what the link asks -----------------------------------------------------------------

    def _hello(self) -> Hello:
        held = None if self._node is None else Fence(self._node, self._round)
        failed = self._state is LocalState.FAILED and self._group is not None
        return Hello(
            job=self._config.run_id,
            info=NodeInfo(
                name=self._config.name,
                host=socket.gethostname(),
                address=self._config.address,
                nproc=self._config.nproc,
                role=self._config.role,
                rank=self._config.node_rank,
                generation=self._config.generation,
                pid=os.getpid(),
                door=self._snapshots.door,
            ),
            # What the job was agreed on, once we are in it: this master may not know.
            elasticity=self._config.elasticity if held is None else self._elasticity,
            held=held,
            warm=self._warm,
            state=self._state,
            store=self._store,
            failures=self._group.failures() if failed and self._group else (),
            start=self._given,
            seen=self._seen,
            leaving=self._handover.offered,
            handover=self._handover.newest,
        )

    def _renewal(self) -> FromAgent | None:
        """Called in the link's thread: reads what it needs and changes nothing."""
        if self._node is None:
            return None
        used = self._config.usage(time.monotonic())
        group = self._group
        pids = tuple(group.pids) if group else ()
        return Renew(
            fence=self._fence(),
            progress=self._progress.latest(pids),
            usage=used,
            workers=WorkersNow(pids=pids, failures=self._failures),
        )

    def _patience(self) -> float:
        if self._node is None:
            return self._config.connect_timeout
        training = self._group is not None and bool(self._group.alive)
        return float("inf") if training else self._elasticity.join_timeout

    def _fence(self) -> Fence:
        return Fence(-1 if self._node is None else self._node, self._round)

    def _say(self, message: FromAgent) -> None:
        if self._node is not None:
            self._link.send(message)


def _ranks(first: int, count: int) -> str:
    return f"rank {first}" if count == 1 else f"ranks {first}-{first + count - 1}"
