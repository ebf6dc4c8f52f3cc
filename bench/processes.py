"""Start the processes of a benchmark, find them again and kill them by pid.

Every process gets BENCH_JOB (one value per job) and BENCH_NODE in its environment, and everything
it starts inherits them: workers, helpers, a master that outlives its agent. /proc/<pid>/environ
shows the environment a program was started with and a fork keeps it, so a scan finds all processes
of a job, or of one of its nodes, also those adopted by init. No other process is ever signalled.

Linux only. A process that starts others with an empty environment would escape the scan; none of
the launchers measured here does.
"""

import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

JOB_MARK = "BENCH_JOB"
NODE_MARK = "BENCH_NODE"
_GONE_WITHIN = 10.0
_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


class Processes:
    """The processes of one job. Leaving the context kills all of them, whatever happened."""

    def __init__(self, job: str) -> None:
        self._job = job
        self._started: list[subprocess.Popen[bytes]] = []

    def start(
        self, argv: Sequence[str], *, env: Mapping[str, str], node: int, log: Path
    ) -> subprocess.Popen[bytes]:
        """Start a program in its own session, with its output in a file."""
        marks = {JOB_MARK: self._job, NODE_MARK: str(node)}
        with log.open("ab") as output:
            process = subprocess.Popen(
                argv,
                env={**env, **marks},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._started.append(process)
        return process

    def pids(self, *, node: int | None = None) -> list[int]:
        """Pids of the running processes of the job, or of one node, in ascending order."""
        wanted = {f"{JOB_MARK}={self._job}".encode()}
        if node is not None:
            wanted.add(f"{NODE_MARK}={node}".encode())
        return [pid for pid in _all_pids() if wanted <= _environment(pid) and is_running(pid)]

    def kill_all(self) -> None:
        """Kill until no process of the job is left; a dying agent may still have started one."""
        deadline = time.monotonic() + _GONE_WITHIN
        while pids := self.pids():
            kill(pids)
            if time.monotonic() > deadline:
                raise ProcessesRemain(pids)
            time.sleep(0.02)
        for process in self._started:
            process.wait()

    def __enter__(self) -> "Processes":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill_all()


class ProcessesRemain(RuntimeError):
    """Processes of a job were still running long after SIGKILL."""

    def __init__(self, pids: Sequence[int]) -> None:
        super().__init__(f"still running {_GONE_WITHIN:g} s after SIGKILL: {list(pids)}")


def kill(pids: Iterable[int]) -> float:
    """SIGKILL all of them back to back, in the given order; return the time of the first."""
    moment = time.monotonic()
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return moment


def command_line(pid: int) -> list[str]:
    """The arguments a process was started with; empty when it is gone."""
    return [part.decode(errors="replace") for part in _read(pid, "cmdline").split(b"\0") if part]


def cpu_seconds(pid: int) -> float:
    """CPU time used so far in user and kernel mode, 0 when the process is gone."""
    fields = _status_fields(pid)
    return (int(fields[11]) + int(fields[12])) / _CLOCK_TICKS if fields else 0.0


def parent(pid: int) -> int | None:
    """The parent's pid, None when the process is gone."""
    fields = _status_fields(pid)
    return int(fields[1]) if fields else None


def is_running(pid: int) -> bool:
    """Whether the process exists and has not ended."""
    fields = _status_fields(pid)
    return bool(fields) and fields[0] not in (b"Z", b"X")


def _status_fields(pid: int) -> list[bytes]:
    """/proc/<pid>/stat after the program's name, which may itself hold spaces and brackets."""
    return _read(pid, "stat").rpartition(b")")[2].split()


def _environment(pid: int) -> set[bytes]:
    return set(_read(pid, "environ").split(b"\0"))


def _all_pids() -> list[int]:
    return sorted(int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""
