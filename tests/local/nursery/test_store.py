"""A fresh store for every round."""

import asyncio
import os
import socket
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from resile.agent.nursery import Nursery, Preload, PreloadMode, StoreHost, StoreUnavailable
from tests.local.nursery.harness import (
    PATIENCE,
    NurseryHarness,
    Running,
    executable,
    is_alive,
    kill,
    nursery_for,
    script,
    until,
)

Write = Callable[[str, str], Path]

TRAIN = """
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
weights = torch.cat([parameter.flatten() for parameter in model.parameters()])
print("trained", dist.get_world_size(), weights.tolist(), flush=True)
dist.destroy_process_group()
"""


async def spawn_round(harness: NurseryHarness, store: StoreHost, size: int = 2) -> list[Running]:
    return await harness.spawn(
        size,
        WORLD_SIZE=str(size),
        MASTER_ADDR=store.host,
        MASTER_PORT=str(store.port),
        TORCHELASTIC_USE_AGENT_STORE="True",
    )


@pytest.mark.parametrize(
    ("mode", "rounds"), [(PreloadMode.AUTO, 3), (PreloadMode.NONE, 1)], ids=["warm", "cold"]
)
async def test_rounds_train_on_their_own_store(
    tmp_path: Path, write: Write, mode: PreloadMode, rounds: int
) -> None:
    write("train.py", TRAIN)
    async with nursery_for(tmp_path, script("train.py"), preload=Preload(mode)) as harness:
        assert await harness.nursery.wants_torch()
        ports = set()
        for _ in range(rounds):
            store = await harness.nursery.open_store()
            ports.add(store.port)
            outcomes = [await running.outcome() for running in await spawn_round(harness, store)]
            assert [outcome.returncode for outcome in outcomes] == [0, 0], outcomes
            assert outcomes[0].stdout.startswith("trained 2")
            assert outcomes[0].stdout == outcomes[1].stdout
            await store.close()
            assert not is_alive(store.pid)
        assert len(ports) == rounds


async def test_a_store_listens_on_one_address_only(tmp_path: Path, write: Write) -> None:
    write("train.py", "import torch")
    async with nursery_for(tmp_path, script("train.py")) as harness:
        store = await harness.nursery.open_store()
        process = psutil.Process(store.pid)

        def listening() -> list[tuple[str, int]]:
            return [
                (connection.laddr.ip, connection.laddr.port)
                for connection in process.net_connections()
                if connection.status == psutil.CONN_LISTEN
            ]

        # The kernel's table of sockets changes while it is read: one may be missed.
        await until(lambda: listening() == [("127.0.0.1", store.port)])
        socket.create_connection((store.host, store.port), PATIENCE).close()
        await store.close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((store.host, store.port), PATIENCE)


async def test_a_store_that_dies_is_noticed(tmp_path: Path, write: Write) -> None:
    write("train.py", "import torch")
    async with nursery_for(tmp_path, script("train.py")) as harness:
        store = await harness.nursery.open_store()
        kill(store.pid)
        assert await asyncio.wait_for(store.wait(), PATIENCE) == -9
        await store.close()


async def test_closing_the_nursery_closes_its_stores(tmp_path: Path) -> None:
    async with nursery_for(tmp_path, executable("true")) as harness:
        stores = [await harness.nursery.open_store() for _ in range(2)]
        assert stores[0].port != stores[1].port
    await until(lambda: not any(is_alive(store.pid) for store in stores))


async def test_a_script_without_torch_wants_no_store(tmp_path: Path, write: Write) -> None:
    write("train.py", "import json")
    async with nursery_for(tmp_path, script("train.py")) as harness:
        assert not await harness.nursery.wants_torch()


async def test_a_program_is_assumed_to_use_torch_if_it_is_there(tmp_path: Path) -> None:
    async with nursery_for(tmp_path, executable("true")) as harness:
        assert await harness.nursery.wants_torch()


async def test_an_address_that_is_not_ours_is_refused(tmp_path: Path) -> None:
    nursery = Nursery(
        command=executable("true"), env=dict(os.environ), cwd=str(tmp_path), address="192.0.2.1"
    )
    await nursery.start()
    try:
        with pytest.raises(StoreUnavailable, match=r"no store on 192\.0\.2\.1"):
            await nursery.open_store()
    finally:
        await nursery.close()
