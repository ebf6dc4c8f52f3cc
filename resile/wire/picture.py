"""One picture of a job from two halves: its controller's status and its master's view. Pure.

The controller knows the ranks, why they are pending and how often they were replaced; the master
knows who is in the round and how far it has come. A node's name is what both call it by.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from resile.job.node import LIVE, NodePhase
from resile.job.status import ConditionStatus, ConditionType, JobPhase, JobStatus, NodeStatus
from resile.wire.views import JobPicture, JobView, NodePicture, NodeView, Usage

__all__ = ["draw_picture", "ended_picture", "headline"]


def draw_picture(
    name: str,
    *,
    status: JobStatus | None,
    training: JobView | None,
    groups: Mapping[str, JobView] | None = None,
    manifest: dict[str, Any] | None = None,
    usage: Mapping[str, Usage] | None = None,
    wishes: Mapping[str, int] | None = None,
    suspend: bool | None = None,
    deleting: bool = False,
    created: float = 0.0,
    now: float,
) -> JobPicture:
    """Put the halves together; either may be missing.

    ``groups``: the views of groups other than the main one, whose view is ``training``.
    ``usage``: what the nodes' platform measured, by their names; it counts before what they told.
    """
    trainings = [*(groups or {}).values(), *([] if training is None else [training])]
    seen = {view.name: (view, its) for its in trainings for view in its.nodes}
    if status is None:
        nodes = tuple(_visitor(view, its) for view, its in seen.values())
        phase = "" if training is None else training.phase
        message = "" if training is None else training.reason
    else:
        used = usage or {}
        failures = Counter[str]()
        for its in trainings:
            failures.update(its.failures)
        nodes = tuple(
            _node(
                rank,
                seen.get(rank.name),
                failures=failures[rank.name],
                usage=used.get(rank.name),
            )
            for rank in status.nodes
        )
        if status.unlisted:  # of a large job its controller tells only who is not well
            told = {rank.name for rank in status.nodes}
            others = (pair for name, pair in seen.items() if name not in told)
            nodes = (*nodes, *(_visitor(view, its) for view, its in others))
        phase, message = status.phase.value, headline(status)
    return JobPicture(
        name=name,
        phase=phase,
        message=message,
        nodes=nodes,
        training=training,
        status=status,
        manifest=manifest,
        wishes=dict(wishes or {}),
        suspend=suspend,
        deleting=deleting,
        created=created,
        seen=now,
        groups=dict(groups or {}),
    )


def ended_picture(picture: JobPicture, how: str) -> JobPicture:
    """The last picture of a job whose platform is gone: what ran then runs no more."""
    nodes = tuple(_stilled(node, how) for node in picture.nodes)
    stilled = sum(before != now for before, now in zip(picture.nodes, nodes, strict=True))
    message = f"{stilled} of {len(nodes)} nodes were ended with it" if stilled else ""
    over = picture.status is not None and picture.status.finished
    return msgspec.structs.replace(
        picture, nodes=nodes, ended=how, message=picture.message if over else message
    )


_LIVE = frozenset(phase.value for phase in (*LIVE, NodePhase.WAITING))


def _stilled(node: NodePicture, how: str) -> NodePicture:
    if node.phase not in _LIVE:
        return node
    return msgspec.structs.replace(
        node,
        phase=NodePhase.STOPPED.value,
        message=f"{how.lower()} while it was {node.phase.lower()}",
        usage=None,
        connected=False,
        state="",
        worker_pids=(),
    )


_TELLING = {
    JobPhase.SUCCEEDED: ConditionType.SUCCEEDED,
    JobPhase.FAILED: ConditionType.FAILED,
    JobPhase.SUSPENDED: ConditionType.SUSPENDED,
}

_WAITING = frozenset({JobPhase.CREATED, JobPhase.PENDING, JobPhase.RESTARTING})
"""Then Running, which does not hold, says what the job waits for."""


def headline(status: JobStatus) -> str:
    """Why the job is in its phase, in a sentence."""
    problem = "" if status.finished else status.master_problem
    told = (_headline(status), f"the job has no master: {problem}" if problem else "")
    return "; ".join(part for part in told if part)


def _headline(status: JobStatus) -> str:
    condition = status.condition(_TELLING.get(status.phase, ConditionType.RUNNING))
    if condition is not None:
        if condition.status is ConditionStatus.TRUE or status.phase in _WAITING:
            return condition.message
        return ""
    waiting = [
        rank for rank in status.nodes if rank.phase in (NodePhase.WAITING, NodePhase.PENDING)
    ]
    return next((f"{rank.name or rank.role}: {rank.message}" for rank in waiting), "")


def _node(
    rank: NodeStatus,
    seen: tuple[NodeView, JobView] | None,
    *,
    failures: int,
    usage: Usage | None,
) -> NodePicture:
    """``seen``: the node as its master sees it, and the training of its group."""
    drawn = NodePicture(
        name=rank.name,
        role=rank.role,
        rank=rank.rank,
        phase=rank.phase.value,
        id=rank.id,
        reason=rank.reason,
        message=rank.message,
        host=rank.host,
        restarts=rank.restarts + failures,
        spent=rank.spent,
        memory_limit=rank.resources.limits.get("memory", ""),
        usage=usage if rank.phase in LIVE else None,
    )
    if seen is None or rank.phase not in LIVE:
        return drawn
    view, training = seen
    if usage is None:
        drawn = msgspec.structs.replace(drawn, usage=view.usage)
    return msgspec.structs.replace(drawn, **_live(view, training))


def _visitor(view: NodeView, training: JobView) -> NodePicture:
    """A node that no controller looks after: one that came by itself."""
    drawn = NodePicture(
        name=view.name, role=view.role, rank=view.rank, phase=NodePhase.RUNNING.value, id=view.id
    )
    failures = training.failures.get(view.name, 0)
    return msgspec.structs.replace(drawn, **_live(view, training), restarts=failures)


def _live(view: NodeView, training: JobView) -> dict[str, Any]:
    progress = view.progress
    return {
        "state": view.state,
        "connected": view.connected,
        "workers": view.workers,
        "host": view.host,
        "pid": view.pid,
        "round": None if view.state == "spare" else training.round,
        "step": None if progress is None else progress.step,
        "loss": None if progress is None else progress.loss,
        "worker_pids": view.worker_pids,
    }
