"""A master's Prometheus metrics about the data that it leases."""

from __future__ import annotations

from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from resile.shards.protocol import Begin, Begun, DatasetSpec, Lease, Leased, Pace, digest_of
from resile.shards.spans import Spans
from resile.train.data import ShardClient
from tests.local.shards.asking import ask
from tests.local.wire.masters import MasterProcess, running_master
from tests.local.wire.pretend import honest_agent, train_together

CONF = "last_call=0.2,forming_timeout=2"


def figures(master: MasterProcess, dataset: str) -> dict[str, float]:
    """The figures of one dataset: by state, or by name where there is no state."""
    code, text = master.ask("/metrics")
    assert code == 200, text
    return {
        sample.labels.get("state") or sample.name.removeprefix("resile_dataset_"): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.labels.get("dataset") == dataset
    }


def test_records_are_counted_by_what_became_of_them(tmp_path: Path) -> None:
    with running_master(tmp_path, "--job", "j") as master:
        one, other = (
            ShardClient("train", total=1000, shard_size=10, access=master.access) for _ in range(2)
        )
        shards = [one.lease(), one.lease(), other.lease()]
        assert figures(master, "train") == {
            "epoch": 0,
            "waiting": 970,
            "leased": 30,
            "completed": 0,
            "records_leased_total": 30,
            "records_returned_total": 0,
        }
        assert all(shards)
        one.done(shards[0])
        other.give_back(shards[2])
        assert figures(master, "train") == {
            "epoch": 0,
            "waiting": 980,
            "leased": 10,
            "completed": 10,
            "records_leased_total": 30,
            "records_returned_total": 10,
        }
        assert figures(master, "another") == {}
        one.close()
        other.close()


def test_a_stream_has_no_records_to_wait_for(tmp_path: Path) -> None:
    with running_master(tmp_path, "--job", "j") as master:
        client = ShardClient("log", partitions=2, shard_size=10, access=master.access)
        assert client.lease()
        assert figures(master, "log") == {
            "epoch": 0,
            "records_leased_total": 10,
            "records_returned_total": 0,
        }
        client.close()


async def test_a_round_that_ends_gives_back_what_was_not_saved(tmp_path: Path) -> None:
    spec = DatasetSpec(sizes=(100,), shard_size=10, pace=Pace.TOGETHER)

    async def begin(round: int, done: Spans) -> None:
        digest = digest_of(spec, epoch=0, done=[done])
        request = Begin(dataset="d", spec=spec, digest=digest, done=(done.encode(),))
        assert isinstance(await ask(master, request, round=round), Begun)

    with running_master(tmp_path, "--nnodes", "1:2", "--rdzv-conf", CONF) as master:
        async with honest_agent(master.access, "first") as first:
            old = (await first.trains()).round
            await begin(old, Spans())
            request = Lease(dataset="d", epoch=0, number=1, records=60)
            assert isinstance(await ask(master, request, round=old), Leased)
            assert figures(master, "d") == {
                "epoch": 0,
                "waiting": 40,
                "leased": 60,
                "completed": 0,
                "records_leased_total": 60,
                "records_returned_total": 0,
            }
            async with honest_agent(master.access, "second") as second:
                await train_together(first, second)
                await begin(first.round, Spans([(0, 45)]))
                assert figures(master, "d") == {
                    "epoch": 0,
                    "waiting": 55,
                    "leased": 0,
                    "completed": 45,
                    "records_leased_total": 60,
                    "records_returned_total": 15,
                }
