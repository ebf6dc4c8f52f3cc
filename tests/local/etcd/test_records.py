"""The records of an etcd store, and that they are written atomically."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resile.master.store.base import StoreUnusable
from resile.master.store.etcd import MOST_BYTES, MOST_OPERATIONS, EtcdStore, split
from resile.master.store.etcd_client import EtcdAddress, EtcdClient, parse_etcd_url
from resile.wire.endpoint import Endpoint
from tests.local.etcd.holder import Holder
from tests.local.etcd.server import EtcdServer


async def held(url: str) -> dict[str, bytes]:
    """The records that a master starting now would find."""
    store = EtcdStore.at(url)
    try:
        return await store.load()
    finally:
        await store.close()


async def test_a_new_store_is_empty(etcd: EtcdServer) -> None:
    assert await held(etcd.url) == {}


async def test_what_was_committed_is_found_by_the_next_master(etcd: EtcdServer) -> None:
    store = EtcdStore.at(etcd.url)
    await store.load()
    await store.commit({"job": b"\x00\xff", "node/1": b"one", "node/2": b"", "round": b"r"})
    await store.commit({"node/1": None, "round": b"s", "never/there": None})
    await store.close()
    assert await held(etcd.url) == {"job": b"\x00\xff", "node/2": b"", "round": b"s"}


async def test_nothing_is_left_after_erase(etcd: EtcdServer) -> None:
    store = EtcdStore.at(etcd.url)
    await store.load()
    await store.commit({"job": b"x", "round": b"y"})
    await store.erase()
    await store.close()
    assert await held(etcd.url) == {}


async def test_two_prefixes_are_two_stores(etcd: EtcdServer) -> None:
    first, second = EtcdStore.at(f"{etcd.url}/1"), EtcdStore.at(f"{etcd.url}/2")
    await first.load()
    await second.load()
    await first.commit({"job": b"first"})
    await second.commit({"job": b"second"})
    await first.erase()
    await first.close()
    await second.close()
    assert await held(f"{etcd.url}/1") == {}
    assert await held(f"{etcd.url}/2") == {"job": b"second"}


async def test_a_batch_of_a_thousand_keys_is_kept(etcd: EtcdServer) -> None:
    store = EtcdStore.at(etcd.url)
    await store.load()
    records = {f"node/{n}": f"record {n}".encode() * 20 for n in range(1000)}
    await store.commit({**records, "round": b"r"})
    await store.commit({**dict.fromkeys(list(records)[:400]), "round": b"s"})
    await store.close()
    rest = {key: value for n, (key, value) in enumerate(records.items()) if n >= 400}
    assert await held(etcd.url) == {**rest, "round": b"s"}


async def test_a_batch_of_more_bytes_than_one_request_may_have_is_kept(etcd: EtcdServer) -> None:
    store = EtcdStore.at(etcd.url)
    await store.load()
    records = {f"event/{n}": bytes([n]) * 300_000 for n in range(8)}
    await store.commit(records)
    await store.close()
    assert await held(etcd.url) == records


@pytest.mark.parametrize("moment", ["batch/000000", "batch/000004", "batch-complete"])
async def test_a_batch_cut_short_by_kill_is_kept_as_a_whole_or_not_at_all(
    etcd: EtcdServer, moment: str
) -> None:
    address = parse_etcd_url(etcd.url)
    watching = EtcdClient(address, patience=10)
    for attempt in range(3):
        with Holder(etcd.url) as holder:
            for number in range(200):
                holder.commit(keys=900, value=f"{attempt}.{number}")
            assert holder.said() == "ok"
            while await watching.get(f"{address.prefix}/{moment}") is None:
                pass
            holder.kill()
        found = await held(etcd.url)
        assert len(found) == 900
        assert len(set(found.values())) == 1
        assert found["key/000000"].startswith(f"{attempt}.".encode())
        assert not await watching.list_below(f"{address.prefix}/batch")
    await watching.close()


@given(
    st.dictionaries(
        st.integers(0, 9999).map(str),
        st.none() | st.integers(0, 2 * MOST_BYTES // 3).map(bytes),
        max_size=12,
    )
)
def test_pieces_of_a_batch_fit_and_add_up(changes: dict[str, bytes | None]) -> None:
    pieces = list(split(changes))
    assert pieces
    assert {key: value for piece in pieces for key, value in piece.items()} == changes
    assert sum(map(len, pieces)) == len(changes)
    for piece in pieces:
        assert len(piece) <= MOST_OPERATIONS
        assert len(piece) == 1 or sum(len(v or b"") for v in piece.values()) <= MOST_BYTES


def test_an_address_may_name_several_hosts_and_ports() -> None:
    assert parse_etcd_url("etcds://a,[::1]:99,b:3/x/y/") == EtcdAddress(
        hosts=(Endpoint("a", 2379), Endpoint("::1", 99), Endpoint("b", 3)), prefix="/x/y", tls=True
    )
    patient = parse_etcd_url("etcd://a/x?lease=9&patience=60")
    assert (patient.prefix, patient.lease, patient.patience) == ("/x", 9, 60)
    assert str(parse_etcd_url("etcd://h1:1,h2:2")) == "etcd://h1:1,h2:2/resile"


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("etcd://", "HOST:PORT"),
        ("etcd:///jobs", "HOST:PORT"),
        ("etcd://a:x/jobs", "'a:x' is not HOST:PORT"),
        ("etcd://a,,b/jobs", "'' is not HOST:PORT"),
        ("etcd://a/jobs?leese=3", "'leese' is neither lease nor patience"),
        ("etcd://a/jobs?lease=1", "lease must be a number of seconds, at least 2"),
        ("etcd://a/jobs?patience=nan", "patience must be a number of seconds, at least 0"),
        ("etcd://me:secret@a/jobs", "can be read by everybody"),
    ],
)
def test_an_address_that_cannot_be_is_refused(url: str, complaint: str) -> None:
    with pytest.raises(StoreUnusable, match=complaint):
        parse_etcd_url(url)
