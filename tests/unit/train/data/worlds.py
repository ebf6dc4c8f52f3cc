"""Jobs that train, crash, restore and change their size, without processes: samplers of all ranks.

A job is a list of rounds. Each trains some steps at its world size and saves its state after one of
them; what it trained after that is lost, and the next round goes on from what was saved.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from resile.train.data import ElasticBatchSampler, ElasticSampler
from resile.train.data.samplers.base_sampler import BaseElasticSampler

Make = Callable[[int, int], BaseElasticSampler]
"""A sampler for (rank, world)."""


@dataclass(frozen=True)
class RoundPlan:
    """One round of a job."""

    world: int
    steps: int
    lost: int
    """Steps at its end that no saved state holds."""


@dataclass
class Job:
    """A job, and the batches it trained."""

    make: Make
    state: dict[str, object] | None = None
    batches: list[tuple[int, frozenset[int]]] = field(default_factory=list)
    """Epoch and samples of every global batch that counts."""

    def run(self, plan: RoundPlan, *, epochs: int) -> None:
        """Run one round; it ends early when all epochs are trained."""
        samplers = [self.make(rank, plan.world) for rank in range(plan.world)]
        for sampler in samplers:
            if self.state is not None:
                sampler.load_state_dict(copy.deepcopy(self.state))
        kept = list(self.batches)
        wanted = plan.steps - min(plan.lost, plan.steps)
        steps = islice(joint_batches(samplers, epochs=epochs), plan.steps)
        for done, (epoch, batch) in enumerate(steps, start=1):
            kept.append((epoch, frozenset(batch)))
            for sampler in samplers:
                sampler.advance()
            states = [sampler.state_dict() for sampler in samplers]
            assert all(state == states[0] for state in states)
            if done == wanted:
                self.state, self.batches = states[0], list(kept)

    def finish(self, *, world: int, epochs: int) -> None:
        """Train to the end of the last epoch."""
        samplers = [self.make(rank, world) for rank in range(world)]
        for sampler in samplers:
            sampler.load_state_dict(self.state or sampler.state_dict())
        for epoch, batch in joint_batches(samplers, epochs=epochs):
            self.batches.append((epoch, frozenset(batch)))
            for sampler in samplers:
                sampler.advance()
        self.state = samplers[0].state_dict()

    def trained(self, epoch: int) -> list[int]:
        """Every sample of an epoch, as often as it counts."""
        return [index for number, batch in self.batches if number == epoch for index in batch]


def joint_batches(samplers: list[Any], *, epochs: int) -> Iterator[tuple[int, list[int]]]:
    """The global batches that all ranks together read, with their epochs."""
    for epoch in range(samplers[0].epoch, epochs):
        for sampler in samplers:
            sampler.set_epoch(epoch)
        lengths = [len(sampler) for sampler in samplers]
        readers = [list(sampler) for sampler in samplers]
        assert lengths == [len(reader) for reader in readers]
        streams = [
            iter([index for piece in reader for index in piece])
            if isinstance(sampler, ElasticBatchSampler)
            else iter(reader)
            for sampler, reader in zip(samplers, readers, strict=True)
        ]
        while not samplers[0].finished:
            shares = samplers[0].shares()
            batch = [
                index
                for stream, size in zip(streams, shares, strict=True)
                for index in islice(stream, size)
            ]
            assert len(batch) == sum(shares)
            yield epoch, batch
        assert all(next(stream, None) is None for stream in streams)


def plain(length: int, batch_size: int, **settings: Any) -> Make:
    """Makes samplers with a batch size for each rank."""
    return lambda rank, world: ElasticSampler(
        range(length), batch_size=batch_size, num_replicas=world, rank=rank, **settings
    )


def batched(length: int, global_batch: int, **settings: Any) -> Make:
    """Makes samplers with a batch size for the job."""
    return lambda rank, world: ElasticBatchSampler(
        range(length), global_batch=global_batch, num_replicas=world, rank=rank, **settings
    )


def noted(make: Callable[..., Make], folder: Path) -> Callable[..., Make]:
    """The same samplers, with a ledger."""
    return lambda *args, **settings: make(*args, name="data", ledger=folder, **settings)


rounds = st.lists(
    st.builds(
        RoundPlan, world=st.integers(1, 5), steps=st.integers(1, 12), lost=st.integers(0, 12)
    ),
    max_size=5,
)
