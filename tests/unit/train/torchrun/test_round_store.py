"""The stores of one round."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributed import TCPStore
from torch.distributed.elastic.agent.server.api import WorkerSpec
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
from torch.distributed.elastic.rendezvous import RendezvousHandler

from resile.train.torchrun.round_store import WorkerStore, agent_store
from resile.wire.messages import Start, StoreAddress


class Nowhere(RendezvousHandler):  # type: ignore[misc]  # torch is not followed by mypy
    """A stub that an agent requires."""

    def get_backend(self) -> str:
        return "nowhere"

    def next_rendezvous(self) -> None:
        raise NotImplementedError

    def is_closed(self) -> bool:
        return False

    def set_closed(self) -> None:
        return

    def num_nodes_waiting(self) -> int:
        return 0

    def get_run_id(self) -> str:
        return "test"

    def shutdown(self) -> bool:
        return True


def torchrun_agent(nproc: int) -> LocalElasticAgent:
    spec = WorkerSpec(
        role="default", local_world_size=nproc, entrypoint="true", rdzv_handler=Nowhere()
    )
    return LocalElasticAgent(spec, DefaultLogsSpecs(), exit_barrier_timeout=10)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.data())
def test_torchruns_own_agent_finds_its_ranks_and_never_waits(
    sizes: list[int], data: st.DataObject
) -> None:
    rank = data.draw(st.integers(0, len(sizes) - 1))
    first, world = sum(sizes[:rank]), sum(sizes)
    agent = torchrun_agent(sizes[rank])
    spec = agent.get_worker_group().spec
    start = Start(
        round=3,
        group_rank=rank,
        group_world_size=len(sizes),
        first_rank=first,
        world_size=world,
        store=StoreAddress("127.0.0.1", 1),
        restart_count=0,
        max_restarts=0,
    )
    store = agent_store(start, spec)
    workers = agent._assign_worker_ranks(store, rank, len(sizes), spec)
    assert [worker.global_rank for worker in workers] == list(range(first, first + sizes[rank]))
    assert {worker.world_size for worker in workers} == {world}
    agent._store, agent.get_worker_group().group_world_size = store, len(sizes)
    agent._exit_barrier()
    assert store.num_keys() > 0


def test_workers_reach_the_store_at_its_one_address_and_no_other() -> None:
    store = WorkerStore("127.0.0.1")
    patience = timedelta(seconds=5)
    client = TCPStore("127.0.0.1", store.address.port, is_master=False, timeout=patience)
    client.set("key", "value")
    assert client.get("key") == b"value"
    with pytest.raises(Exception, match=r"refused|timed out|failed"):
        TCPStore("127.0.0.2", store.address.port, is_master=False, timeout=timedelta(seconds=1))


def test_every_round_has_a_store_of_its_own() -> None:
    first, second = WorkerStore("127.0.0.1"), WorkerStore("127.0.0.1")
    assert first.address.port != second.address.port
