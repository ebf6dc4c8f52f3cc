"""Kill a worker, then a node, then the master of a real job, and watch it recover.

Starts `resile up` with two nodes of two workers each, which train on the digits. While they train,
this script announces each kill, sends SIGKILL by pid, and waits until all ranks take steps again.
At the end it prints the accuracy reached, and how long each fault interrupted training.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from resile.client.local import LocalJob
from resile.job.view import JobView
from resile.local.jobdir import JobDir
from resile.system.loop_thread import run_in_thread

HERE = Path(__file__).parent
PATIENCE = 60.0
STEPS = 700
MANIFEST = """
apiVersion: resile.dev/v1alpha1
kind: ElasticJob
metadata: {{name: demo}}
spec:
  maxRestarts: 10
  roles:
    worker:
      replicas: {{min: 1, max: 2}}
      procsPerNode: 2
      script: {script}
      args: [--steps, "{steps}", --pause, "0.02", --checkpoints, {folder}/checkpoints,
             --trace, {folder}/trace]
      resources: {{requests: {{cpu: 100m, memory: 512Mi}}, limits: {{memory: 2Gi}}}}
"""

console = Console(highlight=False)


@dataclass(frozen=True)
class Taken:
    """A step of one rank, from the script's trace."""

    at: float
    step: int
    rank: int
    world: int


@dataclass(frozen=True)
class Loss:
    """A kill, and its cost."""

    what: str
    seconds: float
    repeated: int
    world: int


class Demo:
    """A run of the job, with three faults."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.job = JobDir("demo")
        self.losses: list[Loss] = []
        manifest = folder / "job.yaml"
        script = HERE / "digits" / "train.py"
        manifest.write_text(MANIFEST.format(script=script, folder=folder, steps=STEPS))
        self.up = subprocess.Popen([sys.executable, "-m", "resile", "up", "--logs", str(manifest)])

    def view(self) -> JobView | None:
        """The job as its `up` shows it; None while it is not running."""
        if not self.job.running():
            return None
        return run_in_thread(LocalJob(self.job).view())

    def trace(self) -> list[Taken]:
        """All steps recorded so far."""
        path = self.folder / "trace"
        lines = path.read_text().splitlines() if path.exists() else []
        fields = [line.split() for line in lines if line.count(" ") == 3]
        return [Taken(float(t), int(s), int(r), int(w)) for t, s, r, w in fields]

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for a condition, unless the job ends first."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if self.up.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"demo: timed out waiting for {what}")
            time.sleep(0.01)

    def lose(self, what: str, victims: Callable[[], list[int]], *, world: int) -> None:
        """Kill the processes, then wait until all ``world`` ranks have taken a step."""
        pids = victims()
        console.print(f"\n[bold red]demo: kill -9 {what}[/] (pid {', '.join(map(str, pids))})")
        before = self.trace()
        killed_at = time.monotonic()
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        self.wait_for(lambda: len(self.first_steps(killed_at, world)) == world, "the next steps")
        resumed = self.first_steps(killed_at, world)
        cost = Loss(
            what=what,
            seconds=max(resumed.values(), key=lambda taken: taken.at).at - killed_at,
            repeated=max(0, before[-1].step + 1 - min(taken.step for taken in resumed.values())),
            world=world,
        )
        self.losses.append(cost)
        text = f"demo: all {world} workers step again after {cost.seconds:.2f} s"
        console.print(f"[bold green]{text}[/]\n")

    def first_steps(self, since: float, world: int) -> dict[int, Taken]:
        """Each rank's first step after ``since`` in a world of that size."""
        first: dict[int, Taken] = {}
        for taken in self.trace():
            if taken.at > since and taken.world == world:
                first.setdefault(taken.rank, taken)
        return first

    def agents(self) -> list[int]:
        """The pids of the nodes' agents, by rank."""
        view = self.view()
        nodes = sorted(view.nodes, key=lambda node: node.rank or 0) if view else []
        return [node.pid for node in nodes if node.pid]

    def a_worker(self) -> list[int]:
        """The pid of the last worker of the last node."""
        below = psutil.Process(self.agents()[-1]).children(recursive=True)
        return [p.pid for p in below if any("train.py" in word for word in p.cmdline())][-1:]

    def a_node(self) -> list[int]:
        """The pid of the last node's agent; its workers die with it."""
        return self.agents()[-1:]

    def the_master(self) -> list[int]:
        """The pid of the master."""
        below = psutil.Process(self.up.pid).children()
        return [p.pid for p in below if "master" in p.cmdline()]

    def train(self, *, world: int, steps: int) -> None:
        """Wait until a world of that size has taken this many steps from now on."""
        now = time.monotonic()

        def trained() -> bool:
            taken = [t for t in self.trace() if t.rank == 0 and t.world == world and t.at > now]
            return len(taken) >= steps

        self.wait_for(trained, f"{steps} steps of {world} workers")

    def run(self) -> int:
        """Cause the three faults, then wait for the end of the job."""
        self.train(world=4, steps=60)
        self.lose("a worker", self.a_worker, world=4)
        self.train(world=4, steps=60)
        self.lose("a whole node", self.a_node, world=2)
        console.print("demo: the node is replaced: same rank, new id")
        self.train(world=4, steps=60)
        self.lose("the master", self.the_master, world=4)
        return self.up.wait()

    def summary(self) -> None:
        """Print a table of the faults, and the result of the training."""
        table = Table(title="What was killed, and what it cost")
        for name in ("killed with SIGKILL", "all ranks step again after", "workers", "repeated"):
            table.add_column(name)
        for loss in self.losses:
            repeated = f"{loss.repeated} steps since the last snapshot" if loss.repeated else "-"
            table.add_row(loss.what, f"{loss.seconds:.2f} s", str(loss.world), repeated)
        console.print(table)
        steps = {taken.step for taken in self.trace()}
        missing = set(range(STEPS)) - steps
        left_out = f"{len(missing)} were" if missing else "none was"
        console.print(f"{len(steps)} steps were trained, {left_out} left out.")
        with_accuracy = [line for line in self.output() if "accuracy" in line]
        console.print(f"[bold]{with_accuracy[-1].strip()}[/]" if with_accuracy else "no accuracy?")

    def output(self) -> list[str]:
        """All lines that the nodes printed."""
        logs = [self.job.path / "logs" / f"{file.node}.log" for file in self.job.log_files()]
        return [line for log in logs for line in log.read_text(errors="replace").splitlines()]


def main() -> None:
    """Run the demo in a temporary folder, and clean up."""
    with tempfile.TemporaryDirectory(prefix="resile-demo-") as folder:
        os.environ["RESILE_HOME"] = str(Path(folder) / "home")
        demo = Demo(Path(folder))
        try:
            code = demo.run()
            demo.summary()
        finally:
            if demo.up.poll() is None:
                demo.up.send_signal(signal.SIGINT)
                demo.up.wait()
    raise SystemExit(code)


if __name__ == "__main__":
    main()
