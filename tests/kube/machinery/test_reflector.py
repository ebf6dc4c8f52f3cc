"""The reflector against a real API server that is restarted, frozen and compacted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from resile.kube.client import KubeClient
from resile.kube.resources import CONFIG_MAPS, Key, KubeObject, Resource
from resile.kube.runtime.backoff import Backoff
from resile.kube.runtime.reflector import Reflector
from tests.kube.apiserver import ApiServer
from tests.kube.machinery.objects import config_map, labelled
from tests.waiting import PATIENCE, eventually

pytestmark = pytest.mark.timeout(120)


class Follower:
    """A reflector of one namespace's config maps, and the changes that it reported."""

    def __init__(self, client: KubeClient, **options: Any) -> None:
        self.changes: list[tuple[str, str]] = []
        self.reflector = Reflector(
            client,
            CONFIG_MAPS,
            changed=self._changed,
            namespace=client.namespace,
            labels="ours",
            **{"retry": Backoff(first=0.05, most=0.2), **options},
        )
        self._namespace = client.namespace

    def _changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        kind = "gone" if new is None else "new" if old is None else "changed"
        self.changes.append((kind, (new or old or {})["metadata"]["name"]))

    def __contains__(self, name: str) -> bool:
        return (self._namespace, name) in self.reflector.store

    def data(self, name: str) -> dict[str, str]:
        found: dict[str, str] = self.reflector.store[self._namespace, name].get("data", {})
        return found

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.ensure_future(self.reflector.run())
        try:
            await asyncio.wait_for(self.reflector.synced.wait(), PATIENCE)
            yield
            assert not task.done()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def ours(name: str, **data: str) -> KubeObject:
    return labelled(config_map(name, **data), ours="yes")


async def test_everything_that_happens_is_told_once(client: KubeClient) -> None:
    await client.create(CONFIG_MAPS, ours("before"))
    follower = Follower(client)
    async with follower.running():
        assert follower.changes == [("new", "before")]
        await client.create(CONFIG_MAPS, ours("a"))
        await client.create(CONFIG_MAPS, config_map("not-ours"))
        await client.patch(CONFIG_MAPS, "a", {"data": {"x": "1"}})
        await client.delete(CONFIG_MAPS, "before")
        await eventually(lambda: "before" not in follower, "the deletion")
    assert follower.changes[1:] == [("new", "a"), ("changed", "a"), ("gone", "before")]
    assert follower.data("a") == {"x": "1"}
    assert follower.reflector.lists == 1


async def test_a_watch_that_the_server_ends_goes_on_where_it_was(
    client: KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    watches: list[str] = []
    watch = client.watch

    def counted(kind: Resource, **options: Any) -> AsyncIterator[tuple[str, KubeObject]]:
        watches.append(options["resource_version"])
        return watch(kind, **options)

    monkeypatch.setattr(client, "watch", counted)
    follower = Follower(client, watch_seconds=1)
    async with follower.running():
        for number in range(4):
            await client.create(CONFIG_MAPS, ours(f"a{number}"))
            await eventually(lambda seen=number: len(watches) > seen, "the next watch")
        await eventually(lambda: "a3" in follower, "the last one")
    assert follower.changes == [("new", f"a{number}") for number in range(4)]
    assert follower.reflector.lists == 1


async def test_our_own_writes_are_known_at_once_and_told_once(client: KubeClient) -> None:
    follower = Follower(client)
    async with follower.running():
        first = await client.create(CONFIG_MAPS, ours("a", x="1"))
        follower.reflector.put(first)
        assert "a" in follower
        second = await client.patch(CONFIG_MAPS, "a", {"data": {"x": "2"}})
        follower.reflector.put(second)
        follower.reflector.put(first)
        assert follower.data("a") == {"x": "2"}
        # Events come in order: after the last one's, those of the earlier writes have arrived.
        await client.create(CONFIG_MAPS, ours("last"))
        await eventually(lambda: "last" in follower, "the last one")
        assert follower.data("a") == {"x": "2"}
    assert follower.changes == [("new", "a"), ("changed", "a"), ("new", "last")]


async def test_objects_are_found_by_their_index(client: KubeClient) -> None:
    def job_of(obj: KubeObject) -> Key:
        return obj["metadata"]["namespace"], obj["metadata"]["labels"]["ours"]

    follower = Follower(client, index=job_of)
    async with follower.running():
        await client.create(CONFIG_MAPS, labelled(config_map("a"), ours="j"))
        await client.create(CONFIG_MAPS, labelled(config_map("b"), ours="k"))
        await eventually(lambda: "b" in follower, "the last one")
        found = follower.reflector.by_index((client.namespace, "j"))
    assert [obj["metadata"]["name"] for obj in found] == ["a"]


async def test_a_restarted_server_is_followed_on_and_deletions_meanwhile_are_noticed(
    client: KubeClient, server: ApiServer
) -> None:
    for name in ("stays", "goes"):
        await client.create(CONFIG_MAPS, ours(name))
    follower = Follower(client)
    async with follower.running():
        server.stop()
        # Directly in etcd, so that the reflector cannot have seen it happen.
        server.forget(f"configmaps/{client.namespace}/goes")
        await asyncio.to_thread(server.start)
        await eventually(lambda: "goes" not in follower, "the deletion")
        await client.create(CONFIG_MAPS, ours("new"))
        await eventually(lambda: "new" in follower, "the new one")
    assert follower.changes[-2:] == [("gone", "goes"), ("new", "new")]
    assert "stays" in follower
    assert follower.reflector.lists >= 2


async def test_a_server_that_falls_silent_is_left_and_found_again(
    client: KubeClient, server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    follower = Follower(client, watch_seconds=1, silence_margin=0.5)
    async with follower.running():
        with server.frozen():
            await eventually(lambda: "timed out" in caplog.text, "the silence to be noticed")
        await client.create(CONFIG_MAPS, ours("after"))
        await eventually(lambda: "after" in follower, "the new one")
    assert follower.reflector.lists > 1


async def test_a_kind_that_is_not_there_is_waited_for(
    client: KubeClient, caplog: pytest.LogCaptureFixture
) -> None:
    undefined = Resource("nobody.dev", "v1", "Thing", "things")
    reflector = Reflector(
        client, undefined, changed=lambda *_: None, retry=Backoff(first=0.01, most=0.01)
    )
    task = asyncio.ensure_future(reflector.run())
    await eventually(lambda: caplog.text.count("relisting things") > 3, "some tries")
    assert not task.done()
    assert not reflector.synced.is_set()
    task.cancel()
