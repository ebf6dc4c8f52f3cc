"""An etcd that is down for a while, forever, or was never up."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest
from aiohttp import web

from resile.master.store.base import StoreUnusable
from resile.master.store.etcd import EtcdStore
from resile.wire.endpoint import free_port
from tests.local.etcd.server import EtcdServer


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
async def test_a_commit_waits_for_an_etcd_that_is_started_again(
    etcd: EtcdServer, how: signal.Signals
) -> None:
    store = EtcdStore.at(etcd.url)
    await store.load()
    await store.commit({"job": b"before"})
    etcd.stop(how)
    commit = asyncio.create_task(store.commit({"round": b"during"}))
    await asyncio.sleep(0)
    await asyncio.get_running_loop().run_in_executor(None, etcd.start)
    await commit
    await store.close()
    successor = EtcdStore.at(etcd.url)
    assert await successor.load() == {"job": b"before", "round": b"during"}
    await successor.close()


async def test_an_etcd_that_stays_away_ends_in_a_clear_sentence(etcd: EtcdServer) -> None:
    store = EtcdStore.at(f"{etcd.url}?patience=1")
    await store.load()
    etcd.stop()
    with pytest.raises(StoreUnusable, match=r"the store etcd://.* did not answer for 1 s: "):
        await store.commit({"job": b"x"})
    await store.close()


async def test_an_etcd_that_was_never_there_ends_in_a_clear_sentence() -> None:
    store = EtcdStore.at(f"etcd://127.0.0.1:{free_port()}/jobs/a?patience=0.5")
    with pytest.raises(StoreUnusable, match=r"the store etcd://127.* did not answer for 0.5 s: "):
        await store.load()


async def test_another_program_at_the_address_is_recognised() -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(text="hello")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port := free_port()).start()
    try:
        with pytest.raises(StoreUnusable, match=f"the server at 127.0.0.1:{port} is not etcd"):
            await EtcdStore.at(f"etcd://127.0.0.1:{port}/jobs/a").load()
    finally:
        await runner.cleanup()


async def test_a_host_that_does_not_answer_is_passed_over(etcd: EtcdServer) -> None:
    hosts = f"127.0.0.1:{free_port()},127.0.0.1:{etcd.port}"
    store = EtcdStore.at(f"etcd://{hosts}/jobs/a")
    await store.load()
    await store.commit({"job": b"x"})
    await store.close()
    again = EtcdStore.at(etcd.url)
    assert await again.load() == {"job": b"x"}
    await again.close()


async def test_what_etcd_refuses_is_passed_on_in_its_own_words(tmp_path: Path) -> None:
    etcd = EtcdServer(tmp_path, flags=("--max-txn-ops", "4"))
    etcd.start()
    try:
        store = EtcdStore.at(etcd.url)
        await store.load()
        with pytest.raises(StoreUnusable, match=r"refused kv/txn: .*too many operations"):
            await store.commit({f"node/{n}": b"x" for n in range(5)})
        await store.close()
    finally:
        etcd.stop()
