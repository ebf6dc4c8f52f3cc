"""Explain why the logs of a job are empty, from its view. Pure."""

from __future__ import annotations

from collections.abc import Callable

from resile.job.node import NodePhase
from resile.job.status import ConditionStatus, ConditionType, JobPhase, JobStatus
from resile.job.training import NodeView
from resile.job.view import JobView

__all__ = ["why_silent"]

QUIET = "nothing has been printed yet"
PLACELESS = frozenset({NodePhase.PENDING.value, NodePhase.WAITING.value})
ENDED = frozenset({NodePhase.SUCCEEDED.value, NodePhase.FAILED.value})


def why_silent(view: JobView, *, wanted: Callable[[NodeView], bool], kept: bool, phase: str) -> str:
    """``kept``: whether there is a log of any node that is ``wanted``. ``phase``: the job in one
    word, as its reader has it."""
    status = view.status
    if status is None or _refused(status):
        return _with(f"the job is {phase}", view.message)
    if status.finished:
        gone = "" if kept else "; the logs were removed with its nodes"
        return _with(f"the job is over ({phase})", view.message) + gone
    if status.phase is JobPhase.SUSPENDED:
        return _with("the job is suspended", view.message)
    chosen = [node for node in view.nodes if wanted(node)]
    troubled = [node for node in chosen if node.phase != NodePhase.RUNNING.value and node.message]
    stuck = [*troubled, *(node for node in chosen if node.phase in PLACELESS)]
    if stuck:
        node = stuck[0]
        verb = "has" if node.phase in ENDED else "is"
        return _with(f"{node.name or node.role} {verb} {node.phase.lower()}", node.message)
    return QUIET if chosen or kept else _with(f"the job is {phase}", view.message)


def _refused(status: JobStatus) -> bool:
    created = status.condition(ConditionType.CREATED)
    return created is not None and created.status is ConditionStatus.FALSE


def _with(what: str, why: str) -> str:
    return f"{what}: {why}" if why else what
