"""`--preload check`: run a script in cold and in warm workers and compare the results.

Two cold runs show what differs between any two processes: times, unseeded generators. Two warm runs
follow, the second from a nursery that has learned from the first. A difference is reported if both
cold runs agree and a warm one does not, or if random generators differ between the cold runs and
are the same in both warm ones: state that workers share and should not.
"""

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resile.decoding import decode_python_json
from resile.system.processes import describe_exit
from resile.system.regular_files import read_regular_file

from .errors import NurseryError
from .inside.variables import is_per_worker
from .inside.worker_start import EXIT_REPORT_VARIABLE
from .nursery import Nursery
from .options import Preload, PreloadMode
from .worker import WorkerCommand, WorkerSpec

_MISSING = "(nothing)"
_LARGEST = 64 * 1024 * 1024
"""Bytes of a report: a thousand times that of a large script."""


class CheckFailed(NurseryError):
    """Raised if the script does not run to its end, so that there is nothing to compare."""


@dataclass(frozen=True)
class Difference:
    """A value that is different in a warm worker and in a fresh process."""

    where: str
    cold: str
    warm: str

    def __str__(self) -> str:
        return f"{self.where}: {self.cold} when cold, {self.warm} when warm"


@dataclass(frozen=True)
class CheckResult:
    """The result of a check.

    Attributes:
        why_cold: why the warm workers were not warm; empty if they were.
    """

    differences: tuple[Difference, ...]
    why_cold: str


async def check_preload(
    command: WorkerCommand, *, env: Mapping[str, str], cwd: str, port: int
) -> CheckResult:
    """Run a command four times as the only worker of a job, and compare the runs."""
    place = {
        "RANK": "0",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "1",
        "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    with tempfile.TemporaryDirectory(prefix="resile-check-") as folder:
        check = _Check(command, {**env, **place}, cwd, Path(folder))
        async with check.nursery(Preload(PreloadMode.NONE)) as nursery:
            cold = [await check.run(nursery), await check.run(nursery)]
        async with check.nursery(Preload()) as nursery:
            warm = [await check.run(nursery)]
            await nursery.learn()
            warm.append(await check.run(nursery))
        return CheckResult(tuple(compare(cold, warm)), check.why_cold)


class _Check:
    def __init__(
        self, command: WorkerCommand, env: Mapping[str, str], cwd: str, folder: Path
    ) -> None:
        self._command = command
        self._env = env
        self._cwd = cwd
        self._folder = folder
        self.why_cold = ""

    @asynccontextmanager
    async def nursery(self, preload: Preload) -> AsyncIterator[Nursery]:
        nursery = Nursery(command=self._command, env=self._env, cwd=self._cwd, preload=preload)
        await nursery.start()
        try:
            yield nursery
        finally:
            await nursery.close()

    async def run(self, nursery: Nursery) -> dict[str, Any]:
        """Run one worker to its end and return its report."""
        run = Path(tempfile.mkdtemp(dir=self._folder))
        streams = [os.open(os.devnull, os.O_RDONLY)]
        streams += [os.open(run / name, os.O_WRONLY | os.O_CREAT) for name in ("out", "err")]
        spec = WorkerSpec(
            command=self._command,
            env={**self._env, EXIT_REPORT_VARIABLE: str(run / "report")},
            cwd=self._cwd,
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
        )
        try:
            (worker,) = await nursery.spawn([spec])
        finally:
            for stream in streams:
                os.close(stream)
        returncode = await worker.wait()
        self.why_cold = worker.reason
        return await asyncio.to_thread(_read, run, returncode)


def _read(run: Path, returncode: int) -> dict[str, Any]:
    output = (run / "out").read_text(errors="replace").splitlines()
    errors = (run / "err").read_text(errors="replace").splitlines()
    try:
        report = decode_python_json(read_regular_file(run / "report", limit=_LARGEST))
    except FileNotFoundError:
        last = errors[-1] if errors else "it printed no error"
        raise CheckFailed(
            f"the script {describe_exit(returncode)} before it wrote its report: {last}"
        ) from None
    return {**report, "exit code": returncode, "output": output, "errors": errors}


def compare(cold: list[dict[str, Any]], warm: list[dict[str, Any]]) -> list[Difference]:
    """Return the differences that only warm runs show, and generators that only they share."""
    first, second = (_flat(run) for run in cold)
    warm_first, warm_second = (_flat(run) for run in warm)
    differences = []
    for where in sorted({*first, *second, *warm_first, *warm_second}):
        one, other = first.get(where, _MISSING), second.get(where, _MISSING)
        hot, hotter = warm_first.get(where, _MISSING), warm_second.get(where, _MISSING)
        if one == other:
            strange = [value for value in (hot, hotter) if value != one]
            if strange:
                differences.append(Difference(where, one, strange[0]))
        elif hot == hotter and where.startswith("random generators"):
            differences.append(Difference(where, "different in each process", "always the same"))
    return differences


def _flat(report: Mapping[str, Any]) -> dict[str, str]:
    """Flatten a report to one value per name, prefixed with its section."""
    flat = {}
    for section, content in report.items():
        if isinstance(content, dict):
            compared = {
                name: value for name, value in content.items() if _is_compared(section, name)
            }
            flat.update({f"{section}: {name}": str(value) for name, value in compared.items()})
        else:
            flat[section] = str(content)
    return flat


def _is_compared(section: str, name: str) -> bool:
    """Whether a value is compared. Variables of a worker's place differ on purpose, and some of
    Python's own modules are loaded by our code in both kinds of workers."""
    if section == "modules":
        return name.partition(".")[0] not in {*sys.stdlib_module_names, "_resile_nursery"}
    return section != "environment" or not is_per_worker(name)
