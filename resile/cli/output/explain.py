"""Explanations for users: why logs are empty, that no operator seems to run, and one-line messages
for errors of the cluster and of this machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import click

from resile.client.errors import ClientError
from resile.client.find import ClusterUnavailable
from resile.job.node import NodePhase
from resile.job.status import ConditionStatus, ConditionType, JobPhase, JobStatus
from resile.job.training import NodeView
from resile.job.view import JobView
from resile.kube.errors import ApiError, KubeError
from resile.launch.state_dir import StateDirError
from resile.local.jobdir import JobDirError

__all__ = [
    "NoOperatorWarning",
    "explain_no_output",
    "user_message",
]


QUIET = "nothing has been printed yet"
PLACELESS = frozenset({NodePhase.PENDING.value, NodePhase.WAITING.value})
ENDED = frozenset({NodePhase.SUCCEEDED.value, NodePhase.FAILED.value})


def explain_no_output(
    view: JobView, *, wanted: Callable[[NodeView], bool], kept: bool, phase: str
) -> str:
    """Return why there is no output. ``kept``: whether any node that is ``wanted`` has a log.
    ``phase``: the job's state in one word, from its reader."""
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


STEERED = 5.0
"""Seconds. A running operator acts on a change within one; a rescheduled one, within a few."""


class _Unseen(Protocol):
    @property
    def namespace(self) -> str: ...

    @property
    def unseen(self) -> bool: ...


class NoOperatorWarning:
    """Warns some seconds after it is created. Call :meth:`look` after each view of the job."""

    def __init__(self, job: _Unseen, *, after: float = STEERED) -> None:
        self._job = job
        self._at = time.monotonic() + after
        self._warned = False

    def look(self) -> None:
        """Warn if no operator has observed the job, or its change, for too long."""
        if self._warned or time.monotonic() < self._at or not self._job.unseen:
            return
        from resile.client.cluster.cluster import HOW_TO_INSTALL

        self._warned = True
        click.echo(
            "Warning: no operator has observed the job yet. Is the Resile operator running in this "
            f"cluster, and does it watch namespace {self._job.namespace}? "
            f"Install it {HOW_TO_INSTALL}.",
            err=True,
        )


UNAUTHORIZED = 401


def user_message(error: Exception) -> str | None:
    """Return the message for the user; None for a bug of ours."""
    if isinstance(error, FileNotFoundError) and not _has_working_directory():
        return "the working directory was deleted; change to one that exists"
    if isinstance(error, ClusterUnavailable):
        return f"{user_message(error.cause)}; and {error.here}"
    if isinstance(error, (StateDirError, JobDirError, ClientError)):
        return str(error)
    if not isinstance(error, KubeError):
        return None
    if isinstance(error, ApiError) and error.status == UNAUTHORIZED:
        return (
            "the cluster refused the credentials (Unauthorized): those of this context are wrong "
            "or have expired"
        )
    return str(error)


def _has_working_directory() -> bool:
    try:
        return Path.cwd().is_dir()
    except FileNotFoundError:
        return False
