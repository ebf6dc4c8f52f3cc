"""Episodes with checkpoints: save often, write to storage, kill a worker, lose a node.

The results are written into Findings under names that end with the size of the state. An episode
may end early with NoAnswer: values found until then are kept.
"""

import shutil
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.checkpoints.loopback import transfer_seconds
from bench.checkpoints.records import (
    Restore,
    SavingRecord,
    parse_saving,
    restored,
    slowdown,
    stalls,
)
from bench.checkpoints.systems import MEGABYTE, Plan, planned, storage_of
from bench.episodes import (
    NODE_BOUND,
    ONE_BY_TWO,
    TWO_BY_ONE,
    WORKER_BOUND,
    Findings,
    start_all,
)
from bench.jobs import Job, NoAnswer, running
from bench.launchers import Launcher, Shape
from bench.timeline import fresh, recovery

SAVES = 6
SAVES_BEFORE_A_FAULT = 8
WRITTEN_SAVES = 5
STEPS_BETWEEN_WRITES = 60
"""Far enough apart that there are also steps with nothing being written."""
SAVING_BOUND = 300.0
COPIES_FOR_A_PEER = 3
TRANSFERS = 3
_SHARED_MEMORY = Path("/dev/shm")
_DLROVER_SOCKETS = Path("/tmp/ckpt_sock")


def stalled(launcher: Launcher, findings: Findings, *, megabytes: int) -> None:
    """Save a few times, into memory if the system can; measure how long each stalled training."""
    plan = Plan(megabytes=megabytes)
    with _training(launcher, ONE_BY_TWO, plan=plan, keep=findings.keep) as job:
        job.wait_for_steps(world=2, steps=SAVES * plan.every + 1, within=SAVING_BOUND)
        found = stalls(_records(job))
    if found is None:
        raise NoAnswer("no save was recorded")
    later = statistics.median(found.later)
    findings.values[f"stall-{megabytes}"] = later
    findings.values[f"first-stall-{megabytes}"] = found.first
    findings.values[f"first-stall-ratio-{megabytes}"] = found.first / later


def slowed(launcher: Launcher, findings: Findings, *, megabytes: int) -> None:
    """Save to storage a few times; measure how much longer steps take during the writing."""
    plan = Plan(megabytes=megabytes, every=STEPS_BETWEEN_WRITES, durable=True, compute=True)
    with _training(launcher, ONE_BY_TWO, plan=plan, keep=findings.keep) as job:
        steps = WRITTEN_SAVES * plan.every + plan.every // 2
        job.wait_for_steps(world=2, steps=steps, within=SAVING_BOUND)
        records = _records(job)
    found = stalls(records)
    if found is not None and found.later:
        findings.values[f"durable-stall-{megabytes}"] = statistics.median(found.later)
    more = slowdown(records)
    if more is None:
        raise NoAnswer("too few steps while storage was written to compare")
    findings.values[f"slowdown-{megabytes}"] = more


def worker_restored(launcher: Launcher, findings: Findings, *, megabytes: int) -> None:
    """Measure the time from kill -9 of a worker to the last rank's next step, with its state."""
    plan = Plan(megabytes=megabytes)
    with _training(launcher, ONE_BY_TWO, plan=plan, keep=findings.keep) as job:
        _train_a_while(job, plan)
        fault = job.kill_worker(1)
        took = job.wait(lambda all_: recovery(all_, fault=fault, world=2), within=WORKER_BOUND)
        _refuse_forgotten(job, fault)
        findings.values[f"restored-step-{megabytes}"] = took
        found = _restore(job, fault=fault, ranks=2)
        findings.values[f"restore-{megabytes}"] = found.seconds
        findings.values[f"restore-ratio-{megabytes}"] = found.seconds / found.copy


def node_replaced(launcher: Launcher, findings: Findings, *, megabytes: int) -> None:
    """Kill one of two nodes and start another, with nothing in its memory; measure its restore."""
    plan = Plan(megabytes=megabytes)
    transfer = statistics.median(transfer_seconds(megabytes * MEGABYTE) for _ in range(TRANSFERS))
    with _training(launcher, TWO_BY_ONE, plan=plan, keep=findings.keep) as job:
        _train_a_while(job, plan)
        fault = job.kill_node(1)
        job.start_agent(1)
        job.wait(lambda all_: recovery(all_, fault=fault, world=2), within=NODE_BOUND)
        _refuse_forgotten(job, fault)
        found = _restore(job, fault=fault, ranks=1, node=1)
        findings.values[f"peer-restore-{megabytes}"] = found.seconds
        allowed = COPIES_FOR_A_PEER * found.copy + transfer
        findings.values[f"peer-restore-ratio-{megabytes}"] = found.seconds / allowed


def _train_a_while(job: Job, plan: Plan) -> None:
    """Train until some steps after a snapshot. Real jobs fail after hours, not in their first
    seconds, when a system may still be setting up."""
    steps = SAVES_BEFORE_A_FAULT * plan.every + plan.every // 2
    job.wait_for_steps(world=2, steps=steps, within=SAVING_BOUND)


@contextmanager
def _training(launcher: Launcher, shape: Shape, *, plan: Plan, keep: Path | None) -> Iterator[Job]:
    """Run a job; on leaving, delete everything that it saved."""
    job: Job | None = None
    try:
        with running(planned(launcher, plan), shape, keep=keep) as job:
            start_all(job)
            yield job
    finally:
        if job is not None:
            _forget(job)


def _forget(job: Job) -> None:
    """Delete the storage, and DLRover's shared memory and sockets, which outlive the job."""
    shutil.rmtree(storage_of(job.site), ignore_errors=True)
    for segment in _SHARED_MEMORY.glob(f"*{job.site.job}*"):
        segment.unlink(missing_ok=True)
    for folder in _DLROVER_SOCKETS.glob(f"{job.site.job}-*"):
        shutil.rmtree(folder, ignore_errors=True)


def _records(job: Job) -> list[SavingRecord]:
    return parse_saving((job.site.folder / "events.jsonl").read_bytes())


def _restore(job: Job, *, fault: float, ranks: int, node: int | None = None) -> Restore:
    return job.wait(
        lambda _: restored(_records(job), since=fault, ranks=ranks, node=node),
        within=WORKER_BOUND,
    )


def _refuse_forgotten(job: Job, fault: float) -> None:
    """Raise NoAnswer if training restarted from step 0 instead of restoring its state."""
    records = _records(job)
    new = {record.pid for record in fresh(records, since=fault)}
    if any(record.start == 0 for record in records if record.pid in new):
        raise NoAnswer("training began anew: nothing was restored")
