"""Whose pods' logs are read: nodes', or the master's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from resile.job.node import Node
from resile.platform.kubernetes.kinds import KubeObject
from resile.platform.kubernetes.labels import MASTER, NODE, master_labels, node_labels
from resile.platform.kubernetes.remote.podlogs import PodLogs, node_pictures

UID = "u"


def pod(name: str, labels: dict[str, str]) -> KubeObject:
    owners = [{"controller": True, "uid": UID, "kind": "ElasticJob"}]
    state = {"name": "main", "state": {"running": {"startedAt": "now"}}}
    return {
        "metadata": {"name": name, "namespace": "n", "labels": labels, "ownerReferences": owners},
        "spec": {"containers": [{"name": "main"}]},
        "status": {"phase": "Running", "containerStatuses": [state]},
    }


WORKER = Node(role="worker", rank=0, id=0, name="digits-worker-0")
PODS = [
    pod(WORKER.name, node_labels("digits", WORKER)),
    pod("digits-master-10", master_labels("digits")),
    pod("digits-master-9", master_labels("digits")),
]


@dataclass
class Listed:
    items: list[KubeObject]


class PretendClient:
    """An API server with these pods, each of which has printed its name."""

    async def list(self, _kind: Any, *, namespace: str, labels: str) -> Listed:
        assert namespace == "n"
        wanted = dict(part.split("=") for part in labels.split(","))
        found = [one for one in PODS if wanted.items() <= one["metadata"]["labels"].items()]
        return Listed(found)

    async def logs(self, name: str, _namespace: str, **_options: Any) -> AsyncIterator[bytes]:
        yield f"I am {name}\n".encode()


async def printed(component: str) -> list[tuple[str, str]]:
    client: Any = PretendClient()
    logs = PodLogs(
        client, ("n", "digits"), uid=UID, component=component, tail=None, warn=lambda _text: None
    )
    return [line async for batch in logs.so_far() for line in batch]


async def test_nodes_and_masters_are_told_apart_by_their_labels() -> None:
    assert await printed(NODE) == [("digits-worker-0", "I am digits-worker-0")]
    assert await printed(MASTER) == [
        ("digits-master-9", "I am digits-master-9"),
        ("digits-master-10", "I am digits-master-10"),
    ]


def test_a_master_has_no_rank() -> None:
    (_, first), *_ = node_pictures(PODS)
    assert (first.name, first.role, first.rank) == ("digits-master-9", MASTER, None)
