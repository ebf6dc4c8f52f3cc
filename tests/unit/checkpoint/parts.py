"""Parts and whole checkpoints built without torch, for tests."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec

from resile.checkpoint.commit import publish, write_part
from resile.checkpoint.fence import RoundClaim
from resile.checkpoint.manifest import Manifest
from resile.checkpoint.part import PartHeader, PartKind, Slice, lay_out
from resile.checkpoint.storage.base import Storage
from resile.checkpoint.storage.retry import RetryPolicy

HASTY = RetryPolicy(seconds=0.0)
"""A single attempt."""

WORLD, REPLICAS = 2, 1


def noise(seed: str, size: int) -> bytes:
    """Bytes that differ for each seed."""
    return hashlib.shake_128(seed.encode()).digest(size)


def make_part(header: PartHeader, *, contents: Mapping[str, bytes]) -> memoryview:
    """A part in its memory layout."""
    layout = lay_out(header)
    data = bytearray(layout.size)
    data[: len(layout.header)] = layout.header
    for name, place in layout.places.items():
        data[place.begin : place.end] = contents[name]
    return memoryview(data)


def rank_part(
    step: int, rank: int, *, world: int = WORLD, seed: str = "", group: str = ""
) -> memoryview:
    """A rank's slice of one sharded tensor, 3 rows of ``world`` times 3."""
    header = PartHeader(
        step=step,
        kind=PartKind.RANK,
        index=rank,
        count=world,
        world=world,
        slices={
            "model.shard": Slice(
                dtype="F32", shape=(3, 5), whole=(3 * world, 5), offsets=(3 * rank, 0)
            )
        },
        written_group=group or msgspec.UNSET,
    )
    return make_part(header, contents={"model.shard": noise(f"{seed}/{step}/{rank}", 60)})


def replica_part(
    step: int, index: int = 0, *, count: int = REPLICAS, seed: str = "", group: str = ""
) -> memoryview:
    """One tensor that is the same on every node."""
    name = f"model.weight{index}"
    header = PartHeader(
        step=step,
        kind=PartKind.REPLICA,
        index=index,
        count=count,
        world=WORLD,
        slices={name: Slice(dtype="F32", shape=(10, 10))},
        values={"step": step},
        written_group=group or msgspec.UNSET,
    )
    return make_part(header, contents={name: noise(f"{seed}/{step}/replica{index}", 400)})


def parts_of(step: int, *, seed: str = "", group: str = "") -> list[memoryview]:
    """All parts of a step's checkpoint."""
    ranks = [rank_part(step, rank, seed=seed, group=group) for rank in range(WORLD)]
    return [*ranks, replica_part(step, seed=seed, group=group)]


def save(
    storage: Storage,
    step: int,
    *,
    attempt: str = "a1",
    seed: str = "",
    group: str = "",
    policy: RetryPolicy = HASTY,
    created: float | None = None,
    claim: RoundClaim | None = None,
) -> Manifest:
    """Run the whole protocol, as all writers in turn."""
    for part in parts_of(step, seed=seed, group=group):
        write_part(storage, part, attempt=attempt, policy=policy)
    clock = {} if created is None else {"now": lambda: created}
    return publish(
        storage,
        step=step,
        world=WORLD,
        replicas=REPLICAS,
        attempt=attempt,
        group=group,
        claim=claim,
        policy=policy,
        **clock,
    )
