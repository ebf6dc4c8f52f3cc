"""Selecting the pods whose logs are read: nodes', or the master's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from resile.client.cluster import pod_logs
from resile.client.cluster.pod_logs import PodLogs, node_views
from resile.job.node import Node
from resile.kube.resources import ELASTIC_JOBS, KubeObject
from resile.operator.build.labels import MASTER, NODE, master_labels, node_labels

UID = "u"


def pod(name: str, labels: dict[str, str]) -> KubeObject:
    owners = [{"controller": True, "uid": UID, "kind": "ElasticJob"}]
    state = {"name": "main", "state": {"running": {"startedAt": "now"}}}
    own = {"name": name, "namespace": "n", "uid": f"uid-of-{name}"}
    return {
        "metadata": {**own, "labels": labels, "ownerReferences": owners},
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


class Kubelets(bytes):
    """A kubelet's own message, in a log or in place of one."""


def stamped(piece: bytes) -> bytes:
    """Add timestamps, like a kubelet does to the lines of a program."""
    if isinstance(piece, Kubelets):
        return piece
    return b"".join(b"2024-03-09T23:59:58.1Z " + line for line in piece.splitlines(keepends=True))


@dataclass
class PretendClient:
    """An API server with these pods, each of which has printed its name, or ``said``."""

    said: dict[str, list[bytes]] = field(default_factory=dict)

    async def list(self, _kind: Any, *, namespace: str, labels: str) -> Listed:
        assert namespace == "n"
        wanted = dict(part.split("=") for part in labels.split(","))
        found = [one for one in PODS if wanted.items() <= one["metadata"]["labels"].items()]
        return Listed(found)

    async def get(self, kind: Any, name: str, _namespace: str) -> KubeObject:
        if kind is ELASTIC_JOBS:
            return {"metadata": {"name": name, "uid": UID}, "status": {"phase": "Succeeded"}}
        (found,) = (one for one in PODS if one["metadata"]["name"] == name)
        return {**found, "status": {"phase": "Failed"}}

    async def logs(
        self, name: str, _namespace: str, *, timestamps: bool = False, **_options: Any
    ) -> AsyncIterator[bytes]:
        for piece in self.said.get(name, [f"I am {name}\n".encode()]):
            yield stamped(piece) if timestamps else piece


async def printed(
    component: str, *said: bytes, follow: bool = False, warnings: list[str] | None = None
) -> list[tuple[str, str]]:
    client: Any = PretendClient({WORKER.name: list(said)} if said else {})
    warn = (lambda _text: None) if warnings is None else warnings.append
    logs = PodLogs(client, ("n", "digits"), uid=UID, component=component, tail=None, warn=warn)
    batches = logs.follow() if follow else logs.so_far()
    return [line async for batch in batches for line in batch]


async def test_nodes_and_masters_are_told_apart_by_their_labels() -> None:
    assert await printed(NODE) == [("digits-worker-0", "I am digits-worker-0")]
    assert await printed(MASTER) == [
        ("digits-master-9", "I am digits-master-9"),
        ("digits-master-10", "I am digits-master-10"),
    ]


def test_a_master_has_no_rank() -> None:
    (_, first), *_ = node_views(PODS)
    assert (first.name, first.role, first.rank) == ("digits-master-9", MASTER, None)


# --- what a kubelet says in place of a log ------------------------------------------------------

NOT_FOUND = (
    b"rpc error: code = NotFound desc = an error occurred when try to find container "
    b'"0a1b": not found'
)
UNABLE = b"unable to retrieve container logs for containerd://0a1b"
GONE = "the output of digits-worker-0 is gone: its container was removed"


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("complaint", [NOT_FOUND, UNABLE])
async def test_a_container_that_is_gone_is_not_its_output(complaint: bytes, follow: bool) -> None:
    for pieces in ([complaint], [complaint + b"\n"], [complaint[:80], complaint[80:], b"\n"]):
        warnings: list[str] = []
        said = map(Kubelets, pieces)
        assert await printed(NODE, *said, follow=follow, warnings=warnings) == []
        assert warnings == [GONE]


@pytest.mark.parametrize("follow", [False, True])
async def test_a_complaint_behind_the_output_is_dropped(follow: bool) -> None:
    warnings: list[str] = []
    said = (b"one\ntwo\n", Kubelets(NOT_FOUND))
    shown = await printed(NODE, *said, follow=follow, warnings=warnings)
    assert shown == [(WORKER.name, "one"), (WORKER.name, "two")]
    assert not warnings, "nothing is missing"


@pytest.mark.parametrize("follow", [False, True])
async def test_a_program_may_print_the_same(follow: bool) -> None:
    shown = await printed(NODE, NOT_FOUND + b"\n", b"and goes on", follow=follow)
    assert [line for _, line in shown] == [NOT_FOUND.decode(), "and goes on"]


async def test_a_replacement_that_has_the_name_of_its_predecessor_is_followed_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pod_logs, "LOOK", 0.01)
    pods = [pod(WORKER.name, node_labels("digits", WORKER)) for _ in range(2)]
    for number, one in enumerate(pods):
        one["metadata"]["uid"] = f"uid-{number}"

    class Replacing(PretendClient):
        """At the third list another pod has the name; the job is over some lists later."""

        looks = 0

        @property
        def present(self) -> KubeObject:
            return pods[self.looks >= 3]

        async def list(self, _kind: Any, **_options: Any) -> Listed:
            self.looks += 1
            return Listed([self.present])

        async def get(self, kind: Any, name: str, _namespace: str) -> KubeObject:
            if kind is ELASTIC_JOBS:
                phase = "Succeeded" if self.looks > 5 else "Running"
                return {"metadata": {"name": name, "uid": UID}, "status": {"phase": phase}}
            return {**self.present, "status": {"phase": "Failed"}}

        async def logs(self, _name: str, _namespace: str, **_options: Any) -> AsyncIterator[bytes]:
            yield f"I am {self.present['metadata']['uid']}\n".encode()

    client: Any = Replacing()
    logs = PodLogs(client, ("n", "digits"), uid=UID, tail=None, warn=lambda _text: None)
    lines = [line async for batch in logs.follow() for _, line in batch]
    assert lines == ["I am uid-0", "I am uid-1"]
