"""A job whose nodes are plain torchrun processes, and whose master is started separately."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from typing import Any

from resile.decoding import convert
from resile.job.training import TrainingView
from tests.local.commands import wait_for
from tests.local.jobs import SCRIPTS, Job, NodeProcess
from tests.local.wire.masters import bearer


class TorchrunJob(Job):
    """See :class:`tests.local.jobs.Job`."""

    def master(self, *flags: str) -> NodeProcess:
        """Start a master and wait until it listens."""
        master = self.launch_master(*flags)
        master.says("listening on")
        return master

    def launch_master(self, *flags: str) -> NodeProcess:
        """Start a master, without waiting for it."""
        command = [sys.executable, "-m", "resile", "master", "--endpoint", self.endpoint, *flags]
        return self._launch("master", command)

    def torchrun(
        self,
        *flags: str,
        nnodes: str = "1",
        nproc: int = 1,
        max_restarts: int = 3,
        script: str = "steps.py",
        **environment: str,
    ) -> NodeProcess:
        """Start one more node."""
        command = [
            *(sys.executable, "-m", "torch.distributed.run", "--rdzv-backend", "resile"),
            *("--rdzv-endpoint", self.endpoint, "--rdzv-id", "test"),
            *("--nnodes", nnodes, "--nproc-per-node", str(nproc)),
            *("--max-restarts", str(max_restarts), *flags, str(SCRIPTS / script)),
        ]
        return self._launch("torchrun", command, **environment)

    def _launch(self, name: str, command: list[str], **environment: str) -> NodeProcess:
        output_file = self.folder / f"{name}{len(self.nodes)}.log"
        with open(output_file, "wb") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self.env(**environment),
                start_new_session=True,
            )
        node = NodeProcess(process, output_file)
        self.nodes.append(node)
        return node

    def kill_node(self, node: NodeProcess) -> None:
        """Simulate the loss of a machine: kill all its processes at once."""
        node.kill()

    def status(self) -> TrainingView:
        """The job's status from its master, once one responds."""
        return convert(self._ask("/v1/status"), TrainingView)

    def events(self) -> list[dict[str, Any]]:
        """The events so far."""
        return list(self._ask("/v1/events"))

    def drain(self, node: int) -> None:
        """Make the master drain a node."""
        self._ask(f"/v1/nodes/{node}/drain", method="POST")

    def _ask(self, path: str, *, method: str = "GET") -> Any:
        (token,) = (self.folder / "home").glob("runs/*/token")
        request = urllib.request.Request(
            f"http://{self.endpoint}{path}",
            headers=bearer(token.read_text().strip()),
            method=method,
        )

        def answer() -> tuple[Any] | None:
            try:
                with urllib.request.urlopen(request, timeout=5) as said:
                    return (json.load(said),)
            except (urllib.error.URLError, OSError):
                return None

        return wait_for(answer, f"an answer to {path}")[0]

    def ends(self, phase: str) -> TrainingView:
        """Wait for the job's end in its master's status."""
        return wait_for(
            lambda: said if (said := self.status()).phase == phase else None,
            f"the phase '{phase}'",
        )
