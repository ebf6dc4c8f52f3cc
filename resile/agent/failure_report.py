"""The report on the end of a job, for the user and for the process that started this agent.

It is the last thing a failed job prints: which worker failed first, where, when and why.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path

from resile.decoding import decode_python_json
from resile.job.exits import NodeExitCode
from resile.job.training import Failure
from resile.system.processes import describe_exit
from resile.wire.failures import failure_view
from resile.wire.messages import FailureReport, JobDone, Outcome, WorkerFailure

log = logging.getLogger("resile.agent")


def report_job_end(done: JobDone, *, error_file: Path | None) -> int:
    """Log how the job ended; return this node's exit code. A failure is also written to
    ``error_file``, if there is one."""
    if done.outcome is Outcome.SUCCEEDED:
        log.info("the job succeeded")
        return 0
    if done.outcome is Outcome.STOPPED:
        log.info("the job was stopped: %s", done.reason)
        return NodeExitCode.DRAINED
    log.error("%s", failure_text(done))
    if error_file and done.report:
        write_error_file(error_file, done.report)
    return NodeExitCode.JOB_FAILED


def failure_text(done: JobDone) -> str:
    """The report on a failed job, for people."""
    what = (
        "This node failed, and the job continues without it"
        if done.others_go_on
        else "The job failed"
    )
    failure = None if done.report is None else failure_view(done.report)
    return "\n".join(["", report_text(what, done.reason, failure), ""])


def report_text(what: str, reason: str, failure: Failure | None) -> str:
    """A report of what failed and why, with the first failure if it is known; for people."""
    return "\n".join([f"{what}: {reason}.", *(_first_failure(failure) if failure else ())])


def _first_failure(failure: Failure) -> list[str]:
    when = failure.at.astimezone().strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    lines = [
        f"  failed first    rank {failure.rank} (local {failure.local_rank}), pid {failure.pid}",
        f"  on              node {failure.node_id} ({failure.node}), host {failure.host}",
        f"  at              {when}",
        f"  cause           {describe_failure(failure)}",
    ]
    if failure.others:
        lines.append(f"  others          {failure.others} more failed after it")
    if failure.log:
        lines.append(f"  log files       {failure.log}")
    if failure.message and failure.exit_code:
        lines.append("  last output")
        lines += [f"    {line}" for line in failure.message.splitlines()]
    return lines


def describe_failure(failure: WorkerFailure | Failure) -> str:
    """Describe how a worker ended."""
    return describe_exit(failure.exit_code) if failure.exit_code else failure.message


def write_error_file(path: Path, report: FailureReport) -> None:
    """Write the first failure to the error file of the process that started this agent.

    If that fails, the report is still on the console.
    """
    try:
        path.write_text(json.dumps(error_content(report)))
    except OSError as error:
        log.warning("the error file %s cannot be written: %s", path, error.strerror)


def error_content(report: FailureReport) -> dict[str, object]:
    """The first failure in the format of torch's ``record``: the worker's own error file with its
    exit code, as torchrun passes it on, or, if it wrote none, a description of its exit."""
    failure = report.failure
    recorded = _recorded(failure)
    message = recorded.get("message")
    if isinstance(message, dict):
        return {**recorded, "message": {**message, "errorCode": failure.exit_code}}
    if isinstance(message, str):
        return recorded
    return {
        "message": {
            "message": _headline(failure) or f"rank {failure.rank}: {describe_failure(failure)}",
            "extraInfo": {
                "py_callstack": failure.message,
                "timestamp": str(int(report.when)),
            },
            "errorCode": failure.exit_code,
        }
    }


def _recorded(failure: WorkerFailure) -> dict[str, object]:
    try:
        content = decode_python_json(failure.error_file.encode()) if failure.error_file else {}
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def _headline(failure: WorkerFailure) -> str:
    """The last line of a traceback, which names the error, as torch does."""
    lines = failure.message.splitlines()
    is_traceback = any(line.startswith("Traceback (most recent call last)") for line in lines)
    return lines[-1] if is_traceback else ""
