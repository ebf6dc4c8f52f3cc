"""Compacted history, against a server without a cache that would hide it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from resile.kube.client import KubeClient
from resile.kube.errors import Gone
from resile.kube.resources import CONFIG_MAPS
from tests.kube.apiserver import ApiServer, running
from tests.kube.machinery.objects import config_map
from tests.kube.machinery.test_reflector import Follower, ours
from tests.waiting import eventually

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with running(tmp_path_factory.mktemp("kube"), flags=("--watch-cache=false",)) as server:
        yield server


async def test_a_watch_of_forgotten_history_is_gone(client: KubeClient, server: ApiServer) -> None:
    since = (await client.list(CONFIG_MAPS)).resource_version
    await client.create(CONFIG_MAPS, config_map("a"))
    server.compact()
    watch = client.watch(CONFIG_MAPS, resource_version=since, timeout_seconds=5)
    with pytest.raises(Gone):
        await watch.__anext__()


async def test_a_list_whose_next_page_is_gone_is_read_as_a_whole(
    client: KubeClient, server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        await client.create(CONFIG_MAPS, config_map(f"a{number}"))
    ask = client._transport.ask

    async def forgetful(*request: object, **options: object) -> object:
        answer = await ask(*request, **options)
        if "limit" in options["query"] and options["query"]["limit"]:
            await client.create(CONFIG_MAPS, config_map("b"))
            server.compact()
            monkeypatch.undo()
        return answer

    monkeypatch.setattr(client._transport, "ask", forgetful)
    listed = await client.list(CONFIG_MAPS, namespace=client.namespace, page=2)
    names = [item["metadata"]["name"] for item in listed.items]
    assert names == ["a0", "a1", "a2", "a3", "a4", "b"]


async def test_a_reflector_lists_again_when_its_history_is_forgotten(
    client: KubeClient, server: ApiServer
) -> None:
    follower = Follower(client, watch_seconds=2)
    async with follower.running():
        # Not ours, so the reflector's own position does not change.
        await client.create(CONFIG_MAPS, config_map("other"))
        server.compact()
        await eventually(lambda: follower.reflector.lists == 2, "a second list")
        await client.create(CONFIG_MAPS, ours("after"))
        await eventually(lambda: "after" in follower, "the new one")
