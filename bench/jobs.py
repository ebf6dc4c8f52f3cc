"""A running job: start its agents, break something, wait for its records, end it.

Every wait is for a condition on the step records and has a timeout. A wait that times out, or
during which every agent exits, raises NoAnswer, whose message is shown in the result table; a
launcher that fails is a result, not an error of the bench.

Measurements use the times in the records, so the polling interval here adds nothing to them.
"""

import math
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from bench.launchers import HOST, Command, Launcher, Shape, Site, base_environment
from bench.processes import Processes, command_line, kill
from bench.timeline import Record, all_ranks_stepped, newest, parse

STEP_SECONDS = 0.02
LAUNCH_BOUND = 120.0
SERVICE_NODE = -1
_POLL = 0.1
_SERVICE_BOUND = 60.0

T = TypeVar("T")


class NoAnswer(Exception):
    """A wait timed out or can no longer succeed; the message says what happened instead."""


class Job:
    """A job under one launcher. Made by `running`, which also ends it."""

    def __init__(
        self, launcher: Launcher, *, site: Site, processes: Processes, libraries: str = ""
    ) -> None:
        self.launcher = launcher
        self.site = site
        self._processes = processes
        self._agents: dict[int, subprocess.Popen[bytes]] = {}
        self._events = site.folder / "events.jsonl"
        self._events.touch()
        ours = {
            "BENCH_EVENTS": str(self._events),
            "BENCH_STEP_SECONDS": str(STEP_SECONDS),
            "BENCH_IMPORTS": libraries,
            "TMPDIR": str(site.folder),  # launchers that are killed leave folders there
        }
        self._env = {**base_environment(), **ours}
        self._records: list[Record] = []
        self._read_to = 0
        self._rest = b""

    def start_service(self) -> None:
        """Start the launcher's service, where it has one, and wait until it listens."""
        command = self.launcher.service(self.site)
        if command is None:
            return
        self._start(command, node=SERVICE_NODE)
        self.wait_until_listening()

    def restart_master(self) -> float:
        """Restart a killed master, or wait until the agents have; return when it listens."""
        self.start_service()
        return self.wait_until_listening()

    def wait_until_listening(self) -> float:
        """Wait until something listens on the job's port; return the time at which it did."""
        return wait_until_listening(self.site.port)

    def start_agent(self, node: int) -> float:
        """Start the agent of one node; return the time of the start."""
        moment = time.monotonic()
        self._agents[node] = self._start(self.launcher.agent(self.site, node), node=node)
        return moment

    def kill_worker(self, rank: int) -> float:
        """SIGKILL the worker that currently has a rank; return the time of the kill."""
        return kill([newest(self.records())[rank].pid])

    def kill_node(self, node: int) -> float:
        """SIGKILL a node's agent and then its other processes; return the time of the first kill.

        A master that this node's agent started is not killed: it represents a process elsewhere.
        """
        del self._agents[node]
        masters = self.master_pids()
        return kill(pid for pid in self._processes.pids(node=node) if pid not in masters)

    def kill_master(self) -> float:
        """SIGKILL the job's master; return the time of the kill."""
        masters = self.master_pids()
        if not masters:
            raise NoAnswer("no master process found")
        return kill(masters)

    def master_pids(self) -> list[int]:
        """Pids of the job's master."""
        return [pid for pid in self.pids() if self.launcher.is_master(command_line(pid))]

    def pids(self) -> list[int]:
        """Pids of all running processes of the job, its service included."""
        return self._processes.pids()

    def records(self) -> list[Record]:
        """All steps recorded so far, in the order they were written."""
        with self._events.open("rb") as file:
            file.seek(self._read_to)
            chunk = file.read()
        self._read_to += len(chunk)
        records, self._rest = parse(self._rest + chunk)
        self._records += records
        return self._records

    def wait(self, question: Callable[[list[Record]], T | None], *, within: float) -> T:
        """Poll the records until ``question`` returns something other than None; return that."""
        deadline = time.monotonic() + within
        while True:
            exits = self._exits()
            answer = question(self.records())
            if answer is not None:
                return answer
            if exits is not None:
                raise self._no_answer(exits)
            if time.monotonic() > deadline:
                raise self._no_answer(f"no step in {within:g} s")
            time.sleep(_POLL)

    def wait_for_steps(self, *, world: int, steps: int = 1, within: float = LAUNCH_BOUND) -> float:
        """Wait until all ranks of a world of this size completed N steps; return that time."""
        return self.wait(
            lambda records: all_ranks_stepped(records, world=world, steps=steps), within=within
        )

    def wait_until(self, moment: float) -> None:
        """Let the job train until a point in time."""
        self.wait(lambda _: time.monotonic() >= moment or None, within=math.inf)

    def _no_answer(self, what: str) -> NoAnswer:
        return NoAnswer(what if self._records else f"training never began: {what}")

    def _exits(self) -> str | None:
        codes = [agent.poll() for agent in self._agents.values()]
        if not codes or None in codes:
            return None
        noun = "agent" if len(codes) == 1 else "agents"
        return f"{noun} exited ({', '.join(str(code) for code in codes)})"

    def _start(self, command: Command, *, node: int) -> subprocess.Popen[bytes]:
        name = "service" if node == SERVICE_NODE else f"agent-{node}"
        log = self.site.folder / f"{name}.log"
        env = {**self._env, **command.env}
        return self._processes.start(command.argv, env=env, node=node, log=log)


@contextmanager
def running(
    launcher: Launcher, shape: Shape, *, keep: Path | None = None, libraries: str = ""
) -> Iterator[Job]:
    """A job with its service up and no agent yet; on leaving, all its processes are killed.

    Its workers import `libraries`, names with spaces between them, beside torch.

    Its folder (records, logs) is temporary, or made inside `keep` and left there.
    """
    name = f"bench-{uuid.uuid4().hex[:8]}"
    with tempfile.TemporaryDirectory(prefix="resile-bench-") as temporary:
        folder = Path(temporary) if keep is None else keep / f"{launcher.name}-{name}"
        folder.mkdir(parents=True, exist_ok=True)
        port, spare = free_ports(2)
        site = Site(job=name, shape=shape, folder=folder, port=port, spare_port=spare)
        with Processes(name) as processes:
            job = Job(launcher, site=site, processes=processes, libraries=libraries)
            job.start_service()
            yield job


def wait_until_listening(port: int) -> float:
    """Wait until something listens on a port of this machine; return the time at which it did."""
    deadline = time.monotonic() + _SERVICE_BOUND
    while not _listens(port):
        if time.monotonic() > deadline:
            raise NoAnswer(f"nothing listened within {_SERVICE_BOUND:g} s")
        time.sleep(_POLL)
    return time.monotonic()


def free_ports(count: int) -> list[int]:
    """Ports of this machine that were free a moment ago."""
    sockets = [socket.create_server((HOST, 0)) for _ in range(count)]
    try:
        return [int(listener.getsockname()[1]) for listener in sockets]
    finally:
        for listener in sockets:
            listener.close()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0
