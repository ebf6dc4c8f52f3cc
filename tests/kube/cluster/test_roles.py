"""Roles of every kind in pods: a group led by its Master, and servers with independent workers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from resile.kube.resources import ELASTIC_JOBS, PODS, KubeObject
from resile.operator.build.labels import ID, RANK, ROLE
from tests.kube.cluster.training import ClusterJob
from tests.kube.operator.stage import eventually
from tests.local.up.ups import PROGRAMS

pytestmark = [pytest.mark.usefixtures("operator"), pytest.mark.timeout(600)]


async def newest(job: ClusterJob, role: str, rank: int) -> KubeObject:
    """The newest pod with a rank of a role."""

    async def look() -> list[KubeObject]:
        labels = [(pod["metadata"]["labels"], pod) for pod in await job.pods(job.name)]
        return [pod for one, pod in labels if (one[ROLE], one[RANK]) == (role, str(rank))]

    found = await eventually(look, f"a pod of {role} {rank}")
    return max(found, key=lambda pod: int(pod["metadata"]["labels"][ID]))


async def replaced(job: ClusterJob, role: str, rank: int) -> KubeObject:
    """Delete the pod of a rank, and return the one that runs in its place."""
    old = await newest(job, role, rank)
    await job.client.delete(PODS, old["metadata"]["name"])

    async def look() -> KubeObject | None:
        pod = await newest(job, role, rank)
        running = pod.get("status", {}).get("phase") == "Running"
        return pod if running and pod["metadata"]["uid"] != old["metadata"]["uid"] else None

    found = await eventually(look, f"another pod of {role} {rank}", patience=120)
    assert found is not None
    return found


# --- a group led by its Master --------------------------------------------------------------


def worlds(places: Path) -> dict[int, list[list[str]]]:
    """The places of all workers of each round, in the order of their ranks."""
    found: dict[int, list[list[str]]] = {}
    text = places.read_text() if places.exists() else ""
    for round_number, *place in map(json.loads, text.splitlines()):
        found.setdefault(int(round_number), []).append(place)
    return {number: sorted(one, key=lambda place: int(place[1])) for number, one in found.items()}


async def test_the_master_role_has_rank_0_in_every_round_and_none_forms_without_it(
    job: ClusterJob,
) -> None:
    places = job.folder / "places.jsonl"
    programs = {"name": "programs", "hostPath": {"path": str(PROGRAMS)}}

    def role(**more: Any) -> dict[str, Any]:
        described = job.role(script="/programs/place.py", **more)
        described["volumes"].append(programs)
        described["volumeMounts"].append({"name": "programs", "mountPath": "/programs"})
        return {**described, "env": {"PLACES": str(places)}}

    roles = {
        "worker": role(replicas={"min": 1, "max": 3}),
        "master": role(replicas=1, dependsOn=["worker"]),
    }
    manifest = {"metadata": {"name": job.name}, "spec": {"roles": roles}}
    await job.client.create(ELASTIC_JOBS, manifest)
    whole = [
        ["master", "0", "4", "0", "1"],
        *(["worker", str(rank), "4", str(rank - 1), "3"] for rank in (1, 2, 3)),
    ]

    async def forms(*, after: int) -> int:
        async def look() -> int:
            full = [number for number, one in worlds(places).items() if one == whole]
            return max((number for number in full if number > after), default=0)

        return await eventually(look, f"a whole round after {after}", patience=180)

    latest = await forms(after=0)
    for lost in ("master", "worker"):
        await replaced(job, lost, 0)
        latest = await forms(after=latest)
    seen = worlds(places)
    assert all(one[0][:2] == ["master", "0"] for one in seen.values()), seen


# --- servers and independent workers ------------------------------------------------------------

SERVER = """
import os, socketserver
class Answer(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(os.environ["RESILE_NODE_NAME"].encode())
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
with Server(("", int(os.environ["RESILE_PORT_RPC"])), Answer) as server:
    server.serve_forever()
"""

WORKER = """
import json, os, socket, sys, time
def ask(host, port):
    with socket.create_connection((host, port), timeout=5) as line:
        return line.recv(100).decode()
while True:
    for server in json.loads(os.environ["RESILE_ADDRESSES"])["roles"]["ps"]:
        host, port = server["host"], server["ports"]["rpc"]
        try:
            answer = ask(host, port)
        except OSError:
            continue
        line = [os.environ["RESILE_NODE_NAME"], server["rank"], f"{host}:{port}", answer]
        with open(sys.argv[1], "a") as asked:
            asked.write(json.dumps(line) + "\\n")
    time.sleep(0.1)
"""


async def test_a_lost_worker_stops_nobody_and_a_lost_server_comes_back_at_its_address(
    job: ClusterJob,
) -> None:
    asked = job.folder / "asked.jsonl"

    def role(program: str, **more: Any) -> dict[str, Any]:
        described = job.role(command=["python3", "-c", program, str(asked)], **more)
        del described["script"]
        return {**described, "terminationGracePeriodSeconds": 1}

    roles = {
        "ps": role(SERVER, replicas=2, ports={"rpc": 7000}),
        "worker": role(WORKER, replicas=3, dependsOn=["ps"]),
    }
    await job.client.create(
        ELASTIC_JOBS, {"metadata": {"name": job.name}, "spec": {"roles": roles}}
    )

    def lines() -> list[list[Any]]:
        text = asked.read_text() if asked.exists() else ""
        return [json.loads(line) for line in text.splitlines()]

    async def answered(worker: str, server: str, *, after: int = 0) -> str:
        """The address at which a server answered a worker."""

        async def look() -> str:
            found = [
                at for who, _, at, answer in lines()[after:] if (who, answer) == (worker, server)
            ]
            return found[-1] if found else ""

        return await eventually(look, f"{server} to answer {worker}", patience=180)

    workers = [f"train-worker-{n}" for n in range(3)]
    for worker in workers:
        for server in ("train-ps-0", "train-ps-1"):
            await answered(worker, server)
    uids = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in await job.pods(job.name)}

    new = (await replaced(job, "worker", 1))["metadata"]["name"]
    assert new == "train-worker-3"
    await answered(new, "train-ps-0")
    others = {
        pod["metadata"]["name"]: pod["metadata"]["uid"]
        for pod in await job.pods(job.name)
        if pod["metadata"]["name"] != new
    }
    assert others == {name: uid for name, uid in uids.items() if name != "train-worker-1"}

    before = await answered("train-worker-0", "train-ps-0")
    successor = (await replaced(job, "ps", 0))["metadata"]["name"]
    assert successor == "train-ps-2"
    assert await answered("train-worker-0", successor) == before
    for name in ("train-worker-0", "train-worker-2", new):
        pod = await job.client.get(PODS, name)
        assert pod["status"]["phase"] == "Running"
