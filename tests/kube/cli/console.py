"""Run commands as a user types them, in separate processes that start fast."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.warm_commands import resile_command


@dataclass
class Console:
    """A terminal on a machine with an empty home."""

    folder: Path
    kubeconfig: str | None = None
    more: dict[str, str] = field(default_factory=dict)
    """Further environment variables."""

    real: bool = False
    """Whether commands start as `python -m resile`, with all its imports."""

    def command(self) -> Sequence[str]:
        return (sys.executable, "-m", "resile") if self.real else resile_command()

    def env(self) -> dict[str, str]:
        kept = {name: text for name, text in os.environ.items() if name != "KUBECONFIG"}
        named = {"KUBECONFIG": self.kubeconfig} if self.kubeconfig else {}
        home = {"HOME": str(self.folder), "RESILE_HOME": str(self.folder / "resile")}
        return {**kept, **home, **named, **self.more}

    def write(self, manifest: dict[str, Any]) -> str:
        path = self.folder / "job.json"
        path.write_text(json.dumps(manifest))
        return str(path)

    async def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, without blocking the test's event loop."""
        return await asyncio.to_thread(
            subprocess.run,
            [*self.command(), *words],
            capture_output=True,
            text=True,
            env=self.env(),
            cwd=self.folder,
            timeout=120,
            check=False,
        )

    async def says(self, *words: str) -> str:
        """Return the output of a command that must succeed and print no errors."""
        done = await self.run(*words)
        assert done.returncode == 0, done.stderr
        assert not done.stderr, done.stderr
        return done.stdout

    async def refuses(self, *words: str) -> str:
        """Return the errors of a command that must fail."""
        done = await self.run(*words)
        assert done.returncode != 0, done.stdout
        assert "Traceback" not in done.stderr, done.stderr
        return done.stderr

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a command that keeps running."""
        return subprocess.Popen(
            [*self.command(), *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.env(),
            cwd=self.folder,
        )


async def reads(process: subprocess.Popen[str], ending: str, *, within: float = 60.0) -> list[str]:
    """Read the output of a command up to a line with this ending."""
    lines: list[str] = []
    while not lines or not lines[-1].endswith(ending):
        assert process.stdout is not None
        line = await asyncio.wait_for(asyncio.to_thread(process.stdout.readline), within)
        assert line, f"it ended with {lines}"
        lines.append(line.rstrip("\n"))
    return lines
