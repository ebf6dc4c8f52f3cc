"""The trainer in one process: its arithmetic, its loss, and its errors for wrong calls."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from resile.train.batch import BatchMistake, ElasticTrainer, LinearScaling, PlanBroken
from resile.train.data import ElasticBatchSampler

DATA = TensorDataset(torch.arange(1.0, 11.0, dtype=torch.float64))


def make(
    *, global_batch: int = 4, micro_batch: int | None = 3, workers: int = 0, **options: Any
) -> tuple[torch.Tensor, ElasticTrainer, Any]:
    """A weight whose gradient is the mean of the samples, its trainer and its loader."""
    model = torch.nn.Linear(1, 1, bias=False).double()
    torch.nn.init.zeros_(model.weight)
    trainer = ElasticTrainer(model, torch.optim.SGD(model.parameters(), lr=1.0), **options)
    sampler = ElasticBatchSampler(
        DATA,
        global_batch=global_batch,
        micro_batch=micro_batch,
        shuffle=False,
        rank=0,
        num_replicas=1,
    )
    return model.weight, trainer, DataLoader(DATA, batch_sampler=sampler, num_workers=workers)


def losses(trainer: ElasticTrainer, x: torch.Tensor) -> torch.Tensor:
    return trainer.model(x[:, None])[:, 0]


def gradients(weight: torch.Tensor, trainer: ElasticTrainer, loader: Any) -> list[float]:
    found = []
    for batches in trainer.steps(loader):
        for (x,) in batches:
            trainer.backward(losses(trainer, x).mean())
        assert weight.grad is not None
        found.append(weight.grad.item())
        trainer.optimizer.zero_grad()
    return found


@pytest.mark.parametrize("workers", [0, 2])
def test_every_gradient_is_the_mean_over_its_global_batch(workers: int) -> None:
    found = gradients(*make(workers=workers))
    assert found == pytest.approx([2.5, 6.5, 9.5], rel=1e-15)


def test_a_global_batch_knows_its_samples() -> None:
    _, trainer, loader = make()
    found = []
    for batches in trainer.steps(loader):
        found.append(batches.samples)
        for (x,) in batches:
            assert not batches.filling
            trainer.backward(losses(trainer, x).mean())
    assert found == [4, 4, 2]


def test_the_loss_is_the_mean_over_the_global_batch() -> None:
    weight, trainer, loader = make()
    torch.nn.init.ones_(weight)
    found = []
    for batches in trainer.steps(loader):
        for (x,) in batches:
            trainer.backward(losses(trainer, x).mean())
        found += [trainer.loss(), trainer.loss()]
    assert found == pytest.approx([2.5, 2.5, 6.5, 6.5, 9.5, 9.5], rel=1e-15)


def test_counts_that_are_all_zero_give_a_gradient_of_zero() -> None:
    weight, trainer, loader = make(reduction="sum", mean_over="counts")
    for batches in trainer.steps(loader):
        for (x,) in batches:
            trainer.backward(losses(trainer, x).sum() * 0, count=0)
        assert weight.grad is not None
        assert weight.grad.item() == 0.0


def test_a_step_scales_the_learning_rate_by_the_whole_batch_even_in_the_short_last_one() -> None:
    weight, trainer, loader = make(learning_rate=LinearScaling(8))
    for batches in trainer.steps(loader):
        for (x,) in batches:
            trainer.backward(losses(trainer, x).mean())
        trainer.step()
    assert weight.item() == pytest.approx(-(2.5 + 6.5 + 9.5) / 2, rel=1e-15)


def test_a_script_may_step_by_itself() -> None:
    weight, trainer, loader = make()
    for batches in trainer.steps(loader):
        for (x,) in batches:
            trainer.backward(losses(trainer, x).mean())
        trainer.optimizer.step()
        trainer.optimizer.zero_grad()
    assert weight.item() == pytest.approx(-18.5, rel=1e-15)


def test_clipping_gives_the_norm_of_the_whole_gradient() -> None:
    weight, trainer, loader = make()
    batches = next(trainer.steps(loader))
    for (x,) in batches:
        trainer.backward(losses(trainer, x).mean())
    assert trainer.clip(1.0).item() == pytest.approx(2.5, rel=1e-15)
    assert weight.grad is not None
    assert weight.grad.item() == pytest.approx(1.0, rel=1e-5)


@pytest.mark.parametrize("call", ["step", "loss", "clip"])
def test_nothing_is_done_with_half_a_gradient(call: str) -> None:
    _, trainer, loader = make()
    for batches in trainer.steps(loader):
        for (x,) in batches:
            trainer.backward(losses(trainer, x).mean())
            with pytest.raises(BatchMistake, match="not complete"):
                getattr(trainer, call)(*([1.0] if call == "clip" else []))
            break
        break


def test_a_micro_batch_without_backward_is_a_mistake() -> None:
    _, trainer, loader = make()
    with pytest.raises(BatchMistake, match="once for each"):
        for _ in next(trainer.steps(loader)):
            pass


def test_a_second_backward_of_one_micro_batch_is_a_mistake() -> None:
    _, trainer, loader = make()
    (x,) = next(iter(next(trainer.steps(loader))))
    trainer.backward(losses(trainer, x).mean())
    with pytest.raises(BatchMistake, match="once for each"):
        trainer.backward(losses(trainer, x).mean())


def test_a_global_batch_that_is_left_early_is_a_mistake() -> None:
    _, trainer, loader = make()
    steps = trainer.steps(loader)
    next(steps)
    with pytest.raises(BatchMistake, match="not complete"):
        next(steps)


def test_a_backward_outside_of_a_global_batch_is_a_mistake() -> None:
    _, trainer, _ = make()
    with pytest.raises(BatchMistake, match=r"trainer\.steps"):
        trainer.backward(torch.ones((), requires_grad=True))


def test_counts_are_wanted_when_they_are_meant_and_only_then() -> None:
    _, trainer, loader = make(mean_over="counts")
    (x,) = next(iter(next(trainer.steps(loader))))
    with pytest.raises(BatchMistake, match=r"count=\.\.\."):
        trainer.backward(losses(trainer, x).mean())
    _, trainer, loader = make()
    (x,) = next(iter(next(trainer.steps(loader))))
    with pytest.raises(BatchMistake, match='mean_over="counts"'):
        trainer.backward(losses(trainer, x).mean(), count=3)


@pytest.mark.parametrize("option", ["reduction", "mean_over", "passes"])
def test_an_unknown_choice_names_those_there_are(option: str) -> None:
    with pytest.raises(BatchMistake, match=f"{option}='none' must be one of '"):
        make(**{option: "none"})


class Meddling(DataLoader):  # type: ignore[misc]
    """Yields one batch more, or fewer, than its sampler."""

    change = 0

    def __iter__(self) -> Any:
        given = list(super().__iter__())
        return iter(given + given[: self.change] if self.change > 0 else given[: self.change])


@pytest.mark.parametrize(("change", "text"), [(1, "more batches"), (-1, "ended before")])
def test_a_loader_that_does_not_keep_to_its_sampler_is_found_out(change: int, text: str) -> None:
    weight, trainer, loader = make()
    meddling = Meddling(DATA, batch_sampler=loader.batch_sampler)
    meddling.change = change
    with pytest.raises(PlanBroken, match=text):
        gradients(weight, trainer, meddling)
