"""The report of a failed job: the first failure and the end of its log."""

from __future__ import annotations

from resile.agent.report import failure_text
from resile.job.node import NodePhase
from resile.job.status import JobStatus, NodeStatus
from resile.platform.local.jobfolder import JobFolder
from resile.wire.messages import JobDone, Outcome
from resile.wire.views import JobPicture

__all__ = ["failure_report", "training_report"]

LAST_LINES = 15
TAIL = 16 * 1024
"""Bytes read from a log's end: more than so many lines of any traceback."""


def training_report(picture: JobPicture) -> str:
    """The master's report, if the training itself failed."""
    seen = picture.training
    if seen is None or seen.phase != Outcome.FAILED.value:
        return ""
    done = JobDone(outcome=Outcome.FAILED, reason=seen.reason, report=seen.report)
    return failure_text(done).strip("\n")


def failure_report(picture: JobPicture, folder: JobFolder) -> str:
    """Why the job failed: the training's own report, or the end of the log of the last node."""
    report = training_report(picture)
    if report:
        return report
    lines = [f"The job failed: {picture.message}."]
    culprit = _last_given_up(picture.status) if picture.status else None
    if culprit is not None:
        lines.append(f"  the last lines of {culprit.name}")
        lines += [f"    {line}" for line in _last_lines(folder, culprit.name)]
    return "\n".join(lines)


def _last_given_up(status: JobStatus) -> NodeStatus | None:
    failed = [rank for rank in status.nodes if rank.phase is NodePhase.FAILED and rank.ended_at]
    return max(failed, key=lambda rank: str(rank.ended_at), default=None)


def _last_lines(folder: JobFolder, node: str) -> list[str]:
    size = next((file.size for file in folder.log_files() if file.node == node), 0)
    if not size:
        return ["(it printed nothing)"]
    text = folder.log(node, offset=max(0, size - TAIL)).decode(errors="replace")
    return text.splitlines()[-LAST_LINES:]
