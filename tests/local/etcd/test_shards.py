"""Leased data survives a killed master whose store is etcd."""

from __future__ import annotations

from pathlib import Path

from resile.train.data import ShardClient
from resile.train.data.sharded.shard_client import LeasedShard
from resile.wire.endpoint import free_port
from tests.local.etcd.server import EtcdServer
from tests.local.wire.masters import MasterProcess, running_master


def client_of(master: MasterProcess) -> ShardClient:
    return ShardClient("train", total=100, shard_size=10, shuffle=True, access=master.access)


def leased(client: ShardClient) -> LeasedShard:
    shard = client.lease()
    assert shard is not None
    return shard


def test_leases_are_kept_over_the_kill_of_a_master_on_etcd(
    tmp_path: Path, etcd: EtcdServer
) -> None:
    flags = ("--job", "j", "--endpoint", f"127.0.0.1:{free_port()}", "--store", etcd.url)
    with running_master(tmp_path / "first", *flags) as master:
        holder = client_of(master)
        done, held = leased(holder), leased(holder)
        holder.done(done)
        master.process.kill()
        master.process.wait()
    with running_master(tmp_path / "second", *flags) as master:
        more, other = leased(holder), client_of(master)
        shards = [done, held, more]
        while sum(map(len, shards)) < 100:
            shards.append(leased(other))
            other.done(shards[-1])
        for shard in (held, more):
            holder.done(shard)
        assert other.lease() is None
        counted = [record for shard in shards for record in range(shard.start, shard.stop)]
        assert sorted(counted) == list(range(100))
        for client in (holder, other):
            client.close()
