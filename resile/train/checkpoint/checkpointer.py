"""The Checkpointer of a training script: restore once, call ``step`` after every step.

    ckpt = Checkpointer("checkpoints/", every=50, keep=3)
    start = ckpt.restore(state)
    for step in range(start, n):
        ...
        ckpt.step(step, state)

A snapshot is a copy into memory that survives the worker; a checkpoint is a snapshot that another
process writes to storage. All workers of a job call these in the same order, as they do
collectives, and a step must contain at least one collective of all of them (any DDP or FSDP step
does), so that no worker is more than a step ahead.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from resile.checkpoint.commit import new_attempt
from resile.checkpoint.errors import FolderTaken
from resile.checkpoint.fence import (
    TAKE_OVER_VARIABLE,
    RoundClaim,
    belongs_to_another_job,
    is_job_name,
    refusal,
)
from resile.checkpoint.storage.base import Storage, open_storage
from resile.group_name import describe_group
from resile.snapshots.client import AgentSnapshotClient, LocalSnapshotClient, SnapshotClient
from resile.snapshots.errors import SnapshotError
from resile.snapshots.messages import Status, WorkerHello
from resile.train.checkpoint.options import Auto, check_arguments
from resile.train.checkpoint.restore.restore_coordinator import RestoreResult, resume
from resile.train.checkpoint.restore.select_source import RestoreSource
from resile.train.checkpoint.round_channel import (
    RankInfo,
    RoundChannel,
    connect_early,
    open_channel,
)
from resile.train.checkpoint.save.saver import (
    Saver,
    WorkerHandover,
    await_commit,
    claim_in_background,
)
from resile.train.checkpoint.schedule import SaveSchedule
from resile.train.checkpoint.state.rng import pass_random_states
from resile.train.checkpoint.state.script_classes import ScriptClasses
from resile.train.progress import report_checkpointer_step, report_resumed

__all__ = ["Checkpointer"]

RECORD = "resile"
"""The key of Resile's own record beside the script's state."""

_POLL = 0.02


def __resile_rehearse__() -> None:
    """Warm up in workers that were forked ahead of time and wait."""
    from resile.train.checkpoint.warmup import warm_up

    warm_up()


class Checkpointer:
    """Saves and restores snapshots and checkpoints of one training state.

    ``directory``: a folder that all nodes share, or a URL (s3://…, gs://…); None: memory only.
    ``every``: steps between snapshots, or :class:`Auto`. ``checkpoint_every``: steps between
    checkpoints on storage, a multiple of ``every``; every snapshot if not given. ``keep``: number
    of checkpoints kept on storage, 0 for all. ``trust``: allow unpickling where the state needs it.
    ``storage_options``: for the storage's driver, also in the writer process: plain values.
    ``take_over``: train in a folder that holds another job's checkpoints. ``group``: restore the
    checkpoints of another group of the job ('' is the main one), for instance to evaluate them;
    such a Checkpointer cannot save. ``quiet``: print no messages.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str] | None,
        *,
        every: int | Auto = 50,
        checkpoint_every: int | None = None,
        keep: int = 3,
        trust: bool = False,
        storage_options: dict[str, Any] | None = None,
        take_over: bool = False,
        group: str | None = None,
        quiet: bool = False,
    ) -> None:
        check_arguments(every, checkpoint_every, keep, storage_options, group)
        self._using = threading.RLock()
        self._schedule = SaveSchedule(every, checkpoint_every=checkpoint_every, tell=self._tell)
        self._keep = keep
        self._trust = trust
        self._take_over = take_over or os.environ.get(TAKE_OVER_VARIABLE, "") not in ("", "0")
        self._quiet = quiet
        self._storage: Storage | None = None
        self._storage_options = storage_options or {}
        if directory is not None:
            self._storage = open_storage(os.fspath(directory), **self._storage_options)
        self._place = RankInfo.from_environment()
        self._group = self._place.group if group is None else group
        self._memory: SnapshotClient | None = None
        if not self._only_looks:
            self._memory = _open_memory(self._place, self._tell)
        self._store = connect_early(self._place)
        self._channel: RoundChannel | None = None
        self._saver: Saver | None = None
        self._confirmed = 0
        self._reserved = False
        self._trouble = ""
        self._saved = -1
        self._handover: WorkerHandover | None = None
        self._claim: RoundClaim | None = None
        self._claimed = False
        self._classes = ScriptClasses()
        self.resumed = RestoreResult(RestoreSource.NOWHERE)
        """The source of the state that :meth:`restore` loaded."""

    # --- restoring --------------------------------------------------------------------------

    def restore(self, state: dict[str, Any], *, strict: bool = True) -> int:
        """Load the newest consistent state into ``state``; returns the step to continue with.

        0 if there is nothing to restore. ``strict=False`` leaves entries that do not match as they
        are.
        """
        if self._channel is not None:
            raise RuntimeError("restore is called once, before the first step")
        self._channel = open_channel(self._place, self._store)
        record = {"seconds": 0.0, "failures": 0}
        whole = {**state, RECORD: record}
        # As the script has it now: the next worker will know the same classes.
        self._classes = ScriptClasses(state)
        self.resumed = resume(
            whole,
            channel=self._channel,
            memory=self._memory,
            storage=self._storage,
            group=self._group,
            strict=strict,
            trust=self._trust,
        )
        state.update((key, whole[key]) for key in state)
        step = self.resumed.step
        if self.resumed.source is not RestoreSource.NOWHERE:
            self._schedule.costs.seconds = record["seconds"]
            self._schedule.costs.failures = int(record["failures"]) + 1
            pass_random_states(state.values())
        if not self._only_looks:
            self._begin(step)
        self._say_resumed()
        return step

    @property
    def _only_looks(self) -> bool:
        """Whether these are another group's checkpoints, which this worker only reads."""
        return self._group != self._place.group

    def _begin(self, step: int) -> None:
        """Prepare saving; training resumes at ``step``."""
        channel = self._channel
        assert channel is not None
        attempt = ""
        if self._storage is not None:
            attempt = channel.decide("attempt", lambda: new_attempt(self._place.round), str)
            self._claim = RoundClaim(
                attempt=attempt,
                run=self._place.run or attempt,
                round=self._place.round,
                step=step,
                job=self._place.job,
                time=0.0,
                group=self._place.group,
            )
        if self._memory is not None:
            page = self._memory.resumed(step, next=self._next_node())
            self._handover = WorkerHandover(channel, self._memory, page)
        self._saver = Saver(
            self._place,
            memory=self._memory,
            storage=self._storage,
            options=self._storage_options,
            attempt=attempt,
            claim=self._claim,
            keep=self._keep,
            trust=self._trust,
            classes=self._classes,
            tell=self._tell,
            warn=self._warn,
        )
        self._schedule.begin(step, channel, chooses=self._place.rank == 0)

    def _next_node(self) -> str | None:
        """Copies of this node's own parts go to the next node; planned in each round, by the
        worker that acts for its node."""
        place, addresses = self._place, self.resumed.addresses
        if not place.leads_node:
            return None
        return addresses[(place.group_rank + 1) % place.nodes] if place.nodes > 1 else ""

    def _say_resumed(self) -> None:
        for problem in self.resumed.problems:
            self._tell(f"not used: {problem}")
        if self.resumed.source is not RestoreSource.NOWHERE:
            resumed = self.resumed
            owner, job = resumed.owner, self._place.job
            whose = f" of job '{owner}'" if owner != job and is_job_name(owner) else ""
            whose += f" of {describe_group(self._group)}" if self._only_looks else ""
            self._tell(
                f"resumed at step {resumed.step}{whose} from {resumed.source.value} "
                f"in {resumed.seconds:.3f} s"
            )
            if not self._only_looks:
                report_resumed(resumed.step, resumed.source.value)

    # --- saving -----------------------------------------------------------------------------

    def step(self, step: int, state: dict[str, Any]) -> None:
        """Mark ``step`` as done; saves ``state`` if a snapshot is due."""
        with self._alone("step"):
            self._step(step, state)

    def _step(self, step: int, state: dict[str, Any]) -> None:
        self._claim_folder()
        done = step + 1
        _advance(state)
        if isinstance(state.get("step"), int):
            state["step"] = done
        self._schedule.step_begins()
        if not self._reserved:
            self._reserved = True
            self._ready_saver().reserve(self._whole(state), step=done)
        if self._schedule.snapshot_due(done):
            self._save(done, state, durable=self._schedule.checkpoint_due(done))
        if self._handover is not None and self._handover.is_due(done):
            self._hand_over(done, state, self._handover)
        self._schedule.step_ends()
        report_checkpointer_step(step)

    def save(self, step: int, state: dict[str, Any], *, timeout: float = 600.0) -> None:
        """Save ``state`` after ``step`` now; when it returns on any worker, the checkpoint exists.

        All workers call it for the same step. Raises :class:`NotSaved` on all of them, with the
        reason; TimeoutError if the write did not finish in time. Without a directory only the
        snapshot in memory is made, and nothing is waited for.
        """
        with self._alone("save"):
            self._claim_folder()
            done = step + 1
            self._save(done, state, durable=True)
            if self._storage is not None:
                self._confirmed += 1
                topic = f"saved/{self._confirmed}"
                saver = self._ready_saver()
                await_commit(self._agree(), saver, step=done, topic=topic, timeout=timeout)

    def wait(self, timeout: float = 600.0) -> None:
        """Wait until this node has written everything; ``status()`` has the result."""
        deadline = time.monotonic() + timeout
        while self._memory is not None and self._memory.status().writing:
            if time.monotonic() > deadline:
                raise TimeoutError(f"storage took longer than {timeout:g} s")
            time.sleep(_POLL)

    def status(self) -> Status:
        """Return the status of this node's writes to storage."""
        return Status() if self._memory is None else self._memory.status()

    def close(self) -> None:
        """Release everything; pending writes to storage still finish.

        This does not wait for them: ``wait()`` does. Without an agent the writer process prints
        errors itself."""
        if self._memory is not None:
            self._memory.close()
            self._memory = None

    def __enter__(self) -> Checkpointer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @contextlib.contextmanager
    def _alone(self, what: str) -> Iterator[None]:
        """Refuse concurrent calls: all workers make these calls in the same order, which several
        threads cannot guarantee."""
        if not self._using.acquire(blocking=False):
            raise RuntimeError(
                f"{what}() was called while another thread is saving: call step() and save() from "
                "one thread, because all workers must make these calls in the same order"
            )
        try:
            yield
        finally:
            self._using.release()

    def _claim_folder(self) -> None:
        """Claim the folder before the first step: a script that only restores leaves it as it is.
        All workers reach the same result, from what ``restore`` found."""
        if self._only_looks:
            raise RuntimeError(
                f"this Checkpointer reads the checkpoints of {describe_group(self._group)} and "
                f"cannot save: this worker is in {describe_group(self._place.group)}. Use another "
                "Checkpointer without group= for its own state"
            )
        if self._claimed or self._storage is None or self._claim is None:
            return
        owner, job = self.resumed.owner, self._place.job
        if belongs_to_another_job(owner, job) and not self._take_over:
            raise FolderTaken(refusal(self._storage.address, owner, job))
        self._claimed = True
        if self._place.rank == 0:
            claim_in_background(self._storage, self._claim, warn=self._warn)

    def _save(self, done: int, state: dict[str, Any], *, durable: bool) -> None:
        started = time.monotonic()
        with self._survivable(done):
            self._ready_saver().snapshot(self._whole(state), step=done, durable=durable)
            self._saved = done
        self._schedule.saved(done, durable=durable, stall=time.monotonic() - started)
        self._report_trouble()

    def _hand_over(self, done: int, state: dict[str, Any], handover: WorkerHandover) -> None:
        """Save the step that was chosen for a planned change of the round, then hold."""
        if self._saved != done or self._storage is not None:
            self._save(done, state, durable=True)
        with self._survivable(done):
            handover.hold(done)

    @contextlib.contextmanager
    def _survivable(self, done: int) -> Iterator[None]:
        """Warn about a failed snapshot instead of raising: the agent is gone, and this worker will
        be stopped soon."""
        try:
            yield
        except SnapshotError as error:
            self._warn(f"no snapshot of step {done}: {error}")

    def _whole(self, state: dict[str, Any]) -> dict[str, Any]:
        costs = self._schedule.costs
        record = {"seconds": costs.seconds, "failures": costs.failures}
        return {**state, RECORD: record}

    def _ready_saver(self) -> Saver:
        if self._saver is None:
            raise RuntimeError("call restore(state) before the first step: it also prepares saving")
        return self._saver

    def _agree(self) -> RoundChannel:
        assert self._channel is not None
        return self._channel

    # --- messages ---------------------------------------------------------------------------

    def _report_trouble(self) -> None:
        """Print storage errors once, on the worker that acts for its node."""
        if self._memory is None or not self._place.leads_node:
            return
        trouble = self._memory.trouble
        if trouble and trouble != self._trouble:
            self._warn(trouble)
        self._trouble = trouble

    def _tell(self, text: str) -> None:
        """Print a message on rank 0 only."""
        if not self._quiet and self._place.rank == 0:
            print(f"resile: {text}", file=sys.stderr, flush=True)

    def _warn(self, text: str) -> None:
        """Print a warning of this rank."""
        if not self._quiet:
            who = f"rank {self._place.rank}: " if self._place.world > 1 else ""
            print(f"resile: {who}{text}", file=sys.stderr, flush=True)


def _advance(state: dict[str, Any]) -> None:
    """Mark the samples of a step as trained in samplers and datasets."""
    for value in state.values():
        advance = getattr(value, "advance", None)
        if callable(advance):
            advance()


def _open_memory(place: RankInfo, tell: Any) -> SnapshotClient:
    worker = WorkerHello(
        rank=place.rank,
        local_rank=place.local_rank,
        world=place.world,
        nproc=place.local_world,
        round=place.round,
        group=place.group,
    )
    with contextlib.suppress(SnapshotError):
        if client := AgentSnapshotClient.from_environment(worker):
            return client
    tell(
        "no agent holds this worker's snapshots: after a crash it restores from storage "
        "(start it with 'resile run' to restore from memory)"
    )
    return LocalSnapshotClient(worker)
