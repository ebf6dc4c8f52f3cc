"""Real clients lease from a real master; both are killed, and each record counts once."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from resile.train.data.sharded.lease_sources import LeaseLost, ShardsRefused
from resile.train.data.sharded.shard_client import LeasedShard, ShardClient
from resile.wire.client import Access
from resile.wire.endpoint import free_port
from tests.local.commands import wait_for
from tests.local.wire.masters import MasterProcess, environment, running_master

CLIENT = Path(__file__).parent / "scripts" / "client.py"


def records_of(shard: LeasedShard) -> list[tuple[int, int]]:
    return [(shard.epoch, record) for record in range(shard.start, shard.stop)]


def client_of(master: MasterProcess, **options: object) -> ShardClient:
    described: dict[str, object] = {"total": 1000, "shard_size": 40, "shuffle": True, **options}
    return ShardClient("train", access=master.access, **described)  # type: ignore[arg-type]


def start_client(master: MasterProcess, log: Path, **variables: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, str(CLIENT), str(log)],
        env=environment(
            master.folder,
            RESILE_MASTER=str(master.endpoint),
            RESILE_TOKEN=master.token,
            **variables,
        ),
        stdin=subprocess.DEVNULL,
    )


def done_in(log: Path) -> Counter[tuple[int, int]]:
    """The records done by the clients' logs; a line is written before the report is sent."""
    lines = log.read_text().split("\n")[:-1] if log.exists() else []
    counted: Counter[tuple[int, int]] = Counter()
    for line in lines:
        epoch, start, stop = map(int, line.split())
        counted.update((epoch, record) for record in range(start, stop))
    return counted


def test_two_epochs_are_done_once_each_by_several_clients(tmp_path: Path) -> None:
    with running_master(tmp_path / "m", "--job", "j") as master:
        done: list[tuple[int, int]] = []

        def work() -> None:
            client = client_of(master, epochs=2)
            for shard in client:
                done.extend(records_of(shard))
            client.close()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert Counter(done) == Counter((e, r) for e in range(2) for r in range(1000))


def test_a_killed_clients_shard_is_given_to_another_at_once(tmp_path: Path) -> None:
    with running_master(tmp_path / "m", "--job", "j") as master:
        log = tmp_path / "done"
        victim = start_client(master, log, HOLD="1")
        try:
            wait_for(lambda: (tmp_path / "done.holding").exists(), "the client to hold a shard")
            victim.kill()
            victim.wait()
            client = client_of(master)
            done = Counter(record for shard in client for record in records_of(shard))
            client.close()
            assert done == Counter((0, record) for record in range(1000))
            assert "1 shard of 'train' can be leased again" in master.log
        finally:
            victim.kill()
            victim.wait()


def test_the_master_is_killed_again_and_again_while_clients_lease(tmp_path: Path) -> None:
    folder, log = tmp_path / "m", tmp_path / "done"
    endpoint = f"127.0.0.1:{free_port()}"
    flags = ("--job", "j", "--endpoint", endpoint, "--store", str(tmp_path / "store.db"))
    clients: list[subprocess.Popen[bytes]] = []
    try:
        for turn in range(4):
            with running_master(folder, *flags) as master:
                if not clients:
                    clients = [start_client(master, log, PAUSE="0.02") for _ in range(3)]
                before = len(done_in(log))
                wait_for(lambda b=before: len(done_in(log)) > b + 100, "more shards to be done")
                if turn < 3:
                    master.process.kill()
                    master.process.wait()
                else:
                    for client in clients:
                        assert client.wait(60) == 0
        assert done_in(log) == Counter((0, record) for record in range(1000))
    finally:
        for client in clients:
            client.kill()
            client.wait()


def test_a_report_after_the_lease_is_over_is_refused(tmp_path: Path) -> None:
    with running_master(tmp_path / "m", "--job", "j") as master:
        slow, other = client_of(master, patience=0.3), client_of(master, patience=0.3)
        mine = slow.lease()
        assert mine is not None
        seen: list[LeasedShard] = []

        def others_turn() -> bool:
            shard = other.lease()
            if shard is not None:
                seen.append(shard)
                other.done(shard)
            return any(set(records_of(one)) & set(records_of(mine)) for one in seen)

        wait_for(others_turn, "the shard to be given to another")
        with pytest.raises(LeaseLost, match="does not hold a lease of records"):
            slow.done(mine)
        slow.close()
        other.close()


def test_a_shard_that_is_given_back_is_taken_by_another(tmp_path: Path) -> None:
    with running_master(tmp_path / "m", "--job", "j") as master:
        one, other = client_of(master), client_of(master)
        shard = one.lease()
        assert shard is not None
        one.give_back(shard)
        again = other.lease()
        assert again is not None
        assert again.start == shard.start
        one.close()
        other.close()


def test_clients_that_describe_different_datasets_are_told_so(tmp_path: Path) -> None:
    with running_master(tmp_path / "m", "--job", "j") as master:
        first, second = client_of(master), client_of(master, total=999)
        first.lease()
        with pytest.raises(ShardsRefused, match="another sizes"):
            second.lease()
        first.close()
        second.close()


def test_a_wrong_token_is_refused_at_once(tmp_path: Path) -> None:
    with running_master(tmp_path / "m", "--job", "j") as master:
        access = Access(master.endpoint, "a-token-that-is-not-the-right-one")
        client = ShardClient("train", total=10, access=access)
        with pytest.raises(ShardsRefused, match="refused the token"):
            client.lease()


def test_a_forked_child_is_a_client_of_its_own(tmp_path: Path) -> None:
    with running_master(tmp_path / "m", "--job", "j") as master:
        client = client_of(master)
        mine = client.lease()
        assert mine is not None
        read, write = os.pipe()
        child = os.fork()
        if not child:
            with suppress(BaseException):
                shard = client.lease()
                os.write(write, repr(shard).encode())
            os._exit(0)
        os.close(write)
        try:
            with open(read) as pipe:
                said = pipe.read()
        finally:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        assert said.startswith("LeasedShard(")
        assert said != repr(mine)
        client.done(mine)
        client.close()


def test_garbage_from_a_worker_is_refused_and_others_go_on(tmp_path: Path) -> None:
    with running_master(tmp_path / "m", "--job", "j") as master:
        good = client_of(master)
        assert good.lease() is not None
        with socket.create_connection((master.endpoint.host, master.endpoint.port)) as raw:
            raw.sendall(
                b"GET /v1/shards HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n"
                b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
                b"Authorization: Bearer " + master.token.encode() + b"\r\n\r\n"
            )
            assert b"101" in raw.recv(1024)
            raw.sendall(b"\x82\x84\x00\x00\x00\x00\xff\xff\xff\xff")
            answer = raw.recv(4096)
            assert b"not a message about shards" in answer
        assert good.lease() is not None
        good.close()
