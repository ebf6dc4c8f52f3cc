"""Events in the format of torch's elastic agent (``--event-log-handler``).

torch records how workers start and end, and how its agent ends, as JSON objects; its handler
``console`` writes each as a line to standard error. Ours are the same objects.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Mapping

from resile.wire.messages import Start, WorkerFailure

__all__ = ["CONSOLE", "TorchEvents"]

CONSOLE = "console"
"""The handler that writes; all others that torch knows drop events."""


class TorchEvents:
    """Records the events of one agent. ``write`` gets each as a line."""

    def __init__(
        self, handler: str, *, run_id: str, role: str, program: str, write: Callable[[bytes], None]
    ) -> None:
        self._write = write if handler == CONSOLE else None
        self._run_id = run_id
        self._role = role
        self._program = program
        self._began = time.monotonic()
        self._start: Start | None = None
        self._pids: Mapping[int, int] = {}
        self._failures: dict[int, WorkerFailure] = {}

    def started(self, start: Start, pids: Mapping[int, int]) -> None:
        """Record that the workers of a round run; ``pids``: their ranks by process id."""
        self._start, self._pids, self._failures = start, dict(pids), {}
        for pid, rank in self._pids.items():
            self._record("START", rank=rank, pid=pid)

    def failed(self, failures: tuple[WorkerFailure, ...]) -> None:
        """Note that workers of this node failed."""
        self._failures = {failure.rank: failure for failure in failures}

    def ended(self, *, succeeded: bool) -> None:
        """Record that the job is over."""
        for pid, rank in self._pids.items():
            failure = self._failures.get(rank)
            lost = "FAILED" if failure else "TERMINATED"
            self._record("SUCCEEDED" if succeeded else lost, rank=rank, pid=pid, failure=failure)
        self._record("SUCCEEDED")

    def interrupted(self, why: str) -> None:
        """Record that this agent ends before the job."""
        self._record("FAILED", error=why)

    def _record(
        self,
        state: str,
        *,
        rank: int | None = None,
        pid: int | None = None,
        failure: WorkerFailure | None = None,
        error: str | None = None,
    ) -> None:
        if self._write is None:
            return
        event = {
            "name": f"torchelastic.worker.status.{state}",
            "source": "AGENT" if rank is None else "WORKER",
            "timestamp": 0,
            "metadata": {
                "run_id": self._run_id,
                "global_rank": rank,
                "group_rank": self._start.group_rank if self._start else None,
                "worker_id": None if pid is None else str(pid),
                "role": self._role,
                "hostname": socket.getfqdn(),
                "state": state,
                "total_run_time": int(time.monotonic() - self._began),
                "rdzv_backend": "resile",
                "raw_error": _raw_error(failure) if failure else error,
                "metadata": json.dumps(self._details(rank, failure)),
                "agent_restarts": self._start.restart_count if self._start else 0,
                "duration_ms": None,
            },
        }
        self._write(json.dumps(event).encode() + b"\n")

    def _details(self, rank: int | None, failure: WorkerFailure | None) -> dict[str, object]:
        start = self._start
        details: dict[str, object] = {
            "group_world_size": start.group_world_size if start else None,
            "entry_point": self._program,
        }
        if rank is not None and start is not None:
            # torch has these in lists of one.
            details["local_rank"] = [rank - start.first_rank]
            details["role_rank"] = [rank]
            details["role_world_size"] = [start.world_size]
            details["exit_code"] = [failure.exit_code if failure else None]
            details["worker_pid"] = [failure.pid if failure else None]
        return details


def _raw_error(failure: WorkerFailure) -> str:
    return failure.error_file or json.dumps({"message": failure.message or "<NONE>"})
