"""The client against a real API server: its writes, and its errors when they are forbidden."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest
import pytest_asyncio

from resile.kube.client import KubeClient
from resile.kube.errors import (
    AlreadyExists,
    ApiError,
    ApiUnreachable,
    Conflict,
    Invalid,
    NotFound,
)
from resile.kube.resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCES,
    NAMESPACES,
    NODES,
    PODS,
    key_of,
)
from tests.kube.apiserver import ApiServer
from tests.kube.machinery.objects import (
    WIDGETS,
    config_map,
    labelled,
    pod,
    widget,
    widget_definition,
)
from tests.waiting import PATIENCE


@pytest_asyncio.fixture
async def widgets(client: KubeClient) -> AsyncIterator[None]:
    """The custom kind, once it is served."""
    await client.apply(CUSTOM_RESOURCES, widget_definition())
    await asyncio.wait_for(_served(client), PATIENCE)
    yield


async def _served(client: KubeClient) -> None:
    while True:
        try:
            await client.list(WIDGETS)
        except NotFound:
            await asyncio.sleep(0.05)
        else:
            return


async def test_an_object_is_made_read_changed_and_deleted(client: KubeClient) -> None:
    made = await client.create(CONFIG_MAPS, config_map("a", x="1"))
    assert key_of(made) == (client.namespace, "a")
    patched = await client.patch(CONFIG_MAPS, "a", {"data": {"y": "2"}})
    assert await client.get(CONFIG_MAPS, "a", client.namespace) == patched
    assert patched["data"] == {"x": "1", "y": "2"}
    await client.delete(CONFIG_MAPS, "a")
    with pytest.raises(NotFound, match='"a" not found'):
        await client.get(CONFIG_MAPS, "a")


async def test_objects_without_a_namespace_are_reached_too(client: KubeClient) -> None:
    await client.apply(NODES, {"metadata": {"name": "n1"}})
    assert (await client.get(NODES, "n1"))["metadata"]["name"] == "n1"
    await client.delete(NODES, "n1")


async def test_a_second_object_of_a_name_is_refused(client: KubeClient) -> None:
    await client.create(CONFIG_MAPS, config_map("a"))
    with pytest.raises(AlreadyExists):
        await client.create(CONFIG_MAPS, config_map("a"))


async def test_a_dry_run_is_checked_and_leaves_nothing(client: KubeClient) -> None:
    await client.create(CONFIG_MAPS, config_map("a"), dry_run=True)
    await client.apply(CONFIG_MAPS, config_map("a"), dry_run=True)
    with pytest.raises(Invalid):
        await client.create(PODS, {"metadata": {"name": "a"}, "spec": {}}, dry_run=True)
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAPS, "a")


async def test_a_list_is_read_in_pages_and_by_label(client: KubeClient) -> None:
    for number in range(7):
        obj = config_map(f"a{number}")
        await client.create(CONFIG_MAPS, labelled(obj, odd=str(number % 2)))
    listed = await client.list(CONFIG_MAPS, namespace=client.namespace, labels="odd", page=2)
    assert [item["metadata"]["name"] for item in listed.items] == [f"a{n}" for n in range(7)]
    assert {(item["apiVersion"], item["kind"]) for item in listed.items} == {("v1", "ConfigMap")}
    assert int(listed.resource_version) > 0
    odd = await client.list(
        CONFIG_MAPS, labels="odd=1", fields=f"metadata.namespace={client.namespace}"
    )
    assert len(odd.items) == 3


async def test_a_list_of_all_namespaces_is_one(client: KubeClient) -> None:
    other = f"{client.namespace}-other"
    await client.create(NAMESPACES, {"metadata": {"name": other}})
    for namespace in (client.namespace, other):
        obj = labelled(config_map("same"), only=client.namespace)
        obj["metadata"]["namespace"] = namespace
        await client.create(CONFIG_MAPS, obj)
    listed = await client.list(CONFIG_MAPS, labels=f"only={client.namespace}")
    assert {key_of(item)[0] for item in listed.items} == {client.namespace, other}


async def test_apply_removes_what_its_owner_does_not_apply_any_more(client: KubeClient) -> None:
    await client.apply(CONFIG_MAPS, config_map("a", ours="1", gone="1"))
    await client.apply(CONFIG_MAPS, config_map("a", theirs="1"), owner="someone")
    applied = await client.apply(CONFIG_MAPS, config_map("a", ours="2"))
    assert applied["data"] == {"ours": "2", "theirs": "1"}


async def test_apply_over_another_owner_needs_force(client: KubeClient) -> None:
    await client.apply(CONFIG_MAPS, config_map("a", x="1"), owner="someone")
    with pytest.raises(Conflict, match='conflict with "someone"'):
        await client.apply(CONFIG_MAPS, config_map("a", x="2"), force=False)
    assert (await client.apply(CONFIG_MAPS, config_map("a", x="2")))["data"] == {"x": "2"}


@pytest.mark.usefixtures("widgets")
async def test_unknown_fields_survive(client: KubeClient) -> None:
    deep = {"future": {"field": [1, {"more": "yes"}]}}
    await client.apply(WIDGETS, widget("a", **deep))
    assert (await client.get(WIDGETS, "a"))["spec"] == deep
    listed = await client.list(WIDGETS, namespace=client.namespace)
    assert listed.items[0]["spec"] == deep


@pytest.mark.usefixtures("widgets")
async def test_status_is_patched_only_at_the_version_it_was_made_for(client: KubeClient) -> None:
    made = await client.create(WIDGETS, widget("a", size=1))
    version = made["metadata"]["resourceVersion"]
    status = {"phase": "Running", "nodes": [1, 2]}
    patched = await client.patch_status(
        WIDGETS, "a", client.namespace, status=status, resource_version=version
    )
    assert patched["status"] == status
    assert patched["spec"] == {"size": 1}
    with pytest.raises(Conflict, match="the object has been modified"):
        await client.patch_status(
            WIDGETS, "a", client.namespace, status={"phase": "Old"}, resource_version=version
        )
    unlocked = await client.patch_status(WIDGETS, "a", client.namespace, status={"phase": None})
    assert unlocked["status"] == {"nodes": [1, 2]}


@pytest.mark.usefixtures("widgets")
async def test_an_invalid_object_is_refused_with_the_name_of_the_field(client: KubeClient) -> None:
    with pytest.raises(Invalid, match=r"spec\.size") as refused:
        await client.create(WIDGETS, widget("a", size=-1))
    assert refused.value.fields == ("spec.size",)
    broken = pod("a", restartPolicy="Sometimes")
    with pytest.raises(Invalid, match=r"spec\.restartPolicy"):
        await client.create(PODS, broken)


async def test_a_kind_that_nobody_defined_is_not_found(client: KubeClient) -> None:
    unknown = type(WIDGETS)("nobody.dev", "v1", "Thing", "things")
    with pytest.raises(NotFound):
        await client.list(unknown)


async def test_delete_spares_another_object_of_the_same_name(client: KubeClient) -> None:
    first = await client.create(CONFIG_MAPS, config_map("a"))
    await client.delete(CONFIG_MAPS, "a", uid=first["metadata"]["uid"])
    await client.create(CONFIG_MAPS, config_map("a"))
    with pytest.raises(Conflict, match="does not match the UID in record"):
        await client.delete(CONFIG_MAPS, "a", uid=first["metadata"]["uid"])
    assert await client.get(CONFIG_MAPS, "a")


async def test_a_pod_is_given_its_grace_or_none(client: KubeClient) -> None:
    await client.create(PODS, pod("a", nodeName="n1"))
    await client.delete(PODS, "a", grace_seconds=7)
    assert (await client.get(PODS, "a"))["metadata"]["deletionGracePeriodSeconds"] == 7
    await client.delete(PODS, "a", grace_seconds=0)
    with pytest.raises(NotFound):
        await client.get(PODS, "a")


async def test_a_watch_tells_what_happens_and_ends_in_time(client: KubeClient) -> None:
    since = (await client.list(CONFIG_MAPS, namespace=client.namespace)).resource_version
    text = "a line\u0085that is one\u2028in JSON\n"
    await client.create(CONFIG_MAPS, config_map("a", text=text))
    await client.patch(CONFIG_MAPS, "a", {"data": {"text": "2"}})
    await client.delete(CONFIG_MAPS, "a")
    seen = []
    events = client.watch(
        CONFIG_MAPS, namespace=client.namespace, resource_version=since, timeout_seconds=2
    )
    async with aclosing(events):
        async for kind, obj in events:
            if kind != "BOOKMARK":
                seen.append((kind, obj["data"]["text"]))
    assert seen == [("ADDED", text), ("MODIFIED", "2"), ("DELETED", "2")]


async def test_logs_are_empty_of_what_never_ran_and_refused_of_what_is_not_there(
    client: KubeClient,
) -> None:
    await client.create(PODS, pod("a"))
    assert [piece async for piece in client.logs("a", container="main", tail=5)] == []
    with pytest.raises(ApiError, match="container other is not valid for pod a"):
        await client.logs("a", container="other", follow=True).__anext__()
    with pytest.raises(NotFound, match='"b" not found'):
        await client.logs("b").__anext__()


async def test_a_server_that_is_away_is_unreachable_and_then_there_again(
    client: KubeClient, server: ApiServer
) -> None:
    await client.create(CONFIG_MAPS, config_map("a"))
    server.stop()
    try:
        with pytest.raises(ApiUnreachable, match=f"the API server at {server.url} does not answer"):
            await client.get(CONFIG_MAPS, "a")
    finally:
        server.start()
    assert await client.get(CONFIG_MAPS, "a")
