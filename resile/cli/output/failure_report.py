"""The report of a failed job: the first failure and the end of its log."""

from __future__ import annotations

from resile.agent.failure_report import report_text
from resile.job.node import NodePhase
from resile.job.status import JobStatus, NodeStatus
from resile.job.training import TrainingPhase
from resile.job.view import JobView
from resile.local.jobdir import JobDir

__all__ = ["failure_report", "training_report"]

LAST_LINES = 15
TAIL = 16 * 1024
"""Bytes read from a log's end: more than the shown lines of any traceback need."""


def training_report(view: JobView) -> str:
    """Return the master's report of every group whose training failed; empty if none did."""
    return "\n\n".join(
        report_text(_what(group), seen.reason, seen.failure)
        for group, seen in view.trainings.items()
        if seen.phase == TrainingPhase.FAILED
    )


def _what(group: str) -> str:
    return f"The training of group {group} failed" if group else "The job failed"


def failure_report(view: JobView, folder: JobDir) -> str:
    """Return why the job failed: the training's own report, or the end of the last node's log."""
    report = training_report(view)
    if report:
        return report
    lines = [f"The job failed: {view.message}."]
    culprit = _last_given_up(view.status) if view.status else None
    if culprit is not None:
        lines.append(f"  the last lines of {culprit.name}")
        lines += [f"    {line}" for line in _last_lines(folder, culprit.name)]
    return "\n".join(lines)


def _last_given_up(status: JobStatus) -> NodeStatus | None:
    failed = [rank for rank in status.nodes if rank.phase is NodePhase.FAILED and rank.ended_at]
    return max(failed, key=lambda rank: str(rank.ended_at), default=None)


def _last_lines(folder: JobDir, node: str) -> list[str]:
    size = next((file.size for file in folder.log_files() if file.node == node), 0)
    if not size:
        return ["(it printed nothing)"]
    text = folder.log(node, offset=max(0, size - TAIL)).decode(errors="replace")
    return text.splitlines()[-LAST_LINES:]
