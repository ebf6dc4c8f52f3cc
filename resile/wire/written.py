"""The training in a job's status: as the operator writes down what the master saw, and as commands
read it again. Pure.

A status goes to everybody who watches, so amounts are rounded to what a person reads, and the last
words of a worker are cut to their end. What is read again is a master's view like any other, so
that a cluster's job is shown as one whose master was asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone

from msgspec.structs import replace

from resile.job.compact import LISTED, SHOWN
from resile.job.errors import QuantityError
from resile.job.quantity import parse_quantity
from resile.job.status import FirstFailure, JobStatus, MemberStatus, NodeStatus, TrainingStatus
from resile.wire.messages import FailureReport, Progress, WorkerFailure
from resile.wire.views import JobView, NodeView, Usage

__all__ = [
    "LARGEST",
    "LAST_WORDS",
    "training_in",
    "usage_of",
    "with_written_training",
    "writable",
    "written_training",
]

LAST_WORDS = 4096
"""Letters of a failed worker's last words: a traceback's end, in an object that may have 1 MiB."""

WORD = 255
SENTENCE = 1024
"""Letters of a name or state, and of a reason."""

LARGEST = 2**63
"""Numbers from here on have no place in a Kubernetes object."""

MEBI = 1024**2

AWAY, OTHER = "away", "other"
_WELL = frozenset({"running", "succeeded", "spare"})
_STATES = _WELL | {"idle", "ready", "failed"}


def written_training(seen: JobView) -> TrainingStatus:
    """What to write down of a master's view. Of a large job: nodes that are not well, and how many
    do what."""
    large = len(seen.nodes) > LISTED
    nodes = [node for node in seen.nodes if not _well(node)][:SHOWN] if large else seen.nodes
    return TrainingStatus(
        phase=_cut(seen.phase, WORD),
        reason=_cut(seen.reason, SENTENCE),
        restarts=seen.restarts,
        max_restarts=seen.max_restarts,
        failure=None if seen.report is None else _failure(seen.report),
        worker_failures=_most_failures(seen.failures),
        nodes={_cut(node.name, WORD): _member(node) for node in nodes},
        counts=_counts(seen.nodes) if large else {},
    )


def _most_failures(failures: Mapping[str, int]) -> dict[str, int]:
    """Those of the nodes with the most, as many as a status has room for, in the given order."""
    most = sorted(failures, key=lambda name: -failures[name])[:LISTED]
    kept = set(most)
    return {_cut(name, WORD): count for name, count in failures.items() if name in kept}


def _well(node: NodeView) -> bool:
    return node.connected and node.state in _WELL


def _counts(nodes: Iterable[NodeView]) -> dict[str, int]:
    """How many nodes are in each of the states there are, and how many are away."""
    states = Counter(node.state if node.state in _STATES else OTHER for node in nodes)
    away = sum(not node.connected for node in nodes)
    return {**dict(sorted(states.items())), **({AWAY: away} if away else {})}


def with_written_training(status: JobStatus, seen: JobView | None) -> JobStatus:
    """A status with the master's view written down, where nobody has yet: on one machine the two
    are kept apart, and a program that reads a job is to find in it what it finds on a cluster."""
    if seen is None or status.training is not None:
        return status
    return replace(
        status,
        round=seen.round or None,
        world_size=seen.world_size or None,
        step=status.step if seen.step is None else seen.step,
        throughput=seen.throughput,
        total_steps=writable(seen.total),
        loss=seen.loss,
        training=written_training(seen),
    )


def training_in(name: str, status: JobStatus) -> JobView | None:
    """The master's view of the job ``name`` as it was written down; None if it never was."""
    training = status.training
    if training is None:
        return None
    ranks = {rank.name: rank for rank in status.nodes}
    nodes = [_node(one, seen, ranks.get(one)) for one, seen in training.nodes.items()]
    told = [status.step, *(node.step for node in training.nodes.values())]
    return JobView(
        job=name,
        phase=training.phase,
        round=status.round or 0,
        reason=training.reason,
        min_nodes=0,
        max_nodes=0,
        world_size=status.world_size or 0,
        restarts=training.restarts,
        max_restarts=training.max_restarts,
        step=max((step for step in told if step is not None), default=None),
        nodes=nodes,
        report=None if training.failure is None else _report(training.failure),
        throughput=status.throughput,
        total=status.total_steps,
        loss=status.loss,
        failures=training.worker_failures,
    )


def writable(number: int | None) -> int | None:
    """A number of a script's own, if it has a place in a Kubernetes object."""
    return number if number is not None and abs(number) < LARGEST else None


def usage_of(seen: MemberStatus) -> Usage | None:
    """What a node used when it was written down."""
    if not seen.cpu and not seen.memory:
        return None
    memory = _amount(seen.memory)
    return Usage(cpu=_amount(seen.cpu), memory=None if memory is None else round(memory))


# --- nodes --------------------------------------------------------------------------------------


def _member(node: NodeView) -> MemberStatus:
    step = None if node.progress is None else node.progress.step
    used = node.usage or Usage()
    return MemberStatus(
        state=_cut(node.state, WORD),
        away=not node.connected,
        workers=node.workers,
        step=writable(step),
        cpu="" if used.cpu is None else f"{used.cpu:.1f}",
        memory="" if used.memory is None else f"{round(used.memory / MEBI)}Mi",
    )


def _node(name: str, seen: MemberStatus, rank: NodeStatus | None) -> NodeView:
    return NodeView(
        id=0,
        name=name,
        host="" if rank is None else rank.host,
        pid=0,
        role="" if rank is None else rank.role,
        rank=None if rank is None else rank.rank,
        state=seen.state,
        connected=not seen.away,
        workers=seen.workers,
        progress=None if seen.step is None else Progress(step=seen.step),
        usage=usage_of(seen),
    )


def _amount(text: str) -> float | None:
    try:
        return float(parse_quantity(text).amount) if text else None
    except QuantityError:
        return None


# --- the report of a failure --------------------------------------------------------------------


def _failure(report: FailureReport) -> FirstFailure:
    failed = report.failure
    return FirstFailure(
        node=_cut(report.name, WORD),
        node_id=report.node,
        host=_cut(report.host, WORD),
        rank=failed.rank,
        local_rank=failed.local_rank,
        pid=failed.pid,
        exit_code=failed.exit_code,
        at=datetime.fromtimestamp(report.when, timezone.utc),
        message=_end_of(failed.message),
        log=_cut(failed.log, LAST_WORDS),
        others=report.others,
    )


def _report(failed: FirstFailure) -> FailureReport:
    failure = WorkerFailure(
        local_rank=failed.local_rank,
        rank=failed.rank,
        pid=failed.pid,
        exit_code=failed.exit_code,
        message=failed.message,
        log=failed.log,
    )
    return FailureReport(
        node=failed.node_id,
        name=failed.node,
        host=failed.host,
        failure=failure,
        when=failed.at.timestamp(),
        others=failed.others,
    )


def _cut(text: str, length: int) -> str:
    """A master's text, no longer than a status has room for, whoever the master is."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _end_of(words: str) -> str:
    """Whole lines, as many of the last as there is room for."""
    if len(words) <= LAST_WORDS:
        return words
    end = words[-LAST_WORDS:]
    return end.partition("\n")[2] or end
