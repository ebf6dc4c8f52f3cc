"""submit: the objects it creates, dry runs, and its messages."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest
import yaml

from resile.job.node import NodePhase
from resile.job.status import JobPhase, NodeStatus, RoleStatus
from resile.job.training import TrainingView
from resile.kube.resources import ELASTIC_JOBS, PODS, PRIORITY_CLASSES, Resource
from tests.kube.apiserver import ApiServer
from tests.kube.cli.console import Console, reads
from tests.kube.cli.statuses import WORKER, manifest, status, write_status
from tests.kube.operator.operators import OperatorProcess
from tests.kube.operator.stage import Stage
from tests.kube.operator.standin import StandIn

QUOTAS = Resource("", "v1", "ResourceQuota", "resourcequotas")
PLAIN = {"image": "train:test", "command": ["sleep", "60"]}


# --- creating -----------------------------------------------------------------------------------


async def test_a_job_is_created_then_unchanged_then_configured(
    stage: Stage, console: Console
) -> None:
    described, namespace = manifest("digits", maxRestarts=2), stage.client.namespace
    submit = ("submit", console.write(described), "--no-wait")
    assert await console.says(*submit) == f"job 'digits' in namespace {namespace}: created\n"
    raw = await stage.job("digits")
    assert raw["spec"] == described["spec"]
    assert [owner["manager"] for owner in raw["metadata"]["managedFields"]] == ["resile-cli"]
    assert (await console.says(*submit)).endswith(": unchanged\n")

    await stage.client.patch(ELASTIC_JOBS, "digits", {"spec": {"replicas": 3}}, subresource="scale")
    del described["spec"]["maxRestarts"]
    described["spec"]["roles"]["worker"] = {**WORKER, "image": "train:next", "replicas": 2}
    console.write(described)
    assert (await console.says(*submit)).endswith(": configured\n")
    spec = (await stage.job("digits"))["spec"]
    assert spec["roles"] == described["spec"]["roles"]
    assert "maxRestarts" not in spec, "what the manifest does not say any more is gone"
    assert spec["replicas"] == 3, "what it never said stays"


async def test_a_job_that_is_over_makes_room_only_when_it_is_deleted(
    stage: Stage, console: Console
) -> None:
    described = manifest("digits")
    submit = ("submit", console.write(described))
    await console.says(*submit, "--no-wait")
    await write_status(
        stage.client, await stage.job("digits"), status("digits", JobPhase.SUCCEEDED)
    )
    assert "the job has succeeded" in await console.says(*submit)
    described["spec"]["maxRestarts"] = 7
    console.write(described)
    said = await console.refuses(*submit)
    assert "is over (Succeeded) and differs from the manifest; 'resile delete digits'" in said
    assert "maxRestarts" not in (await stage.job("digits"))["spec"]
    namespace = stage.client.namespace
    said = await console.refuses(*submit, "-n", namespace, "--context", "test")
    assert f"'resile delete digits -n {namespace} --context test' makes room" in said


async def test_another_name_and_namespace(stage: Stage, console: Console) -> None:
    path, namespace = console.write(manifest("digits")), stage.client.namespace
    said = await console.says("submit", path, "--no-wait", "--name", "second", "-n", namespace)
    assert said == f"job 'second' in namespace {namespace}: created\n"
    assert "--name Not_One: " in await console.refuses("submit", path, "--name", "Not_One")
    described = manifest("digits")
    described["metadata"]["namespace"] = "elsewhere"
    said = await console.refuses("submit", console.write(described), "-n", namespace)
    assert f"metadata.namespace: is elsewhere, but namespace {namespace} was asked for" in said
    said = await console.refuses("submit", console.write(described))
    assert 'namespaces "elsewhere" not found' in said


async def test_problems_are_told_with_their_lines_before_anything_is_sent(
    stage: Stage, console: Console
) -> None:
    text = "\n".join(
        [
            "apiVersion: resile.dev/v1alpha1",
            "kind: ElasticJob",
            "metadata: {name: digits}",
            "spec:",
            "  roles:",
            "    worker:",
            "      script: train.py",
            "      priority: 7",
        ]
    )
    (console.folder / "job.yaml").write_text(text)
    said = await console.refuses("submit", "job.yaml")
    assert "job.yaml: 2 problems in the manifest" in said
    assert "spec.roles.worker.image" in said
    assert "(line 7)" in said
    assert "spec.roles.worker.priority: pods have no numeric priority (7)" in said
    assert "(line 8)" in said
    assert not (await stage.client.list(ELASTIC_JOBS, namespace=stage.client.namespace)).items


# --- progress messages --------------------------------------------------------------------------


async def test_progress_is_shown_until_it_runs(
    stage: Stage, console: Console, operator: OperatorProcess, kubelets: StandIn
) -> None:
    described = manifest("digits", roles={"worker": {**PLAIN, "replicas": 2}})
    said = await console.says("submit", console.write(described))
    first, *_, last, hint = said.splitlines()
    assert first.endswith(": created")
    assert last.endswith("  running: 2 of 2")
    assert hint.startswith("See 'resile describe digits'")


async def test_each_change_is_a_line(stage: Stage, console: Console) -> None:
    submitting = console.start("submit", console.write(manifest("digits")))
    output = await reads(submitting, "the operator has not looked at it yet")
    raw = await stage.job("digits")
    waiting = NodeStatus(
        role="worker",
        rank=1,
        phase=NodePhase.PENDING,
        id=1,
        name="digits-worker-1",
        reason="Unschedulable",
        message="0/2 nodes are available: 2 Insufficient cpu.",
    )
    half = status(
        "digits",
        JobPhase.PENDING,
        conditions=(),
        nodes=(waiting,),
        roles={"worker": RoleStatus(wanted=2, active=1, pending=1)},
        round=None,
        world_size=None,
        step=None,
    )
    await write_status(stage.client, raw, half)
    output += await reads(submitting, "Insufficient cpu.")
    forming, running = {"phase": "forming"}, {"phase": "running"}
    body: dict[str, Any] = {"nodes": None, "worldSize": 4, "round": 1, "phase": "Running"}
    body |= {"roles": {"worker": {"wanted": 2, "active": 2, "pending": 0}}, "training": forming}
    await stage.client.patch_status(ELASTIC_JOBS, "digits", status=body)
    output += await reads(submitting, "round 1 is forming: 4 workers")
    await stage.client.patch_status(ELASTIC_JOBS, "digits", status={"training": running})
    output += await reads(submitting, "training: round 1, 4 workers")
    _, complaints = await asyncio.to_thread(submitting.communicate, timeout=60)
    told = [line.partition("  ")[2] for line in output[1:]]
    assert told == [
        "the operator has not looked at it yet",
        "there is no master yet",
        "1 of 2 nodes are running; digits-worker-1 is pending: "
        "0/2 nodes are available: 2 Insufficient cpu.",
        "2 of 2 nodes are running",
        "round 1 is forming: 4 workers",
        "training: round 1, 4 workers",
    ]
    assert not complaints
    assert submitting.returncode == 0


async def test_a_job_that_fails_ends_with_its_reason_and_code_1(
    stage: Stage, console: Console, operator: OperatorProcess, kubelets: StandIn
) -> None:
    described = manifest("digits", roles={"worker": {**PLAIN, "restartPolicy": "Never"}})
    kubelets.held.add("digits-worker-0")
    submitting = console.start("submit", console.write(described))
    (pod,) = await stage.has_nodes("digits", 1)
    await kubelets.end(pod, 3)
    _, said = await asyncio.to_thread(submitting.communicate, timeout=60)
    assert submitting.returncode == 1
    assert "the job has failed: " in said
    assert "exited with code 3" in said


async def test_a_round_that_fails_while_it_forms_ends_with_code_1(
    stage: Stage, console: Console
) -> None:
    submitting = console.start("submit", console.write(manifest("digits")))
    try:
        await reads(submitting, "the operator has not looked at it yet")
        raw = await stage.job("digits")
        forming = status("digits", training=TrainingView(phase="forming"), round=1, step=None)
        await write_status(stage.client, raw, forming)
        await reads(submitting, "round 1 is forming: 4 workers")
        await write_status(stage.client, raw, status("digits", JobPhase.FAILED))
        _, said = await asyncio.to_thread(submitting.communicate, timeout=60)
    finally:
        submitting.kill()
    assert submitting.returncode == 1
    assert said.startswith("Error: the job has failed")


async def test_why_there_is_no_master_is_told(
    stage: Stage, console: Console, operator: OperatorProcess
) -> None:
    quota = {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "0"}}}
    hard = {"hard": {"pods": "0"}, "used": {"pods": "0"}}
    namespace = stage.client.namespace
    await stage.client.create(QUOTAS, quota)
    await stage.client.patch_status(QUOTAS, "small", namespace, status=hard)
    submitting = console.start("submit", console.write(manifest("digits")))
    try:
        assert submitting.stdout is not None
        line = ""
        while "there is no master yet: " not in line:
            line = await asyncio.wait_for(asyncio.to_thread(submitting.stdout.readline), 60)
            assert line
    finally:
        submitting.kill()
        submitting.communicate()
    assert "exceeded quota: small" in line


async def test_ctrl_c_ends_the_watching_and_not_the_job(stage: Stage, console: Console) -> None:
    submitting = console.start("submit", console.write(manifest("digits")))
    assert submitting.stdout is not None
    for _ in range(2):
        await asyncio.to_thread(submitting.stdout.readline)
    submitting.send_signal(signal.SIGINT)
    _, said = await asyncio.to_thread(submitting.communicate, timeout=60)
    assert submitting.returncode == 130
    assert said == "The job 'digits' keeps running; see 'resile describe digits'.\n"
    assert "deletionTimestamp" not in (await stage.job("digits"))["metadata"]


async def test_a_missing_operator_is_suspected(stage: Stage, console: Console) -> None:
    submitting = console.start("submit", console.write(manifest("digits")))
    assert submitting.stderr is not None
    try:
        said = await asyncio.to_thread(submitting.stderr.readline)
    finally:
        submitting.kill()
        submitting.communicate()
    assert said.startswith("Warning: no operator has observed the job yet.")


# --- dry runs -----------------------------------------------------------------------------------


async def test_a_dry_run_prints_what_the_operator_then_creates(
    stage: Stage, console: Console, operator: OperatorProcess, kubelets: StandIn
) -> None:
    ps = {**PLAIN, "replicas": 1}
    roles = {"worker": {**WORKER, "dependsOn": ["ps"]}, "ps": ps}
    described = manifest("digits", roles=roles)
    done = await console.run("submit", console.write(described), "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "Validated by the API server" in done.stderr
    shown = list(yaml.safe_load_all(done.stdout))
    assert [one["kind"] for one in shown] == [
        *("ElasticJob", "Secret", "Service", "Service", "Pod", "Pod", "Pod", "Pod")
    ]
    kept = dict.fromkeys(
        ["token", "read-token", "ca.crt", "tls.crt", "tls.key"], "(random, made by the operator)"
    )
    assert shown[1]["stringData"] == kept
    assert not (await stage.client.list(ELASTIC_JOBS, namespace=stage.client.namespace)).items

    await stage.client.create(ELASTIC_JOBS, described)
    made = [*await stage.has_nodes("digits", 3), *await stage.pods("digits", "master")]
    for pod in made:
        (same,) = (one for one in shown if one["metadata"]["name"] == pod["metadata"]["name"])
        assert same["metadata"]["labels"] == pod["metadata"]["labels"]
        assert_within(same["spec"], pod["spec"])


def assert_within(wanted: Any, found: Any) -> None:
    """Check that everything shown is in the object; the server has added its defaults."""
    if isinstance(wanted, dict):
        for key, value in wanted.items():
            if key != "image":  # the master's is the operator's own
                assert_within(value, found[key])
    elif isinstance(wanted, list):
        for one, other in zip(wanted, found, strict=False):
            assert_within(one, other)
    else:
        assert wanted == found


async def test_a_dry_run_needs_no_cluster(stage: Stage, console: Console) -> None:
    alone = Console(console.folder)
    described = manifest("digits", master={"image": "master:1"})
    done = await alone.run("submit", alone.write(described), "--dry-run")
    assert done.returncode == 0, done.stderr
    assert done.stderr == "Not validated by a server: no cluster is configured.\n"
    assert {one["metadata"]["namespace"] for one in yaml.safe_load_all(done.stdout)} == {"default"}
    assert "the-operators-own-image" not in done.stdout


async def test_a_dry_run_of_a_suspended_job_shows_the_job_alone(
    stage: Stage, console: Console
) -> None:
    described = manifest("digits", suspend=True)
    done = await console.run("submit", console.write(described), "--dry-run")
    assert [one["kind"] for one in yaml.safe_load_all(done.stdout)] == ["ElasticJob"]


async def test_what_the_server_has_against_the_pods_is_told(stage: Stage, console: Console) -> None:
    roles = {"worker": {**WORKER, "priority": "missing-class"}}
    path = console.write(manifest("digits", roles=roles))
    said = await console.refuses("submit", path, "--dry-run")
    assert "no PriorityClass with name missing-class was found" in said
    await stage.client.create(
        PRIORITY_CLASSES, {"metadata": {"name": "missing-class"}, "value": 10}
    )
    try:
        done = await console.run("submit", path, "--dry-run")
        assert done.returncode == 0, done.stderr
    finally:
        await stage.client.delete(PRIORITY_CLASSES, "missing-class")
    assert not (await stage.client.list(PODS, namespace=stage.client.namespace)).items


@pytest.mark.parametrize("flags", [(), ("--dry-run",)])
async def test_a_cluster_that_is_away_is_a_sentence(
    stage: Stage, console: Console, server: ApiServer, flags: tuple[str, ...]
) -> None:
    server.stop()
    try:
        done = await console.run("submit", console.write(manifest("digits")), *flags)
    finally:
        server.start()
    assert done.returncode == (0 if flags else 1)
    assert "does not answer" in done.stderr
    assert len(done.stderr.splitlines()) == 1
