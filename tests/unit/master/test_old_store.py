"""A store from the time when a job had one group is read as that of the main group.

``stores/one_group.db`` is a SQLite store of that time: a job of two nodes in round 1, with a
dataset of that round and one without rounds.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from resile.master.effects import Effects
from resile.master.groups import Groups, MasterInfo
from resile.master.records import RoundPhase, decode_state
from resile.master.store.sqlite import SqliteStore
from resile.shards.leases import LeaseManager, Lessee
from resile.shards.protocol import Lease, Leased
from resile.wire.messages import Fence, Hello, LocalState, NodeInfo

STORE = Path(__file__).parent / "stores" / "one_group.db"


async def test_a_job_goes_on_from_a_store_of_one_group(tmp_path: Path) -> None:
    copy = Path(shutil.copy(STORE, tmp_path))
    store = SqliteStore(copy)
    memory = decode_state(await store.load())
    await store.close()
    assert memory is not None
    assert memory.groups == ()
    effects = Effects(memory.events)
    groups = Groups.restore(memory, effects=effects, about=MasterInfo(), now=0.0)
    main = groups.main
    assert (main.name, main.job.job, main.round.number) == ("", "none", 1)
    assert (main.round.phase, main.round.members) == (RoundPhase.RUNNING, (0, 1))
    assert (main.elasticity.lease, main.elasticity.max_nodes) == (7.0, 3)
    back = Hello(
        job="none",
        info=NodeInfo(name="first", host="h", address="127.0.0.1", nproc=1),
        elasticity=main.elasticity,
        held=Fence(0, 1),
        state=LocalState.RUNNING,
        seen=1,
    )
    assert groups.hello(back, now=0.1) == 0
    assert main.round.number == 1

    book = LeaseManager(effects, memory.shards, now=0.0)
    answer = book.lease(
        Lessee("rank-0", 1), Lease(dataset="train", epoch=0, number=2, records=10), now=0.2
    )
    assert isinstance(answer, Leased)
    assert [shard.start for shard in answer.shards] == [30]
    answer = book.lease(
        Lessee("loner"), Lease(dataset="queue", epoch=0, number=1, records=10), now=1
    )
    assert isinstance(answer, Leased)
    assert [shard.start for shard in answer.shards] == [0], "the same request, the same answer"
