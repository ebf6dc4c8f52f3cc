"""A job that is moved: its volume, its hooks, and the runs before and after."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from tests.local.commands import PATIENCE, wait_for
from tests.local.jobs import SCRIPTS, Job, NodeProcess, Step

SCRIPT = Path(__file__).parent / "scripts" / "trainer.py"
STEPS = 60
FAR = 100_000
"""More steps than any run of a test reaches."""


class Moved(Job):
    """Runs of the script in this folder, one after the other, on one volume."""

    @property
    def volume(self) -> Path:
        return self.folder / "volume"

    @property
    def signal(self) -> str:
        return (self.volume / "signal").read_text()

    @property
    def saved(self) -> dict[str, Any]:
        found = torch.load(self.volume / "migration.pth", weights_only=True)
        assert isinstance(found, dict)
        return found

    def env(self, **more: str) -> dict[str, str]:
        return super().env(
            **{
                "MIGRATION_CKPT_PATH": str(self.volume / "migration.pth"),
                "MIGRATION_SIGNAL_PATH": str(self.volume / "signal"),
                "RESULT": str(self.folder / "result"),
                "STEPS": str(STEPS),
                "PYTHONPATH": str(SCRIPTS),
                "GLOO_SOCKET_IFNAME": "lo",
                **more,
            }
        )

    def train(
        self, *flags: str, nproc: int = 2, script: Path = SCRIPT, **environment: str
    ) -> NodeProcess:
        """Start one more run, in a separate folder, as in another pod."""
        self.steps_file.touch()
        pod = self.folder / f"pod{len(self.nodes)}"
        pod.mkdir()
        self.forget_steps()
        return self.start(
            *flags,
            script=str(script),
            nproc=nproc,
            endpoint="--nnodes" in flags,
            cwd=str(pod),
            **environment,
        )

    def torchrun(self, *flags: str, nproc: int = 2, **environment: str) -> NodeProcess:
        """The same with torchrun as the launcher."""
        return self._launch(
            *("-m", "torch.distributed.run", *flags, "--nproc-per-node", str(nproc)),
            *("--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", str(SCRIPT)),
            **environment,
        )

    def spawned(self, **environment: str) -> NodeProcess:
        """The same without a launcher: a script starts two workers itself."""
        return self._launch(str(SCRIPT.with_name("spawning.py")), **environment)

    def _launch(self, *arguments: str, **environment: str) -> NodeProcess:
        self.forget_steps()
        output_file = self.folder / f"node{len(self.nodes)}.log"
        with open(output_file, "wb") as output:
            process = subprocess.Popen(
                [sys.executable, *arguments],
                env=self.env(API="resile", **environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        node = NodeProcess(process, output_file)
        self.nodes.append(node)
        return node

    def forget_steps(self) -> None:
        """Clear the steps file; earlier runs' records are kept only in ``seen``."""
        self.records()
        self.steps_file.unlink(missing_ok=True)

    def start(self, *flags: str, cwd: str = ".", **settings: Any) -> NodeProcess:
        here = Path.cwd()
        os.chdir(cwd)
        try:
            return super().start(*flags, **settings)
        finally:
            os.chdir(here)

    def reached(self, step: int, *, world: int = 2) -> None:
        """Wait until all ranks of the newest run have done a step."""
        node = self.nodes[-1]

        def everybody() -> bool:
            ranks = {r.rank for r in self.records() if r.what == "step" and r.step >= step}
            return len(ranks) == world or node.process.poll() is not None

        wait_for(everybody, f"step {step}")
        assert node.process.poll() is None, node.output

    def hook(self, name: str, *flags: str) -> subprocess.CompletedProcess[str]:
        """Run `resile prestop` or `resile poststart` to its end."""
        return subprocess.run(
            [sys.executable, "-m", "resile", name, *flags],
            env=self.env(),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def stop(self) -> int:
        """Make the newest run save; returns the last step that it did."""
        done = self.hook("prestop", "--timeout", "50")
        assert done.returncode == 0, done.stderr + self.nodes[-1].output
        assert self.nodes[-1].wait() == 0, self.nodes[-1].output
        return max(r.step for r in self.records() if r.what == "stepped")

    def beginnings(self) -> list[tuple[str, int]]:
        """Whether each rank of the newest run started fresh or resumed, and its first step."""
        return [(r.what, r.step) for r in self._begun()]

    def _begun(self) -> list[Step]:
        return [r for r in self.records() if r.what in ("fresh", "resumed")]

    @property
    def result(self) -> str:
        return (self.folder / "result").read_text()


__all__ = ["FAR", "STEPS", "Moved"]
