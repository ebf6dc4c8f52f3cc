"""Events as the API server keeps them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from resile.kube.client import KubeClient
from resile.kube.resources import CONFIG_MAPS, EVENTS, NODES, KubeObject
from resile.kube.runtime.event_correlator import FOLDED, EventLimits
from resile.kube.runtime.events import EventRecorder
from resile.operator.build.labels import JOB, job_key
from tests.kube.apiserver import ApiServer
from tests.kube.machinery.objects import config_map
from tests.waiting import PATIENCE

pytestmark = pytest.mark.timeout(120)


@asynccontextmanager
async def running(recorder: EventRecorder) -> AsyncIterator[None]:
    task = asyncio.ensure_future(recorder.run())
    try:
        yield
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def events_of(client: KubeClient, obj: KubeObject, *, total: int) -> Sequence[KubeObject]:
    """All events of an object, once their counts add up to ``total``."""
    fields = f"involvedObject.uid={obj['metadata']['uid']}"
    namespace = obj["metadata"].get("namespace", "default")

    async def look() -> Sequence[KubeObject]:
        while True:
            found = (await client.list(EVENTS, namespace=namespace, fields=fields)).items
            if sum(event["count"] for event in found) >= total:
                return found
            await asyncio.sleep(0.02)

    return await asyncio.wait_for(look(), PATIENCE)


async def test_what_is_told_again_is_counted_on_its_event(client: KubeClient) -> None:
    obj = await client.create(CONFIG_MAPS, config_map("a"))
    recorder = EventRecorder(client)
    async with running(recorder):
        for _ in range(3):
            recorder.record(obj, "NodeRelaunched", "worker-1 ran out of memory", warning=True)
        recorder.record(obj, "Scaled", "4 workers are wanted")
        first, second = await events_of(client, obj, total=4)
    told = {event["reason"]: event for event in (first, second)}
    relaunched = told["NodeRelaunched"]
    assert relaunched["count"] == 3
    assert relaunched["type"] == "Warning"
    assert relaunched["message"] == "worker-1 ran out of memory"
    assert relaunched["source"] == {"component": "resile-operator"}
    assert relaunched["firstTimestamp"] <= relaunched["lastTimestamp"]
    assert relaunched["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "a",
        "namespace": client.namespace,
        "uid": obj["metadata"]["uid"],
        "resourceVersion": obj["metadata"]["resourceVersion"],
    }
    assert (told["Scaled"]["count"], told["Scaled"]["type"]) == (1, "Normal")
    assert recorder.dropped == 0


async def test_a_burst_of_different_messages_is_folded_into_one_event(client: KubeClient) -> None:
    obj = await client.create(CONFIG_MAPS, config_map("a"))
    recorder = EventRecorder(client, limits=EventLimits(different=2))
    async with running(recorder):
        for number in range(6):
            recorder.record(obj, "Why", f"message {number}")
        events = await events_of(client, obj, total=6)
    told = sorted((event["message"], event["count"]) for event in events)
    assert told == [(f"{FOLDED}message 5", 4), ("message 0", 1), ("message 1", 1)]


async def test_one_object_gets_so_many_events_and_the_rest_is_counted(client: KubeClient) -> None:
    loud = await client.create(CONFIG_MAPS, config_map("loud"))
    quiet = await client.create(CONFIG_MAPS, config_map("quiet"))
    recorder = EventRecorder(client, limits=EventLimits(burst=3))
    async with running(recorder):
        for _ in range(10):
            recorder.record(loud, "Why", "because")
        recorder.record(quiet, "Why", "because")
        await events_of(client, quiet, total=1)
        (event,) = await events_of(client, loud, total=3)
    assert event["count"] == 3
    assert recorder.dropped == 7


async def test_a_noisy_job_costs_no_other_job_an_event(client: KubeClient) -> None:
    template = await client.create(CONFIG_MAPS, config_map("noise"))
    quiet = await client.create(CONFIG_MAPS, config_map("silence"))
    recorder = EventRecorder(client, owner_of=job_key)
    for number in range(3000):
        metadata = {**template["metadata"], "name": f"noise-{number}", "uid": f"noise-{number}"}
        metadata["labels"] = {JOB: "noise"}
        recorder.record({**template, "metadata": metadata}, "Why", f"because of {number}")
    dropped = recorder.dropped
    assert dropped > 2000
    recorder.record(quiet, "Why", "because")
    assert recorder.dropped == dropped
    async with running(recorder):
        (event,) = await events_of(client, quiet, total=1)
        told = (await client.list(EVENTS, namespace=client.namespace)).items
    assert event["message"] == "because"
    assert len(told) < 50, "it did not wait behind the others"


async def test_an_event_that_the_server_forgot_is_made_anew(client: KubeClient) -> None:
    obj = await client.create(CONFIG_MAPS, config_map("a"))
    recorder = EventRecorder(client)
    async with running(recorder):
        recorder.record(obj, "Why", "because")
        (event,) = await events_of(client, obj, total=1)
        await client.delete(EVENTS, event["metadata"]["name"])
        recorder.record(obj, "Why", "because")
        (again,) = await events_of(client, obj, total=1)
    assert again["metadata"]["name"] != event["metadata"]["name"]
    assert again["count"] == 1


async def test_objects_without_a_namespace_and_with_long_names_have_events(
    client: KubeClient,
) -> None:
    node = await client.create(NODES, {"metadata": {"name": "n" * 63 + ".n" * 95}})
    recorder = EventRecorder(client)
    async with running(recorder):
        recorder.record(node, "Why", "x" * 5000)
        (event,) = await events_of(client, node, total=1)
    assert event["metadata"]["namespace"] == "default"
    assert len(event["message"]) == 1024
    await client.delete(NODES, node["metadata"]["name"])


async def test_what_cannot_be_written_or_kept_is_dropped_and_nobody_waits(
    client: KubeClient,
) -> None:
    obj = await client.create(CONFIG_MAPS, config_map("a"))
    nowhere = {**obj, "metadata": {**obj["metadata"], "namespace": "nowhere"}}
    recorder = EventRecorder(client, waiting=2)
    for target in (nowhere, obj, obj, obj):
        recorder.record(target, "Why", "because")
    assert recorder.dropped == 1
    async with running(recorder):
        await events_of(client, obj, total=2)
        while recorder.dropped < 2:
            await asyncio.sleep(0.02)
    assert recorder.dropped == 2


async def test_a_server_that_is_away_for_a_while_costs_no_event(
    client: KubeClient, server: ApiServer
) -> None:
    obj = await client.create(CONFIG_MAPS, config_map("a"))
    recorder = EventRecorder(client)
    server.stop()
    async with running(recorder):
        recorder.record(obj, "Why", "because")
        recorder.record(obj, "Why", "because")
        await asyncio.to_thread(server.start)
        (event,) = await events_of(client, obj, total=2)
    assert event["count"] == 2
    assert recorder.dropped == 0


async def test_what_another_recorder_told_before_is_not_told_again(client: KubeClient) -> None:
    obj = await client.create(CONFIG_MAPS, config_map("again"))
    for total in (3, 4):
        recorder = EventRecorder(client)
        async with running(recorder):
            recorder.record(obj, "RoundRunning", "round 1: 2 nodes", at=1_700_000_000.25)
            recorder.record(obj, "RoundRunning", "round 2: 2 nodes", at=1_700_000_001.25)
            recorder.record(obj, "Started", "an operator is there")
            found = await events_of(client, obj, total=total)
    assert sorted(event["message"] for event in found) == [
        *["an operator is there"] * 2,
        "round 1: 2 nodes",
        "round 2: 2 nodes",
    ]
