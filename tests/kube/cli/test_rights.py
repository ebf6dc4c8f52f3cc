"""A user with all permissions on ElasticJobs and no others: messages say what was not checked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from resile.kube.errors import NotFound
from resile.kube.resources import ELASTIC_JOBS, Resource
from tests.kube.apiserver import GUEST, ApiServer, running
from tests.kube.cli.console import Console, reads
from tests.kube.cli.statuses import WORKER, create, manifest, status, write_status
from tests.kube.operator.stage import Stage

GROUP = "rbac.authorization.k8s.io"
ROLES = Resource(GROUP, "v1", "Role", "roles")
BINDINGS = Resource(GROUP, "v1", "RoleBinding", "rolebindings")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with running(tmp_path_factory.mktemp("kube"), authorization="RBAC") as server:
        yield server


@pytest_asyncio.fixture
async def guest(server: ApiServer, stage: Stage, tmp_path: Path) -> AsyncIterator[Console]:
    rule = {"apiGroups": [ELASTIC_JOBS.group], "resources": ["*"], "verbs": ["*"]}
    await stage.client.create(ROLES, {"metadata": {"name": "jobs"}, "rules": [rule]})
    binding = {
        "metadata": {"name": "jobs"},
        "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": "jobs"},
        "subjects": [{"apiGroup": GROUP, "kind": "User", "name": GUEST}],
    }
    await stage.client.create(BINDINGS, binding)
    yield Console(tmp_path, kubeconfig=server.kubeconfig(GUEST, namespace=stage.client.namespace))


async def test_a_job_is_submitted_and_seen_to_train(stage: Stage, guest: Console) -> None:
    submitting = guest.start("submit", guest.write(manifest("digits")))
    try:
        await reads(submitting, "the operator has not looked at it yet")
        raw = await stage.job("digits")
        pending = status("digits", world_size=None, round=None, step=None)
        await write_status(stage.client, raw, pending)
        (line,) = await reads(submitting, "2 of 2 nodes are running")
        assert "master" not in line
        body = {"round": 1, "worldSize": 4}
        await stage.client.patch_status(ELASTIC_JOBS, "digits", status=body)
        _, complaints = await asyncio.to_thread(submitting.communicate, timeout=60)
    finally:
        submitting.kill()
    assert (submitting.returncode, complaints) == (0, "")


async def test_a_dry_run_says_what_was_not_tried(stage: Stage, guest: Console) -> None:
    done = await guest.run("submit", guest.write(manifest("digits")), "--dry-run")
    assert done.returncode == 0, done.stderr
    validated, note = done.stderr.splitlines()
    assert validated.startswith("Validated by the API server of ")
    assert note == (
        "Not all of it: the pods were not: you may not create pods there, the operator may."
    )


async def test_a_dry_run_tells_what_is_refused_for_the_pods_sake(
    stage: Stage, guest: Console
) -> None:
    """Also a 403, but of an admission check: the account may create pods, just not this one."""
    pods = {"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}
    await stage.client.patch(
        ROLES, "jobs", [{"op": "add", "path": "/rules/-", "value": pods}], type="json"
    )
    roles = {"worker": {**WORKER, "priority": "missing-class"}}
    said = await guest.refuses("submit", guest.write(manifest("digits", roles=roles)), "--dry-run")
    assert "no PriorityClass with name missing-class was found" in said


async def test_a_deleted_job_is_said_to_be_deleted(stage: Stage, guest: Console) -> None:
    for name in ("one", "two"):
        await create(stage.client, manifest(name), status(name))
    assert await guest.says("delete", "one", "two") == (
        "job 'one' is deleted; its pods cannot be seen\n"
        "job 'two' is deleted; its pods cannot be seen\n"
    )
    with pytest.raises(NotFound):
        await stage.job("one")


async def test_a_job_is_described_without_its_events(stage: Stage, guest: Console) -> None:
    await create(stage.client, manifest("digits"), status("digits"))
    shown = await guest.says("describe", "digits")
    assert "Conditions" in shown
    last = shown.splitlines()[-1]
    assert last.startswith('Events cannot be seen: events is forbidden: User "guest" cannot list')
