"""One master at a time, whatever happens to it."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import msgspec
import pytest

from resile.master.store.base import StoreTaken, StoreUnusable
from resile.master.store.etcd import EtcdStore, Owner
from resile.master.store.etcd_client import EtcdClient, parse_etcd_url, put
from tests.local.etcd.holder import Holder
from tests.local.etcd.server import EtcdServer

LEASE = 2


async def once_free(etcd: EtcdServer) -> EtcdStore:
    """The store, once its owner's lease has expired."""
    while True:
        store = store_at(etcd)
        with suppress(StoreTaken):
            assert await store.load() == {"key/000000": b"before"}
            return store


def store_at(etcd: EtcdServer) -> EtcdStore:
    return EtcdStore.at(f"{etcd.url}?lease={LEASE}")


@asynccontextmanager
async def master_on_another_machine(etcd: EtcdServer) -> AsyncIterator[asyncio.Event]:
    """An owner whose state cannot be checked on this machine; it lives until the event is set."""
    address = parse_etcd_url(etcd.url)
    client = EtcdClient(address, patience=10)
    lease = await client.grant(LEASE)
    owner = Owner(token="x", host="elsewhere", pid=1, started=1, world="another boot")
    claim = put(f"{address.prefix}/owner", msgspec.json.encode(owner), lease=lease)
    await client.transact([], [claim])
    dead = asyncio.Event()

    async def live() -> None:
        while not dead.is_set():
            await client.keep_alive(lease)
            await asyncio.wait([asyncio.ensure_future(dead.wait())], timeout=LEASE / 4)

    living = asyncio.create_task(live())
    yield dead
    dead.set()
    await living
    await client.close()


async def test_a_second_master_on_this_machine_is_refused_at_once(
    etcd: EtcdServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="resile.master")
    first = store_at(etcd)
    await first.load()
    with pytest.raises(StoreTaken, match=r"is in use by a running master \(pid \d+ on "):
        await store_at(etcd).load()
    assert "waiting" not in caplog.text
    await first.commit({"job": b"still mine"})
    await first.close()


async def test_a_master_on_another_machine_is_waited_for_and_believed_when_it_lives(
    etcd: EtcdServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="resile.master")
    async with master_on_another_machine(etcd):
        with pytest.raises(StoreTaken, match=r"is in use by a running master \(pid 1 on elsewhere"):
            await store_at(etcd).load()
    assert "held by pid 1 on elsewhere: waiting up to 2 s for the end of its lease" in caplog.text


async def test_a_dead_master_on_another_machine_is_succeeded_when_its_lease_is_over(
    etcd: EtcdServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="resile.master")
    async with master_on_another_machine(etcd) as dead:
        dead.set()
        store = store_at(etcd)
        assert await store.load() == {}
        await store.close()
    assert "waiting up to 2 s for the end of its lease" in caplog.text


async def test_a_master_that_closed_its_store_is_succeeded_at_once(etcd: EtcdServer) -> None:
    first, second = store_at(etcd), store_at(etcd)
    await first.load()
    await first.commit({"job": b"x"})
    await first.close()
    assert await second.load() == {"job": b"x"}
    await second.close()


async def test_a_killed_master_of_this_machine_is_succeeded_at_once(
    etcd: EtcdServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="resile.master")
    with Holder(etcd.url, lease=600) as holder:
        holder.commit(keys=1, value="x")
        assert holder.said() == "ok"
        holder.kill()
        store = store_at(etcd)
        assert await store.load() == {"key/000000": b"x"}
        await store.close()
    assert "waiting" not in caplog.text


async def test_a_silent_master_is_succeeded_when_its_lease_is_over_and_fenced_when_it_wakes(
    etcd: EtcdServer,
) -> None:
    with Holder(etcd.url, lease=LEASE) as holder:
        holder.commit(keys=1, value="before")
        assert holder.said() == "ok"
        holder.signal(signal.SIGSTOP)
        successor = await once_free(etcd)
        await successor.commit({"key/000000": b"taken over"})
        holder.commit(keys=1, value="late")
        holder.commit(keys=500, value="late")
        holder.signal(signal.SIGCONT)
        for _ in range(2):
            assert holder.said().startswith("StoreTaken: another master took over the store etcd:")
        await successor.close()
        holder.commit(keys=1, value="late")
        assert holder.said().startswith("StoreTaken")
    after = store_at(etcd)
    assert await after.load() == {"key/000000": b"taken over"}
    await after.close()


async def test_a_lease_lost_to_an_outage_is_taken_again_behind_the_same_fence(
    etcd: EtcdServer,
) -> None:
    store = store_at(etcd)
    await store.load()
    address = parse_etcd_url(etcd.url)
    client = EtcdClient(address, patience=10)
    etcd.end_leases()
    assert await client.get(f"{address.prefix}/owner") is None
    await store.commit({"job": b"mine all the same"})
    while await client.get(f"{address.prefix}/owner") is None:
        pass
    with pytest.raises(StoreTaken):
        await store_at(etcd).load()
    await store.close()
    await client.close()


async def test_a_closed_store_takes_nothing(etcd: EtcdServer) -> None:
    store = store_at(etcd)
    with pytest.raises(StoreUnusable, match="is not open"):
        await store.commit({"job": b"x"})
    await store.load()
    await store.close()
    with pytest.raises(StoreUnusable, match="is not open"):
        await store.erase()
