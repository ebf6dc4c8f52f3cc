"""scale, suspend, resume and delete, with an operator that carries out the requests."""

from __future__ import annotations

import asyncio

import pytest

from resile.job.status import JobPhase
from resile.kube.errors import NotFound
from resile.kube.resources import ELASTIC_JOBS, PODS
from tests.kube.cli.console import Console
from tests.kube.cli.statuses import WORKER, create, manifest, status
from tests.kube.operator.operators import OperatorProcess
from tests.kube.operator.stage import Stage, eventually
from tests.kube.operator.standin import StandIn

PLAIN = {"image": "train:test", "command": ["sleep", "60"]}


async def test_the_scaled_role_is_scaled_through_its_subresource(
    stage: Stage, console: Console, operator: OperatorProcess, kubelets: StandIn
) -> None:
    await create(stage.client, manifest("digits"))
    await stage.has_phase("digits", "Running")
    assert await console.says("scale", "digits", "worker=3") == "worker: 2 -> 3 nodes\n"
    raw = await stage.job("digits")
    assert raw["spec"]["replicas"] == 3
    assert raw["spec"]["roles"]["worker"]["replicas"]["wanted"] == 2, "the manifest's stays"
    assert await console.says("scale", "digits", "worker=1", "--wait") == "worker: 3 -> 1 nodes\n"
    await stage.has_nodes("digits", 1)
    assert await console.says("scale", "digits", "worker=1") == "worker: 1 nodes\n"


async def test_other_roles_are_scaled_in_the_manifest(
    stage: Stage, console: Console, operator: OperatorProcess, kubelets: StandIn
) -> None:
    roles = {
        "worker": WORKER,
        "ps": {**PLAIN, "replicas": {"min": 1, "max": 3, "wanted": 1}},
        "chief": PLAIN,
    }
    await create(stage.client, manifest("digits", roles=roles))
    await stage.has_phase("digits", "Running")
    said = await console.says("scale", "digits", "ps=2", "worker=3", "chief=1")
    assert said == "ps: 1 -> 2 nodes\nworker: 2 -> 3 nodes\nchief: 1 nodes\n"
    spec = (await stage.job("digits"))["spec"]
    assert spec["roles"]["ps"]["replicas"] == {"min": 1, "max": 3, "wanted": 2}
    assert spec["replicas"] == 3


async def test_a_size_that_cannot_be_is_refused_in_the_words_of_one_machine(
    stage: Stage, console: Console
) -> None:
    roles = {"worker": {**WORKER, "nodeUnit": 2}, "ps": PLAIN}
    raw = await create(stage.client, manifest("digits", roles=roles), status("digits"))
    for words, complaint in (
        (("worker=9",), "role worker may have 1 to 4 nodes, not 9 (min and max in the manifest)"),
        (("worker=3",), "role worker grows in units of 2 nodes (nodeUnit)"),
        (("trainer=2",), "there is no role 'trainer'; there are ps, worker"),
        (("worker=2", "ps=3"), "role ps has 1 node, always"),
    ):
        assert complaint in await console.refuses("scale", "digits", *words)
    assert (await stage.job("digits"))["spec"] == raw["spec"], "what is refused has no effect"


@pytest.mark.parametrize("words", [("scale", "digits", "worker=3"), ("suspend", "digits")])
async def test_a_job_that_is_over_cannot_be_steered(
    stage: Stage, console: Console, words: tuple[str, ...]
) -> None:
    await create(stage.client, manifest("digits"), status("digits", JobPhase.SUCCEEDED))
    assert "the job is over; it cannot be" in await console.refuses(*words)


async def test_a_job_is_suspended_and_resumed(
    stage: Stage, console: Console, operator: OperatorProcess, kubelets: StandIn
) -> None:
    await create(stage.client, manifest("digits"))
    await stage.has_nodes("digits", 2)
    said = await console.says("suspend", "digits", "--wait")
    assert "'resile resume digits' continues it" in said
    assert not await stage.pods("digits")
    assert "digits  Suspended" in await console.says("jobs")
    assert await console.says("suspend", "digits") == "job 'digits' is already suspended\n"
    assert await console.says("resume", "digits", "--wait") == "job 'digits' is being resumed\n"
    await stage.has_nodes("digits", 2)
    assert await console.says("resume", "digits") == "job 'digits' is not suspended\n"


@pytest.mark.parametrize(
    ("suspended", "words"),
    [
        (False, ("scale", "digits", "worker=3")),
        (False, ("suspend", "digits", "--wait")),
        (True, ("resume", "digits", "--wait")),
    ],
    ids=lambda one: one[0] if isinstance(one, tuple) else "",
)
async def test_who_waits_without_an_operator_is_told(
    stage: Stage, console: Console, suspended: bool, words: tuple[str, ...]
) -> None:
    phase = JobPhase.SUSPENDED if suspended else JobPhase.RUNNING
    written = status("digits", phase, observed_generation=1)
    await create(stage.client, manifest("digits", suspend=suspended), written)
    waiting = console.start(*words)
    try:
        assert waiting.stderr is not None
        said = await asyncio.wait_for(asyncio.to_thread(waiting.stderr.readline), 60)
        assert waiting.poll() is None, "it goes on waiting"
    finally:
        waiting.kill()
        waiting.communicate()
    assert said.startswith("Warning: no operator has observed the job yet.")
    assert f"does it watch namespace {stage.client.namespace}?" in said


async def test_what_is_so_already_is_not_waited_for(stage: Stage, console: Console) -> None:
    await create(stage.client, manifest("digits"))
    said = await console.says("resume", "digits", "--wait")
    assert said == "job 'digits' is not suspended\n"
    await create(stage.client, manifest("asleep", suspend=True))
    said = await console.says("suspend", "asleep", "--wait")
    assert said == "job 'asleep' is already suspended\n"


async def test_deleting_waits_until_the_pods_are_gone(
    stage: Stage, console: Console, operator: OperatorProcess, kubelets: StandIn
) -> None:
    await create(stage.client, manifest("digits"))
    await stage.has_nodes("digits", 2)
    deleting = console.start("delete", "digits")
    try:

        async def is_gone() -> bool:
            try:
                await stage.job("digits")
            except NotFound:
                return True
            return False

        await eventually(is_gone, "the job to be gone")
        assert deleting.poll() is None, "its pods are still there"
        assert deleting.stderr is not None
        told = await asyncio.to_thread(deleting.stderr.readline)
        assert told.startswith("Waiting for the end of job 'digits': its pods are still there: ")
        assert "digits-worker-0" in told

        async def is_done() -> bool:  # there is no garbage collector here
            for pod in [*await stage.pods("digits"), *await stage.pods("digits", "master")]:
                await stage.client.delete(PODS, pod["metadata"]["name"], grace_seconds=0)
            return deleting.poll() is not None

        await eventually(is_done, "the command to end")
        output, complaints = deleting.communicate()
    finally:
        deleting.kill()
    assert output == "job 'digits' is deleted\n"
    assert not complaints, "it is said once"


async def test_deleting_need_not_wait(stage: Stage, console: Console) -> None:
    for name in ("one", "two"):
        await create(stage.client, manifest(name), status(name))
    said = await console.says("delete", "one", "two", "--no-wait")
    assert said == "job 'one' is being deleted\njob 'two' is being deleted\n"
    left = await stage.client.list(ELASTIC_JOBS, namespace=stage.client.namespace)
    assert not left.items
