"""Workers of past, future or other rounds get nothing from a real master."""

from __future__ import annotations

from pathlib import Path

from resile.shards.protocol import (
    Begin,
    Begun,
    DatasetSpec,
    Lease,
    Leased,
    NotAccepted,
    NotYet,
    Pace,
    ToWorker,
    digest_of,
)
from resile.shards.spans import Spans
from tests.local.shards.asking import ask
from tests.local.wire.masters import running_master
from tests.local.wire.pretend import honest_agent, train_together

SPEC = DatasetSpec(sizes=(100,), shard_size=10, pace=Pace.TOGETHER)
CONF = "last_call=0.2,forming_timeout=2"


def begin(done: Spans) -> Begin:
    digest = digest_of(SPEC, epoch=0, done=[done])
    return Begin(dataset="d", spec=SPEC, digest=digest, done=(done.encode(),))


def lease(number: int) -> Lease:
    return Lease(dataset="d", epoch=0, number=number, records=10, shards=1)


def is_stale(answer: ToWorker) -> bool:
    return isinstance(answer, NotAccepted) and answer.stale


async def test_a_round_that_is_over_takes_nothing_from_the_one_that_runs(tmp_path: Path) -> None:
    flags = ("--nnodes", "1:4", "--rdzv-conf", CONF)
    with running_master(tmp_path, *flags) as master:
        async with honest_agent(master.access, "first") as first:
            old = (await first.trains()).round
            assert isinstance(await ask(master, begin(Spans()), round=old), Begun)
            assert isinstance(await ask(master, lease(1), round=old), Leased)
            async with honest_agent(master.access, "second") as second:
                await train_together(first, second)
                new = first.round
                assert new > old
                assert is_stale(await ask(master, lease(2), round=old))
                assert is_stale(await ask(master, begin(Spans()), round=old))
                restored = begin(Spans([(0, 20)]))
                waiting = Begin(dataset="d", spec=SPEC, digest=restored.digest)
                assert isinstance(await ask(master, waiting, round=new, rank=1), NotYet)
                assert isinstance(await ask(master, restored, round=new), Begun)
                assert isinstance(await ask(master, waiting, round=new, rank=1), Begun)
                answer = await ask(master, lease(1), round=new, rank=1)
                assert isinstance(answer, Leased)
                assert answer.shards[0].start == 20


async def test_a_rank_that_is_not_in_the_round_is_refused(tmp_path: Path) -> None:
    with running_master(tmp_path, "--nnodes", "1", "--rdzv-conf", CONF) as master:
        async with honest_agent(master.access) as agent:
            number = (await agent.trains()).round
            for where in ({"round": number, "rank": 1}, {"round": number + 1}):
                answer = await ask(master, begin(Spans()), **where)
                assert isinstance(answer, NotAccepted), where
