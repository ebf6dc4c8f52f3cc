"""The last thing a failed job prints: which worker failed first, where, when, and its own words."""

from __future__ import annotations

import json
import signal
from datetime import datetime
from pathlib import Path

from resile.wire.messages import FailureReport, JobDone, WorkerFailure


def failure_text(done: JobDone) -> str:
    """The report of a failed job, for people."""
    lines = ["", f"The job failed: {done.reason}."]
    if done.report is not None:
        lines += _first_failure(done.report)
    return "\n".join([*lines, ""])


def _first_failure(report: FailureReport) -> list[str]:
    failure = report.failure
    when = datetime.fromtimestamp(report.when).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    lines = [
        f"  failed first    rank {failure.rank} (local {failure.local_rank}), pid {failure.pid}",
        f"  on              node {report.node} ({report.name}), host {report.host}",
        f"  at              {when}",
        f"  how             {ending(failure)}",
    ]
    if report.others:
        lines.append(f"  others          {report.others} more failed after it")
    if failure.log:
        lines.append(f"  its output      {failure.log}")
    if failure.message:
        lines.append("  its last words")
        lines += [f"    {line}" for line in failure.message.splitlines()]
    return lines


def ending(failure: WorkerFailure) -> str:
    """How a worker ended, in words."""
    code = failure.exit_code
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return f"killed by {name} (exit code {128 - code})"
    if code == 0:
        return failure.message
    return f"exit code {code}"


def write_error_file(path: Path, report: FailureReport) -> None:
    """Pass the first failure on to whoever started this agent, in torchrun's format."""
    failure = report.failure
    content = {
        "message": {
            "message": f"rank {failure.rank} on node {report.node}: {ending(failure)}",
            "extraInfo": {
                "py_callstack": failure.message,
                "timestamp": str(int(report.when)),
            },
            "errorCode": failure.exit_code,
        }
    }
    path.write_text(json.dumps(content))
