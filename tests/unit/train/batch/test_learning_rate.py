"""The learning rate follows the batch, and is visible only to the optimizer's step."""

from __future__ import annotations

import copy

import pytest
import torch

from resile.train.batch import BatchMistake, LinearScaling, SqrtScaling, scaled


def one_weight() -> torch.Tensor:
    return torch.zeros(1, requires_grad=True)


def test_linear_scaling_doubles_with_the_batch() -> None:
    assert LinearScaling(64)(128) == 2.0


def test_sqrt_scaling_doubles_with_four_times_the_batch() -> None:
    assert SqrtScaling(64)(256) == 2.0


def test_a_base_batch_of_nothing_is_refused() -> None:
    with pytest.raises(BatchMistake, match="base_batch=0"):
        LinearScaling(0)


def test_a_step_takes_the_scaled_rate() -> None:
    weight = one_weight()
    optimizer = torch.optim.SGD([weight], lr=0.5)
    weight.grad = torch.ones(1)
    with scaled(optimizer, LinearScaling(4), batch=12):
        optimizer.step()
    assert weight.item() == -1.5


def test_every_group_has_its_own_rate_back_to_the_bit() -> None:
    rates = [0.1, 0.3]
    optimizer = torch.optim.SGD([{"params": [one_weight()], "lr": rate} for rate in rates])
    with scaled(optimizer, LinearScaling(7), batch=3):
        assert [group["lr"] for group in optimizer.param_groups] == [r * (3 / 7) for r in rates]
    assert [group["lr"] for group in optimizer.param_groups] == rates


def test_a_step_that_fails_leaves_the_rate_as_it_was() -> None:
    optimizer = torch.optim.SGD([one_weight()], lr=0.1)
    with pytest.raises(RuntimeError), scaled(optimizer, LinearScaling(1), batch=9):
        raise RuntimeError
    assert optimizer.param_groups[0]["lr"] == 0.1


def test_a_rate_that_is_a_tensor_is_not_changed_in_place() -> None:
    rate = torch.tensor(0.25)
    optimizer = torch.optim.Adam([one_weight()], lr=rate)
    with scaled(optimizer, SqrtScaling(1), batch=4):
        assert optimizer.param_groups[0]["lr"].item() == 0.5
    assert optimizer.param_groups[0]["lr"] is rate


def steps_of(batches: list[int], *, restore_before: int | None) -> list[float]:
    """The change of a weight in each step under a schedule, with or without a restart."""

    def fresh() -> tuple[torch.Tensor, torch.optim.Optimizer, torch.optim.lr_scheduler.StepLR]:
        weight = one_weight()
        optimizer = torch.optim.SGD([weight], lr=1.0)
        return weight, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5)

    weight, optimizer, schedule = fresh()
    moved = []
    for step, batch in enumerate(batches):
        if step == restore_before:
            states = copy.deepcopy((optimizer.state_dict(), schedule.state_dict()))
            weight, optimizer, schedule = fresh()
            optimizer.load_state_dict(states[0])
            schedule.load_state_dict(states[1])
        before = weight.item()
        weight.grad = torch.ones(1)
        with scaled(optimizer, LinearScaling(4), batch=batch):
            optimizer.step()
        schedule.step()
        moved.append(before - weight.item())
    return moved


def test_schedule_and_factor_multiply_and_survive_a_restart_at_another_size() -> None:
    batches = [4, 4, 8, 8, 4, 2]
    expected = [1.0, 1.0, 1.0, 1.0, 0.25, 0.125]
    assert steps_of(batches, restore_before=None) == expected
    assert steps_of(batches, restore_before=3) == expected
