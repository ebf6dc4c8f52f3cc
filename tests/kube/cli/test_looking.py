"""jobs, describe, events and get: read from the API server alone, shown as on one machine."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
import time
from datetime import datetime, timezone

import msgspec
import pytest
import yaml

from resile.job.node import NodePhase
from resile.job.status import (
    Condition,
    ConditionStatus,
    ConditionType,
    JobPhase,
    JobStatus,
)
from resile.job.training import Failure, NodeView, TrainingView
from resile.job.view import VIEW_VERSION
from resile.kube.resources import ELASTIC_JOBS, EVENTS, NAMESPACES, PODS, KubeObject
from resile.local.jobdir import JobDir
from tests.kube.apiserver import ApiServer
from tests.kube.cli.console import Console
from tests.kube.cli.statuses import create, left_behind, manifest, status, tell, write_status
from tests.kube.operator.operators import OperatorProcess
from tests.kube.operator.stage import Stage, eventually

FAILURE = Failure(
    node="digits-worker-0",
    node_id=1,
    host="h",
    rank=1,
    local_rank=1,
    pid=9,
    exit_code=1,
    at=datetime.fromtimestamp(1e9, timezone.utc),
    message="boom",
)

HEADINGS = ["NAME", "PHASE", "NODES", "RESTARTS", "STEP", "AGE"]


async def pod_of(stage: Stage, name: str) -> KubeObject:
    spec = {"containers": [{"name": "node", "image": "none"}]}
    return await stage.client.create(PODS, {"metadata": {"name": name}, "spec": spec})


# --- jobs ---------------------------------------------------------------------------------------


async def test_a_clusters_jobs_are_listed(stage: Stage, console: Console) -> None:
    await create(stage.client, manifest("digits"), status("digits"))
    await create(stage.client, manifest("untouched"))
    lines = (await console.says("jobs")).splitlines()
    assert lines[0].split() == HEADINGS, "there is nothing to tell apart"
    assert lines[1].split()[:5] == ["digits", "Running", "2/2", "1", "70"]
    assert lines[2].split()[:5] == ["untouched", "Created", "0/0", "0", "-"]
    digits, _ = json.loads(await console.says("jobs", "-o", "json"))
    namespace = stage.client.namespace
    assert (digits["platform"], digits["namespace"]) == ("kubernetes", namespace)
    assert abs(digits["created"] - time.time()) < 60


async def test_jobs_of_all_namespaces_are_told_apart(
    stage: Stage, console: Console, server: ApiServer
) -> None:
    namespace = stage.client.namespace
    await stage.client.create(NAMESPACES, {"metadata": {"name": f"{namespace}-b"}})
    await create(stage.client, manifest("twin"), status("twin"))
    other = manifest("twin")
    other["metadata"]["namespace"] = f"{namespace}-b"
    await create(stage.client, other)
    lines = (await console.says("jobs", "-A")).splitlines()
    assert lines[0].split() == ["NAMESPACE", *HEADINGS]
    assert [line.split()[:3] for line in lines[1:] if line.split()[1] == "twin"] == [
        [namespace, "twin", "Running"],
        [f"{namespace}-b", "twin", "Created"],
    ]
    lines = (await console.says("jobs", "-n", f"{namespace}-b")).splitlines()
    assert lines[0].split() == HEADINGS
    assert lines[1].split()[:2] == ["twin", "Created"]


async def test_a_cluster_that_does_not_answer_costs_a_warning_and_two_seconds(
    stage: Stage, console: Console, server: ApiServer
) -> None:
    with server.frozen():
        began = time.monotonic()
        done = await console.run("jobs")
        took = time.monotonic() - began
    assert done.returncode == 0
    assert done.stdout.startswith("There are no jobs.")
    (warning,) = done.stderr.splitlines()
    assert warning.startswith("Warning: no jobs of the cluster: the API server at")
    assert took < 10, "two seconds, and what a busy machine needs to start Python"


# --- the same on both platforms -----------------------------------------------------------------


WHEN = re.compile(r"(\d\d:\d\d:\d\d|\b(\d+m)?\d+s\b|\bSINCE\b) *")
"""A time, an age, or the heading of ages; with what fills its column, because that is as wide as
the longest age, and 2m0s is shorter than 1m59s."""


def timeless(shown: str) -> list[str]:
    """The output without the job's location and without times."""
    lines = [line for line in shown.splitlines() if not re.match(r"Folder|Names|Clus", line)]
    return [WHEN.sub("TIME ", line) for line in lines]


async def test_a_job_looks_the_same_on_both_platforms(
    stage: Stage, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    described, written = manifest("digits"), status("digits", JobPhase.SUCCEEDED)
    raw = await create(stage.client, described, written)
    await tell(stage.client, raw, "NodeStarted", "it is")
    namespace = stage.client.namespace

    there = await console.says("describe", "digits", "-n", namespace)
    table = await console.says("jobs", "-n", namespace)
    text = await console.says("get", "digits", "-n", namespace)

    monkeypatch.setenv("RESILE_HOME", console.env()["RESILE_HOME"])
    left_behind(JobDir("digits"), described, written)
    here = await console.says("describe", "digits")
    both = (await console.says("jobs")).splitlines()
    assert "Namespace:" in there
    assert "Folder:" in here

    assert timeless(here) == timeless(there)
    assert both[0].split() == ["PLATFORM", *table.splitlines()[0].split()]
    assert [line.split()[0] for line in both[1:]] == ["local", "kubernetes"]
    assert both[1].split()[1:-1] == both[2].split()[1:-1]
    shown = yaml.safe_load(text)
    assert shown["metadata"].pop("namespace") == namespace
    assert shown == yaml.safe_load(await console.says("get", "digits"))


@pytest.mark.parametrize("phase", [JobPhase.RUNNING, JobPhase.FAILED], ids=lambda one: one.value)
async def test_a_training_looks_the_same_on_both_platforms(
    stage: Stage, console: Console, monkeypatch: pytest.MonkeyPatch, phase: JobPhase
) -> None:
    over = phase is JobPhase.FAILED
    training = TrainingView(
        phase="failed" if over else "running",
        reason="a worker failed" if over else "first round",
        restarts=2,
        max_restarts=3,
        failure=FAILURE if over else None,
        nodes={
            "digits-worker-0": NodeView(state="running", step=71, cpu="1.5", memory="300Mi"),
            "digits-worker-2": NodeView(state="running", step=70, away=True, memory="2Gi"),
        },
    )
    described, written = manifest("digits"), status("digits", phase, training=training)
    raw = await create(stage.client, described, written)
    await tell(stage.client, raw, "NodeStarted", "it is")
    monkeypatch.setenv("RESILE_HOME", console.env()["RESILE_HOME"])
    folder = JobDir("digits")
    left_behind(folder, described, msgspec.structs.replace(written, training=None), training)
    with contextlib.ExitStack() as living:
        if not over:
            living.enter_context(folder.hold())  # its `up` runs, and its master is down
        here = await console.says("describe", "digits")
        rows = json.loads(await console.says("jobs", "-o", "json"))
    there = await console.says("describe", "digits", "-n", stage.client.namespace)
    assert timeless(here) == timeless(there)
    speed = ", 12.5 steps/s"
    assert f"round 2 ({training.phase}), 4 workers, step 71{speed}" in there
    assert "2 of 3 restarts of failing workers" in there
    if over:
        assert "  last output\n    boom" in there
    else:
        assert "Round reason:  first round" in there
        (row,) = (line for line in there.splitlines() if line.startswith("digits-worker-2"))
        assert row.split()[5:] == [*("node-b", "2", "running", "(away)", "70", "1", "-", "2Gi/2Gi")]
    assert [row["restarts"] for row in rows] == [3, 3], "replaced nodes and failed rounds"


# --- one job ------------------------------------------------------------------------------------


async def test_a_running_job_is_described(stage: Stage, console: Console) -> None:
    raw = await create(stage.client, manifest("digits", replicas=2), status("digits"))
    await tell(stage.client, raw, "MasterStarted", "starting the master: digits-master-0")
    shown = await console.says("describe", "digits")
    for fact in (
        "Phase:         Running: 2 of 2 nodes are running",
        "Training:      round 2, 4 workers, step 70, 12.5 steps/s",
        "Asked for:     worker=2",
        f"Namespace:     {stage.client.namespace}",
        "Events (the last 1 of 1)",
        "MasterStarted      starting the master: digits-master-0",
    ):
        assert fact in shown
    (row,) = (line for line in shown.splitlines() if line.startswith("digits-worker-2"))
    assert row.split()[:6] == ["digits-worker-2", "2", "worker", "1", "Running", "node-b"]


async def test_why_nothing_happens_is_said(stage: Stage, console: Console) -> None:
    await create(stage.client, manifest("untouched"))
    shown = await console.says("describe", "untouched")
    assert "Created: the operator has not looked at it yet" in shown
    refused = Condition(
        type=ConditionType.CREATED,
        status=ConditionStatus.FALSE,
        reason="InvalidSpec",
        message="spec.roles.worker.image: is missing",
        last_transition_time=status("x").conditions[0].last_transition_time,
    )
    await create(stage.client, manifest("invalid"), JobStatus(conditions=(refused,)))
    shown = await console.says("describe", "invalid")
    assert "Created: spec.roles.worker.image: is missing" in shown


async def test_get_shows_the_manifest_as_it_was_written_and_the_status(
    stage: Stage, console: Console
) -> None:
    written = status("digits")
    await create(stage.client, manifest("digits", suspend=False), written)
    shown = json.loads(await console.says("get", "digits", "-o", "json"))
    assert (shown["apiVersion"], shown["platform"]) == (VIEW_VERSION, "kubernetes")
    assert shown["namespace"] == stage.client.namespace
    accepted = shown["manifest"]
    assert set(accepted["metadata"]) == {"name", "namespace"}
    assert accepted["spec"]["roles"]["worker"]["replicas"] == {"min": 1, "max": 4, "wanted": 2}
    assert msgspec.convert(shown["status"], JobStatus) == written
    assert yaml.safe_load(await console.says("get", "digits")).items() >= accepted.items()


async def test_every_group_looks_the_same_on_both_platforms(
    stage: Stage, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = TrainingView(
        phase="failed",
        reason="rank 1 failed",
        round=7,
        world_size=3,
        step=40,
        restarts=2,
        max_restarts=2,
        failure=msgspec.structs.replace(FAILURE, group="evaluate"),
        nodes={"digits-worker-2": NodeView(state="failed", step=40, memory="1Gi")},
        worker_failures={"digits-worker-2": 2},
        group="evaluate",
    )
    main = TrainingView(phase="running", reason="first round", max_restarts=3)
    described = manifest("digits")
    written = status("digits", training=main, groups={"evaluate": failed})
    raw = await create(stage.client, described, written)
    await tell(stage.client, raw, "NodeStarted", "it is")
    there = await console.says("describe", "digits", "-n", stage.client.namespace)
    shown = json.loads(
        await console.says("get", "digits", "-o", "json", "-n", stage.client.namespace)
    )
    monkeypatch.setenv("RESILE_HOME", console.env()["RESILE_HOME"])
    folder = JobDir("digits")
    left_behind(folder, described, written)
    with folder.hold():  # its `up` runs, and its master is down
        here = await console.says("describe", "digits")
        rows = json.loads(await console.says("jobs", "-o", "json"))
    assert timeless(here) == timeless(there)
    (row,) = (line for line in there.splitlines() if line.startswith("evaluate"))
    assert row.split() == [*("evaluate", "failed", "7", "3", "40", "2", "-", "rank", "1", "failed")]
    assert "The training of group evaluate failed: rank 1 failed." in there
    (line,) = (line for line in there.splitlines() if line.startswith("digits-worker-2"))
    assert line.split()[5:11] == ["node-b", "7", "failed", "40", "3", "-"]
    assert shown["groups"]["evaluate"]["round"] == 7
    assert shown["failures"][0]["group"] == "evaluate"
    assert [row["restarts"] for row in rows] == [3, 3], "one replaced node, two failed rounds"


async def test_a_rank_that_nobody_has_is_a_mistake_on_both_platforms(
    stage: Stage, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    described, written = manifest("digits"), status("digits", JobPhase.SUCCEEDED)
    await create(stage.client, described, written)
    await create(stage.client, manifest("untouched"))
    monkeypatch.setenv("RESILE_HOME", console.env()["RESILE_HOME"])
    left_behind(JobDir("digits"), described, written)
    for where in ((), ("-n", stage.client.namespace)):
        said = await console.refuses("logs", "digits", "--rank", "99", *where)
        assert said == "Error: job 'digits' has no node of rank 99: 0, 1\n"
        for flags in (("--rank", "1"), ("-f", "--rank", "3")):
            done = await console.run("logs", "digits", *flags, *where)
            assert (done.returncode, done.stdout) == (0, "")
            assert done.stderr.startswith("Nothing to show: the job is over (Succeeded): "), "gone"
        said = await console.refuses("logs", "digits", "-f", "--rank", "4", *where)
        assert "no node of rank 4" in said, "it has 4 nodes at most"
    said = await console.refuses("logs", "untouched", "--rank", "0")
    assert said == "Error: job 'untouched' has no node of rank 0: it has none yet\n"


# --- jobs without logs --------------------------------------------------------------------------


async def silence(console: Console, *words: str) -> str:
    """The one line that a command prints instead of logs."""
    done = await console.run("logs", *words)
    assert (done.returncode, done.stdout) == (0, "")
    (line,) = done.stderr.splitlines()
    return line


async def test_a_log_that_is_empty_says_why(stage: Stage, console: Console) -> None:
    namespace = stage.client.namespace
    await create(stage.client, manifest("digits"))
    hint = f"; see 'resile describe digits -n {namespace}'."
    said = await silence(console, "digits", "-n", namespace)
    untouched = "the job is Created: the operator has not looked at it yet"
    assert said == f"Nothing to show: {untouched}{hint}"

    why = "its image cannot be pulled (ImagePullBackOff)"
    first, second = status("digits").nodes
    stuck = msgspec.structs.replace(second, phase=NodePhase.PENDING, message=why)
    raw = await stage.job("digits")
    waits = status("digits", JobPhase.PENDING, nodes=(first, stuck))
    await write_status(stage.client, raw, waits)
    said = await silence(console, "digits", "worker", "-n", namespace)
    assert said == f"Nothing to show: digits-worker-2 is pending: {why}{hint}"
    assert await console.says("logs", "digits", "--tail", "0") == "", "nothing was asked for"

    await write_status(stage.client, raw, status("digits", JobPhase.SUCCEEDED))
    said = await silence(console, "digits")
    assert "the job is over (Succeeded): all nodes of worker have completed; the logs" in said
    assert said.endswith("; see 'resile describe digits'.")


async def test_who_follows_is_told_what_is_waited_for(stage: Stage, console: Console) -> None:
    raw = await create(stage.client, manifest("digits"), status("digits", JobPhase.PENDING))
    following = console.start("logs", "digits", "-f")
    try:
        assert following.stderr is not None
        first = await asyncio.to_thread(following.stderr.readline)
        assert first.startswith("Nothing to show yet: ")
        await write_status(stage.client, raw, status("digits", JobPhase.SUCCEEDED))
        output, last = await asyncio.to_thread(following.communicate, timeout=60)
    finally:
        following.kill()
    assert (following.returncode, output) == (0, "")
    assert last.startswith("Nothing to show: the job is over")


async def test_a_master_that_cannot_start_has_no_log(
    stage: Stage, console: Console, operator: OperatorProcess
) -> None:
    await create(stage.client, manifest("digits"))

    async def master() -> KubeObject:
        return (await stage.pods("digits", "master"))[0]

    async def is_there() -> bool:
        return bool(await stage.pods("digits", "master"))

    await eventually(is_there, "the master's pod")
    waiting = {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "x"'}
    container = (await master())["spec"]["containers"][0]["name"]
    told = {
        "phase": "Pending",
        "containerStatuses": [
            {
                **{"name": container, "image": "", "imageID": "", "ready": False},
                **{"restartCount": 0, "state": {"waiting": waiting}},
            }
        ],
    }
    name = (await master())["metadata"]["name"]
    await stage.client.patch_status(PODS, name, stage.client.namespace, status=told)
    said = await silence(console, "digits", "--master")
    assert said.startswith("Nothing to show: the master is being started: its image cannot be")
    assert said.endswith("; see 'resile describe digits'.")


# --- events -------------------------------------------------------------------------------------


async def test_events_are_the_jobs_and_its_pods_in_order(stage: Stage, console: Console) -> None:
    client = stage.client
    raw = await create(client, manifest("digits"), status("digits"))
    pod = await pod_of(stage, "digits-worker-0")
    other = await pod_of(stage, "digits-worker")
    await tell(client, raw, "RoundRunning", "round 1: running with 2 nodes, 4 workers")
    await tell(client, raw, "NodeStarted", "digits-worker-0 (rank 0) is running")
    await tell(client, pod, "NodeStarted", "digits-worker-0 (rank 0) is running")
    await tell(client, pod, "BackOff", "Back-off pulling image", count=3, component="kubelet")
    await tell(client, other, "Scheduled", "not of this job", component="scheduler")
    earlier = {**raw, "metadata": {**raw["metadata"], "uid": "of-an-earlier-job"}}
    await tell(client, earlier, "JobFailed", "long ago")
    lines = (await console.says("events", "digits")).splitlines()
    told = [line.split(maxsplit=1)[1] for line in lines]
    assert told == [
        f"{'RoundRunning':<18} round 1: running with 2 nodes, 4 workers",
        f"{'NodeStarted':<18} digits-worker-0 (rank 0) is running",
        f"{'BackOff':<18} digits-worker-0: Back-off pulling image (3 times)",
    ]
    (last,) = (await console.says("events", "digits", "--tail", "1", "-o", "json")).splitlines()
    assert json.loads(last)["kind"] == "BackOff"


async def test_events_are_followed_until_the_job_is_over(
    stage: Stage, console: Console, server: ApiServer
) -> None:
    client = stage.client
    raw = await create(client, manifest("digits"), status("digits"))
    event = await tell(client, raw, "NodePending", "no room")
    following = console.start("events", "digits", "-f")
    try:
        first = await asyncio.to_thread(following.stdout.readline)  # type: ignore[union-attr]
        assert first.split()[1:] == ["NodePending", "no", "room"]
        await client.patch(EVENTS, event["metadata"]["name"], {"count": 2})
        again = await asyncio.to_thread(following.stdout.readline)  # type: ignore[union-attr]
        assert again.rstrip().endswith("no room (2 times)")
        server.stop(signal.SIGKILL)
        await asyncio.to_thread(server.start)
        await eventually(lambda: client.get(ELASTIC_JOBS, "digits"), "the API server's return")
        await tell(client, raw, "RoundRunning", "round 2")
        await write_status(client, raw, status("digits", JobPhase.SUCCEEDED))
        await tell(client, raw, "JobSucceeded", "it is over")
        rest, complaints = await asyncio.to_thread(following.communicate, timeout=60)
    finally:
        following.kill()
    assert [line.split()[1] for line in rest.splitlines()] == ["RoundRunning", "JobSucceeded"]
    assert not complaints
    assert following.returncode == 0
