"""A small training run that can be split into rounds of different worlds, and its undisturbed twin.

Everything is float64, so that a difference beyond rounding is visible. An epoch has 53 samples in
global batches of 17, which no world here divides; its last one has 2, fewer than most worlds have
ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from resile.train.batch import ElasticTrainer
from resile.train.data import ElasticBatchSampler
from tests.local.batch.worlds import run_world

LENGTH, GLOBAL_BATCH, MICRO_BATCH = 53, 17, 4
STEPS_AN_EPOCH = 4

Rounds = list[tuple[int, int]]
"""World size and steps of each round."""

THERE_AND_BACK: Rounds = [(4, 6), (3, 5), (2, 4), (4, 5)]
"""Changes in the middle of epochs; 5 epochs in all, and each world has a short last batch."""

OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01),
}


@dataclass(frozen=True)
class Recipe:
    """The settings of a run."""

    optimizer: str = "sgd"
    way: str = "elastic"
    """A function of this module that takes the steps: ``train_<way>``."""

    wrapper: str = "ddp"
    wrapper_options: dict[str, Any] = field(default_factory=dict)
    passes: str = "auto"
    grad_scaler: bool = False
    max_norm: float | None = None
    batch_norm: bool = False


@dataclass
class Run:
    """The result of a run."""

    losses: list[float] = field(default_factory=list)
    weights: dict[str, torch.Tensor] = field(default_factory=dict)
    optimizer: dict[str, Any] = field(default_factory=dict)
    sampler: dict[str, Any] = field(default_factory=dict)

    def distance(self, other: Run) -> float:
        """The largest difference of a loss or a weight, relative to the largest of its kind."""
        assert len(self.losses) == len(other.losses)
        pairs = [(_exact(self.losses), _exact(other.losses))]
        pairs += [(self.weights[name], other.weights[name]) for name in other.weights]
        return max(float((a - b).abs().max() / b.abs().max()) for a, b in pairs)


def _exact(numbers: list[float]) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def make_model(recipe: Recipe) -> nn.Module:
    torch.manual_seed(7)
    middle = nn.Tanh()
    if recipe.batch_norm:
        middle = nn.Sequential(nn.Unflatten(1, (2, 4)), nn.BatchNorm1d(2), nn.Flatten())
    return nn.Sequential(nn.Linear(6, 8), middle, nn.Linear(8, 3)).double()


def make_data() -> TensorDataset:
    numbers = torch.Generator().manual_seed(11)
    x = torch.randn(LENGTH, 6, generator=numbers, dtype=torch.float64)
    return TensorDataset(x, torch.randint(0, 3, (LENGTH,), generator=numbers))


def tokens_of(y: torch.Tensor) -> torch.Tensor:
    """Token counts: samples of class 0 do not count, those of class 2 count twice."""
    return y.to(torch.float64)


# --- the undisturbed run: one process, plain torch ------------------------------------------------


def undisturbed(recipe: Recipe, steps: int, *, counts: bool = False) -> Run:
    """Train whole global batches on one rank, without the trainer."""
    model, data = make_model(recipe), make_data()
    optimizer = OPTIMIZERS[recipe.optimizer](model.parameters())
    sampler = ElasticBatchSampler(data, global_batch=GLOBAL_BATCH, rank=0, num_replicas=1)
    run = Run()
    for x, y in _first(steps, of=DataLoader(data, batch_sampler=sampler)):
        losses = cross_entropy(model(x), y, reduction="none")
        weights = tokens_of(y) if counts else torch.ones_like(losses)
        loss = (losses * weights).sum() / weights.sum()
        loss.backward()
        if recipe.max_norm:
            nn.utils.clip_grad_norm_(model.parameters(), recipe.max_norm)
        optimizer.step()
        optimizer.zero_grad()
        sampler.advance()
        run.losses.append(loss.item())
    return replace(run, weights=model.state_dict())


def _first(count: int, *, of: Any) -> Iterator[Any]:
    """Yield this many batches, over several epochs."""
    return islice(chain.from_iterable(repeat(of)), count)


# --- the elastic run: rounds of processes ---------------------------------------------------------


def elastic(recipe: Recipe, rounds: Rounds, *, folder: Path) -> Run:
    """Run the rounds in turn; each continues from the state that the previous one saved."""
    state = folder / "state.pt"
    for world, steps in rounds:
        run_world(world, train_round, recipe, steps, str(state), folder=folder)
    run: Run = torch.load(state, weights_only=False)
    return run


def train_round(recipe: Recipe, steps: int, state: str) -> None:
    """Run one rank of one round."""
    run: Run = torch.load(state, weights_only=False) if Path(state).exists() else Run()
    plain, data = make_model(recipe), make_data()
    if run.weights:
        plain.load_state_dict(run.weights)
    model = WRAPPERS[recipe.wrapper](plain, **recipe.wrapper_options)
    optimizer = OPTIMIZERS[recipe.optimizer](model.parameters())
    sampler = ElasticBatchSampler(data, global_batch=GLOBAL_BATCH, micro_batch=MICRO_BATCH)
    if run.sampler:
        optimizer.load_state_dict(run.optimizer)
        sampler.load_state_dict(run.sampler)
    loader = DataLoader(data, batch_sampler=sampler)
    walk = WAYS[recipe.way](model, optimizer, loader, recipe)
    run.losses += list(islice(_advancing(walk, sampler), steps))
    run = replace(
        run,
        weights={name: _full(value) for name, value in plain.state_dict().items()},
        optimizer=optimizer.state_dict(),
        sampler=sampler.state_dict(),
    )
    if dist.get_rank() == 0:
        torch.save(run, state)


def _advancing(losses: Iterator[float], sampler: ElasticBatchSampler) -> Iterator[float]:
    for loss in losses:
        sampler.advance()
        yield loss


def train_elastic(model: Any, optimizer: Any, loader: Any, recipe: Recipe) -> Iterator[float]:
    """Train epoch after epoch with the trainer."""
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10) if recipe.grad_scaler else None
    trainer = ElasticTrainer(model, optimizer, scaler=scaler, passes=recipe.passes)
    while True:
        for batches in trainer.steps(loader):
            for x, y in batches:
                trainer.backward(cross_entropy(model(x), y))
            if recipe.max_norm:
                trainer.clip(recipe.max_norm)
            trainer.step()
            yield trainer.loss()


def train_sums(model: Any, optimizer: Any, loader: Any, recipe: Recipe) -> Iterator[float]:
    """Train with a loss of a micro-batch that is a sum; otherwise as above."""
    trainer = ElasticTrainer(model, optimizer, reduction="sum")
    while True:
        for batches in trainer.steps(loader):
            for x, y in batches:
                trainer.backward(cross_entropy(model(x), y, reduction="sum"))
            trainer.step()
            yield trainer.loss()


def train_counts(model: Any, optimizer: Any, loader: Any, recipe: Recipe) -> Iterator[float]:
    """Train with a mean over a count, such as of tokens."""
    trainer = ElasticTrainer(model, optimizer, reduction="sum", mean_over="counts")
    while True:
        for batches in trainer.steps(loader):
            for x, y in batches:
                losses = cross_entropy(model(x), y, reduction="none") * tokens_of(y)
                trainer.backward(losses.sum(), count=tokens_of(y).sum())
            trainer.step()
            yield trainer.loss()


def train_unweighted(model: Any, optimizer: Any, loader: Any, recipe: Recipe) -> Iterator[float]:
    """An intentionally wrong variant: each rank divides by its own number of passes, unweighted."""
    trainer = ElasticTrainer(model, optimizer)
    while True:
        for batches in trainer.steps(loader):
            passes = len(batches.plan.passes)
            total = 0.0
            for x, y in batches:
                loss = cross_entropy(model(x), y) / passes
                batches.begin_backward()
                loss.backward()
                total += loss.item()
            trainer.step()
            mean = torch.tensor(total)
            dist.all_reduce(mean)
            yield mean.item() / dist.get_world_size()


WAYS: dict[str, Callable[..., Iterator[float]]] = {
    "elastic": train_elastic,
    "sums": train_sums,
    "counts": train_counts,
    "unweighted": train_unweighted,
}


def shard(model: nn.Module) -> nn.Module:
    """FSDP2, with one part sharded separately and the rest with the root."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    fully_shard(model[0], mesh=mesh)
    return fully_shard(model, mesh=mesh)


def with_hook(model: nn.Module) -> nn.Module:
    """DDP that averages in a communication hook."""
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

    wrapped = DistributedDataParallel(model)
    wrapped.register_comm_hook(None, allreduce_hook)
    return wrapped


def compiled(model: nn.Module) -> nn.Module:
    wrapped: nn.Module = torch.compile(DistributedDataParallel(model), backend="eager")
    return wrapped


WRAPPERS: dict[str, Callable[..., nn.Module]] = {
    "ddp": DistributedDataParallel,
    "hooked ddp": with_hook,
    "compiled ddp": compiled,
    "fsdp2": shard,
}


def _full(value: Any) -> torch.Tensor:
    return value.full_tensor() if hasattr(value, "full_tensor") else value
