"""Real jobs for tests: `resile run` processes, their output, and the steps they take.

Tests wait for conditions; every process of a job is ended by pid when the test ends, and it is
checked that none is left.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from resile.wire.endpoint import free_port
from tests.local.commands import Command, wait_for

SCRIPTS = Path(__file__).parent / "scripts"


@dataclass(frozen=True)
class Step:
    """One line of the steps file."""

    what: str
    time: float
    round: int
    rank: int
    world: int
    pid: int
    step: int
    restarts: int


class NodeProcess(Command):
    """One `resile run`."""

    def family(self) -> list[psutil.Process]:
        """The agent and everything below it."""
        with suppress(psutil.NoSuchProcess):
            own = psutil.Process(self.pid)
            return [own, *own.children(recursive=True)]
        return []

    def kill(self) -> list[int]:
        """kill -9 of the agent and everything below it, at once; returns their pids."""
        family = self.family()
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        return [process.pid for process in family]


@dataclass
class Job:
    """One job on loopback, in a separate folder."""

    folder: Path
    port: int = field(default_factory=free_port)
    nodes: list[NodeProcess] = field(default_factory=list)
    seen: set[int] = field(default_factory=set)
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(
        self,
        *flags: str,
        script: str = "steps.py",
        args: tuple[str, ...] = (),
        nproc: int = 1,
        endpoint: bool = True,
        **environment: str,
    ) -> NodeProcess:
        """Start one more node."""
        number = len(self.nodes)
        output_file = self.folder / f"node{number}.log"
        command = [sys.executable, "-m", "resile", "run", "--nproc-per-node", str(nproc)]
        if endpoint:
            command += ["--rdzv-endpoint", self.endpoint]
        path = Path(script) if Path(script).is_absolute() else SCRIPTS / script
        with open(output_file, "wb") as output:
            process = subprocess.Popen(
                [*command, *flags, str(path), *args],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self.env(**environment),
                start_new_session=True,
            )
        node = NodeProcess(process, output_file)
        self.nodes.append(node)
        return node

    def env(self, **more: str) -> dict[str, str]:
        return {
            **os.environ,
            "RESILE_HOME": str(self.folder / "home"),
            "TMPDIR": str(self.folder),
            "XDG_CACHE_HOME": str(self.folder.parent / "resile-test-cache"),
            "STEPS_FILE": str(self.steps_file),
            "OMP_NUM_THREADS": "1",
            **self.environment,
            **more,
        }

    # --- what the workers did ---------------------------------------------------------------

    @property
    def steps_file(self) -> Path:
        return self.folder / "steps.jsonl"

    def records(self) -> list[Step]:
        if not self.steps_file.exists():
            return []
        lines = self.steps_file.read_text().splitlines(keepends=True)
        records = [Step(**json.loads(line)) for line in lines if line.endswith("\n")]
        self.seen.update(record.pid for record in records)
        return records

    def steps(self, *, round: int) -> list[Step]:
        return [r for r in self.records() if r.round == round and r.what == "step"]

    @property
    def round(self) -> int:
        """The latest round in which a step was taken; 0 for none."""
        return max((r.round for r in self.records() if r.what == "step"), default=0)

    def trains(self, *, world: int, after: int = 0, steps: int = 3) -> int:
        """Wait for a round later than ``after`` in which all ``world`` ranks take steps."""

        def found() -> int:
            by_round: dict[int, dict[int, int]] = {}
            for r in self.records():
                if r.what == "step" and r.round > after and r.world == world:
                    ranks = by_round.setdefault(r.round, {})
                    ranks[r.rank] = ranks.get(r.rank, 0) + 1
            full = [n for n, ranks in by_round.items() if _all_stepped(ranks, world, steps)]
            return max(full, default=0)

        try:
            return wait_for(found, f"a round after {after} with {world} workers")
        except AssertionError as error:
            logs = "\n".join(f"--- {n.output_file.name}\n{n.output[-3000:]}" for n in self.nodes)
            raise AssertionError(
                f"{error}\n{logs}\n--- master\n{self.master_log[-3000:]}"
            ) from None

    def goes_on(self, *, steps: int = 3) -> None:
        """Wait until more steps are taken than now."""
        latest = self.round
        before = len(self.steps(round=latest))
        wait_for(lambda: len(self.steps(round=latest)) >= before + steps, "more steps")

    def pid_of(self, rank: int, *, round: int | None = None) -> int:
        """The worker of a rank in the latest round."""
        number = round or self.round
        return next(r.pid for r in self.records() if r.round == number and r.rank == rank)

    # --- the master -------------------------------------------------------------------------

    def master_pids(self) -> list[int]:
        found = []
        for process in psutil.process_iter(["cmdline"]):
            words = process.info["cmdline"] or []
            if "master" in words and self.endpoint in words:
                found.append(process.pid)
        return found

    @property
    def master_log(self) -> str:
        logs = sorted((self.folder / "home").glob("runs/*/master.log"))
        return "\n".join(log.read_text(errors="replace") for log in logs)

    def kill_master(self) -> int:
        (pid,) = wait_for(self.master_pids, "a master")
        os.kill(pid, signal.SIGKILL)
        return pid

    # --- the end ----------------------------------------------------------------------------

    def close(self) -> None:
        """End everything by pid."""
        self.records()
        for node in self.nodes:
            node.kill()
            node.process.wait()
        for pid in [*self.master_pids(), *self.seen]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def leaves_nothing_behind(self, pids: list[int]) -> None:
        """Wait until none of these processes is left, nor a master."""
        wait_for(lambda: not any(is_alive(pid) for pid in pids), f"the end of {pids}")
        wait_for(lambda: not self.master_pids(), "the end of the master")


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _all_stepped(ranks: dict[int, int], world: int, steps: int) -> bool:
    return len(ranks) == world and all(count >= steps for count in ranks.values())


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    """A job that is ended with the test."""
    with closing(Job(tmp_path)) as made:
        yield made
