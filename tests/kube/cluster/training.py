"""A job of `tests/local/scripts/trainer.py` in pods: it records every step, and a ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from resile.kube.client import KubeClient
from resile.kube.resources import ELASTIC_JOBS, KubeObject
from resile.operator.build.labels import ID, RANK
from tests.kube.cluster.target import TRAINING_IMAGE
from tests.kube.operator.stage import Stage, eventually
from tests.local.jobs import SCRIPTS
from tests.local.training import Trained

ENDLESS = 1_000_000


class ClusterJob(Stage):
    """The job ``train``, and the records of its workers in a shared folder."""

    name = "train"

    def __init__(self, client: KubeClient, folder: Path) -> None:
        super().__init__(client)
        self.folder = folder
        self.written = Trained(folder)

    def role(self, **changes: Any) -> dict[str, Any]:
        """Nodes with one worker each."""
        shared = [
            {"name": "scripts", "hostPath": {"path": str(SCRIPTS)}},
            {"name": "shared", "hostPath": {"path": str(self.folder)}},
        ]
        return {
            "replicas": 2,
            "image": TRAINING_IMAGE,
            "imagePullPolicy": "Always",
            "script": "/scripts/trainer.py",
            "volumes": shared,
            "volumeMounts": [
                {"name": "scripts", "mountPath": "/scripts", "readOnly": True},
                {"name": "shared", "mountPath": str(self.folder)},
            ],
            "env": {
                "STEPS": str(ENDLESS),
                "STEPS_FILE": str(self.folder / "steps.jsonl"),
                "CHECKPOINTS": str(self.folder / "checkpoints"),
                "RESULT": str(self.folder / "result"),
                "RESILE_LEDGER": str(self.folder / "ledger"),
                "PAUSE": "0.02",
                "OMP_NUM_THREADS": "1",
            },
            "terminationGracePeriodSeconds": 20,
            "resources": {"requests": {"cpu": "50m", "memory": "256Mi"}},
            **changes,
        }

    async def submit(self, *, spec: dict[str, Any] | None = None, **role: Any) -> KubeObject:
        manifest = {
            "metadata": {"name": self.name},
            "spec": {"maxRestarts": 10, "roles": {"worker": self.role(**role)}, **(spec or {})},
        }
        return await self.client.create(ELASTIC_JOBS, manifest)

    async def scale(self, size: int) -> None:
        body = {"spec": {"replicas": size}}
        await self.client.patch(ELASTIC_JOBS, self.name, body, subresource="scale")

    async def trains(self, *, world: int, after: int = 0) -> int:
        """Wait for a round later than ``after`` in which this many workers take steps."""

        async def look() -> int:
            by_round: dict[int, dict[int, int]] = {}
            for one in self.written.records():
                if one.what == "step" and one.round > after and one.world == world:
                    ranks = by_round.setdefault(one.round, {})
                    ranks[one.rank] = ranks.get(one.rank, 0) + 1
            full = [
                number
                for number, ranks in by_round.items()
                if len(ranks) == world and min(ranks.values()) >= 3
            ]
            return max(full, default=0)

        return await eventually(look, f"a round after {after} with {world} workers", patience=180)

    async def goes_on(self) -> None:
        """Wait until more steps are taken than now."""
        before = len(self.written.records())

        async def look() -> bool:
            return len(self.written.records()) > before + 12

        await eventually(look, "more steps")

    async def goes_further(self, *, world: int) -> None:
        """Wait until this many workers take steps beyond all earlier ones; also under a master that
        does not know the earlier rounds."""
        done = max(one.step for one in self.written.records() if one.what == "step")

        async def look() -> bool:
            new = [one for one in self.written.records() if one.what == "step" and one.step > done]
            return len({one.rank for one in new if one.world == world}) == world

        await eventually(look, f"{world} workers to go further than step {done}", patience=180)

    async def finish(self) -> None:
        """Have all workers end after the same step, and the job succeed."""
        (self.folder / "finish").touch()
        await self.has_phase(self.name, "Succeeded")

    def proof(self) -> None:
        """Check that no sample was missed or repeated in any epoch that was begun."""
        done = max(one.step for one in self.written.records() if one.what == "step") + 1
        self.written.each_sample_counts_once(steps=done)

    async def worker(self, rank: int) -> KubeObject:
        """The current pod of a rank; ended ones may still exist."""

        async def look() -> list[KubeObject]:
            pods = await self.pods(self.name)
            return [pod for pod in pods if pod["metadata"]["labels"][RANK] == str(rank)]

        found = await eventually(look, f"a pod of rank {rank}")
        return max(found, key=lambda pod: int(pod["metadata"]["labels"][ID]))


def apart() -> dict[str, Any]:
    """Anti-affinity that puts the nodes of the job on different machines."""
    term = {
        "labelSelector": {"matchLabels": {"resile.dev/component": "node"}},
        "topologyKey": "kubernetes.io/hostname",
    }
    rule = {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 100, "podAffinityTerm": term}
        ]
    }
    return {"spec": {"affinity": {"podAntiAffinity": rule}}}
