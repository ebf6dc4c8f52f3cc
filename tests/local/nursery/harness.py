"""Runs a command in a fresh process and in a nursery, with results in the same form."""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from resile.agent.nursery import (
    CommandKind,
    Nursery,
    NurseryPolicy,
    Preload,
    Worker,
    WorkerCommand,
    WorkerSpec,
)

PATIENCE = 60.0


@dataclass(frozen=True)
class Outcome:
    """The exit code and output of a process."""

    returncode: int
    stdout: str
    stderr: str


@dataclass
class Running:
    """A worker whose output goes to files."""

    worker: Worker
    stdout: Path
    stderr: Path

    async def outcome(self) -> Outcome:
        returncode = await asyncio.wait_for(self.worker.wait(), PATIENCE)
        return Outcome(returncode, self.stdout.read_text(), self.stderr.read_text())

    async def printed(self, text: str) -> None:
        await until(lambda: text in self.stdout.read_text())


@dataclass
class NurseryHarness:
    """A nursery for one command in one folder, with the environment it needs."""

    folder: Path
    command: WorkerCommand
    env: dict[str, str]
    preload: Preload = field(default_factory=Preload)
    policy: NurseryPolicy = field(default_factory=NurseryPolicy)
    nursery: Nursery = field(init=False)
    born: int = 0

    def __post_init__(self) -> None:
        self.nursery = Nursery(
            command=self.command,
            env=self.env,
            cwd=str(self.folder),
            preload=self.preload,
            policy=self.policy,
        )

    async def spawn(self, count: int = 1, **variables: str) -> list[Running]:
        """Start workers with ranks and these further variables."""
        outputs = [self._outputs() for _ in range(count)]
        with _opened(outputs) as files:
            workers = await self.nursery.spawn(
                [
                    self.spec(streams, {"RANK": str(rank), **variables})
                    for rank, streams in enumerate(files)
                ]
            )
        return [Running(worker, *outputs[rank]) for rank, worker in enumerate(workers)]

    async def spawn_on(self, terminal: int) -> Worker:
        """Start a worker whose three streams are one descriptor."""
        (worker,) = await self.nursery.spawn([self.spec((terminal,) * 3, {})])
        return worker

    def spec(self, streams: tuple[int, int, int], variables: dict[str, str]) -> WorkerSpec:
        stdin, stdout, stderr = streams
        return WorkerSpec(
            command=self.command,
            env={**self.env, **variables},
            cwd=str(self.folder),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
        )

    async def run(self, **variables: str) -> Outcome:
        """Start one worker and wait for its end."""
        (running,) = await self.spawn(1, **variables)
        return await running.outcome()

    def run_fresh(self, **variables: str) -> Outcome:
        """Run the same command in a fresh process."""
        process = subprocess.run(
            self.command.argv(),
            env={**self.env, "RANK": "0", **variables},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            start_new_session=True,
            timeout=PATIENCE,
            check=False,
        )
        return Outcome(process.returncode, process.stdout, process.stderr)

    def _outputs(self) -> tuple[Path, Path]:
        self.born += 1
        folder = self.folder.parent / "output"
        folder.mkdir(exist_ok=True)
        return folder / f"{self.born}.out", folder / f"{self.born}.err"


@contextmanager
def _opened(outputs: Sequence[tuple[Path, Path]]) -> Iterator[list[tuple[int, int, int]]]:
    """Open an empty input and two files for each worker."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_TRUNC
    null = os.open(os.devnull, os.O_RDONLY)
    files = [(null, os.open(stdout, flags), os.open(stderr, flags)) for stdout, stderr in outputs]
    try:
        yield files
    finally:
        os.close(null)
        for _, stdout, stderr in files:
            os.close(stdout)
            os.close(stderr)


def script(target: str, *args: str, flags: tuple[str, ...] = ("-u",)) -> WorkerCommand:
    return WorkerCommand(kind=CommandKind.SCRIPT, target=target, args=args, flags=flags)


def module(target: str, *args: str) -> WorkerCommand:
    return WorkerCommand(kind=CommandKind.MODULE, target=target, args=args)


def executable(target: str, *args: str) -> WorkerCommand:
    return WorkerCommand(kind=CommandKind.EXECUTABLE, target=target, args=args)


def environment(folder: Path) -> dict[str, str]:
    """Return a small environment with a separate cache."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return {**kept, "OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": str(folder / "cache")}


@asynccontextmanager
async def nursery_for(
    folder: Path,
    command: WorkerCommand,
    *,
    preload: Preload | None = None,
    policy: NurseryPolicy | None = None,
    env: dict[str, str] | None = None,
) -> AsyncIterator[NurseryHarness]:
    """Start a nursery in `folder/work` and close it in the end."""
    work = folder / "work"
    work.mkdir(exist_ok=True)
    harness = NurseryHarness(
        work,
        command,
        {**environment(folder), **(env or {})},
        preload or Preload(),
        policy or NurseryPolicy(),
    )
    await harness.nursery.start()
    try:
        yield harness
    finally:
        await harness.nursery.close()


async def until(condition: Callable[[], object], patience: float = PATIENCE) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, "timed out"
        await asyncio.sleep(0.01)


def is_alive(pid: int) -> bool:
    """Whether a process runs: a zombie does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
