"""`submit` for an existing job: which fields are changed and who owns them."""

from __future__ import annotations

import asyncio
import json
import subprocess

from resile.job.status import Condition, ConditionStatus, ConditionType, JobPhase, JobStatus
from resile.kube.resources import ELASTIC_JOBS
from tests.kube.apiserver import ApiServer
from tests.kube.cli.console import Console, reads
from tests.kube.cli.statuses import WORKER, manifest, status, write_status
from tests.kube.operator.operators import OperatorProcess
from tests.kube.operator.stage import Stage
from tests.kube.operator.standin import StandIn
from tests.programs import KUBECTL

UNSEEN = "the operator has not looked at the change yet"


# --- the status of an earlier manifest ----------------------------------------------------------


async def test_a_corrected_manifest_is_not_judged_by_the_refusal_of_the_last(
    stage: Stage, console: Console
) -> None:
    described = manifest("digits", maxRestarts=2)
    await console.says("submit", console.write(described), "--no-wait")
    refused = Condition(
        type=ConditionType.CREATED,
        status=ConditionStatus.FALSE,
        reason="InvalidSpec",
        message="spec.maxRestarts: is too high",
        last_transition_time=status("x").conditions[0].last_transition_time,
    )
    raw = await stage.job("digits")
    await write_status(stage.client, raw, JobStatus(conditions=(refused,), observed_generation=1))
    said = await console.refuses("submit", console.write(described))
    assert "the job has failed: spec.maxRestarts: is too high" in said, "it is the same manifest"
    described["spec"]["maxRestarts"] = 1
    await sees_the_change(stage, console, described)


async def test_a_running_job_is_not_said_to_train_before_somebody_looked_at_the_change(
    stage: Stage, console: Console
) -> None:
    described = manifest("digits")
    await console.says("submit", console.write(described), "--no-wait")
    raw = await stage.job("digits")
    await write_status(stage.client, raw, status("digits", observed_generation=1))
    assert "  training: " in await console.says("submit", console.write(described))
    described["spec"]["roles"] = {"worker": {**WORKER, "image": "train:next"}}
    await sees_the_change(stage, console, described)


async def sees_the_change(stage: Stage, console: Console, described: dict[str, object]) -> None:
    submitting = console.start("submit", console.write(described))
    try:
        first, _ = await reads(submitting, UNSEEN)
        assert first.endswith(": configured")
        raw = await stage.job("digits")
        assert raw["metadata"]["generation"] == 2
        await write_status(stage.client, raw, status("digits", observed_generation=2))
        await reads(submitting, "training: round 2, 4 workers, step 70")
        _, complaints = await asyncio.to_thread(submitting.communicate, timeout=60)
    finally:
        submitting.kill()
    assert (submitting.returncode, complaints) == (0, "")


# --- nodes that run -----------------------------------------------------------------------------


async def test_nodes_that_run_keep_what_they_were_started_with_and_that_is_said(
    stage: Stage, console: Console, operator: OperatorProcess, kubelets: StandIn
) -> None:
    described = manifest("digits")
    submit = ("submit", console.write(described), "--no-wait")
    await console.says(*submit)
    await stage.has_nodes("digits", 2)
    worker = dict(WORKER)
    for harmless in ({"replicas": {"min": 1, "max": 3, "wanted": 2}}, {"restartPolicy": "Always"}):
        worker |= harmless
        described["spec"]["roles"] = {"worker": worker}
        console.write(described)
        assert (await console.says(*submit)).endswith(": configured\n"), "it counts at once"
    described["spec"]["roles"] = {"worker": {**worker, "image": "train:next"}}
    console.write(described)
    _, note = (await console.says(*submit)).splitlines()
    assert note.startswith("running nodes of worker keep their old settings; ")
    assert (await console.says(*submit)).endswith(": unchanged\n")

    await console.says("suspend", "digits", "--wait")
    described["spec"]["roles"] = {"worker": worker}
    console.write(described)
    assert (await console.says(*submit)).endswith(": configured\n"), "no node runs"


# --- a job that kubectl made --------------------------------------------------------------------


def kubectl_apply(server: ApiServer, stage: Stage, described: dict[str, object]) -> None:
    config = server.kubeconfig(namespace=stage.client.namespace)
    whole = [KUBECTL, "--kubeconfig", config, "apply", "-f", "-"]
    text = json.dumps(described)
    done = subprocess.run(whole, input=text, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


async def test_what_kubectl_applied_and_the_manifest_does_not_say_is_removed(
    stage: Stage, console: Console, server: ApiServer
) -> None:
    described = manifest("digits", maxRestarts=2, backoffLimit=5)
    described["metadata"]["labels"] = {"team": "a", "kept": "b"}
    kubectl_apply(server, stage, described)
    await stage.client.patch(ELASTIC_JOBS, "digits", {"spec": {"replicas": 3}}, subresource="scale")
    submit = ("submit", console.write(described), "--no-wait")
    assert (await console.says(*submit)).endswith(": unchanged\n")

    del described["spec"]["maxRestarts"], described["metadata"]["labels"]["team"]
    console.write(described)
    assert (await console.says(*submit)).endswith(": configured\n")
    raw = await stage.job("digits")
    assert raw["spec"] == {**described["spec"], "replicas": 3}, "what scale set stays"
    assert raw["metadata"]["labels"] == {"kept": "b"}

    described["spec"]["maxRestarts"] = 4  # and with kubectl and Resile in turns
    kubectl_apply(server, stage, described)
    del described["spec"]["maxRestarts"], described["spec"]["backoffLimit"]
    console.write(described)
    assert (await console.says(*submit)).endswith(": configured\n")
    assert (await stage.job("digits"))["spec"] == {**described["spec"], "replicas": 3}
    assert (await console.says(*submit)).endswith(": unchanged\n")


async def test_a_job_of_kubectls_that_is_over_is_not_changed(
    stage: Stage, console: Console, server: ApiServer
) -> None:
    described = manifest("digits", maxRestarts=2)
    kubectl_apply(server, stage, described)
    raw = await stage.job("digits")
    await write_status(stage.client, raw, status("digits", JobPhase.SUCCEEDED))
    submit = ("submit", console.write(described), "--no-wait")
    assert (await console.says(*submit)).endswith(": unchanged\n")
    del described["spec"]["maxRestarts"]
    console.write(described)
    assert "is over (Succeeded) and differs" in await console.refuses(*submit)
    assert (await stage.job("digits"))["spec"]["maxRestarts"] == 2
