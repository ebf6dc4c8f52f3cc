"""A restored state continues as if it had not been interrupted."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from resile.train.checkpoint.restore.apply_state import restore
from tests.unit.train.checkpoint.parts import save, save_node
from tests.unit.train.checkpoint.training import build, equal, train


@pytest.mark.parametrize("trained", [0, 1, 5])
@pytest.mark.parametrize("steps_before_restore", [0, 2])
def test_training_goes_on_to_the_bit(trained: int, steps_before_restore: int) -> None:
    one = build(0)
    train(one, trained)
    parts = save(one, step=trained)
    losses = train(one, 5)
    other = build(1)
    train(other, steps_before_restore)
    restored = restore(other, parts)
    assert (restored.step, other["step"]) == (trained, trained)
    assert train(other, 5) == losses
    assert equal(one["model"], other["model"])
    assert one["scheduler"].state_dict() == other["scheduler"].state_dict()


def test_saving_changes_nothing() -> None:
    one, other = build(0), build(0)
    save(one)
    assert not one["optimizer"].state
    assert train(one, 3) == train_again(other, 3)


def train_again(state: dict[str, Any], steps: int) -> list[float]:
    fresh = build(0)  # sets the random streams to where the other training began
    state.update(fresh)
    return train(state, steps)


def test_it_comes_together_from_the_workers_of_a_node() -> None:
    one = build(0, big={f"t{n}": torch.randn(300_000 + n) for n in range(5)})
    train(one, 2)
    parts = save_node(one, workers=3)
    held = [set(part.header.slices) for part in parts if part.header.kind.value == "replica"]
    assert all(any(name.startswith("big") for name in names) for names in held)
    assert sum(map(len, held)) == len(set().union(*held))
    other = build(1, big={f"t{n}": torch.zeros(300_000 + n) for n in range(5)})
    restore(other, parts, rank=2)
    assert equal(one["model"], other["model"])
    assert all(torch.equal(one["big"][key], other["big"][key]) for key in one["big"])


def test_tied_weights_are_kept_once_and_stay_tied() -> None:
    one = build(0)
    train(one, 1)
    parts = save(one)
    assert "model.head.weight" not in parts[0].header.slices
    assert "model.embed.weight" in parts[0].header.slices
    other = build(1)
    restore(other, parts)
    assert other["model"].head.weight is other["model"].embed.weight
    assert equal(one["model"], other["model"])


def test_tied_weights_go_into_a_model_that_does_not_tie_them() -> None:
    one = build(0)
    parts = save({"model": one["model"]})
    other = build(1)["model"]
    other.head.weight = nn.Parameter(torch.zeros(11, 6))
    restore({"model": other}, parts)
    assert torch.equal(other.head.weight, one["model"].embed.weight)


def test_plain_values_are_replaced_in_the_scripts_own_dictionary() -> None:
    history = [1.0]
    inner = {"best": None, "deep": {"x": (1, 2)}}
    state = {"step": 9, "history": history, "inner": inner, "array": np.arange(3)}
    parts = save(state)
    live: dict[str, Any] = {"step": 0, "history": [], "inner": {}, "array": np.zeros(3, np.int64)}
    kept = (live["history"], live["inner"], live["array"])
    restore(live, parts)
    assert live["step"] == 9
    assert live["history"] == [1.0]
    assert live["inner"] == inner
    assert live["array"].tolist() == [0, 1, 2]
    assert live["history"] is kept[0]
    assert live["inner"] is kept[1]
    assert live["array"] is kept[2]


def test_tensors_in_plain_containers_are_filled_in_place() -> None:
    parts = save(
        {"ema": {"w": torch.arange(4.0)}, "pair": (torch.ones(2, dtype=torch.bfloat16), 3)}
    )
    w, p = torch.zeros(4), torch.zeros(2, dtype=torch.bfloat16)
    live = {"ema": {"w": w}, "pair": (p, 0)}
    restore(live, parts)
    assert live["ema"]["w"] is w
    assert w.tolist() == [0, 1, 2, 3]
    assert live["pair"][0] is p
    assert p.tolist() == [1, 1]
    assert live["pair"][1] == 3


def test_objects_are_found_at_any_depth() -> None:
    def nets(seed: int) -> dict[str, Any]:
        torch.manual_seed(seed)
        return {"gan": {"g": nn.Linear(2, 3), "d": [nn.Linear(3, 1), 5]}, "t": (nn.Linear(1, 1), 7)}

    one, other = nets(0), nets(1)
    one["gan"]["d"][1], one["t"] = 6, (one["t"][0], 8)
    restore(other, save(one))
    assert equal(one["gan"]["g"], other["gan"]["g"])
    assert equal(one["gan"]["d"][0], other["gan"]["d"][0])
    assert equal(one["t"][0], other["t"][0])
    assert (other["gan"]["d"][1], other["t"][1]) == (6, 8)


def test_an_optimizer_over_several_modules_keeps_its_state() -> None:
    def make(seed: int) -> dict[str, Any]:
        torch.manual_seed(seed)
        a, b = nn.Linear(2, 2), nn.Linear(2, 1)
        groups = [{"params": b.parameters(), "lr": 0.5}, {"params": a.parameters()}]
        return {"optimizer": torch.optim.AdamW(groups, lr=0.1), "a": a, "b": b}

    def step(state: dict[str, Any]) -> None:
        state["optimizer"].zero_grad()
        state["b"](state["a"](torch.ones(1, 2))).sum().backward()
        state["optimizer"].step()

    one, other = make(0), make(1)
    step(one)
    parts = save(one)
    assert "optimizer.state.b.weight.exp_avg" in parts[0].header.slices
    restore(other, parts)
    step(one)
    step(other)
    assert equal(one["a"], other["a"])
    assert [group["lr"] for group in other["optimizer"].param_groups] == [0.5, 0.1]


@pytest.mark.parametrize("saved_with", [True, False])
def test_an_optimizer_comes_back_with_or_without_its_model(saved_with: bool) -> None:
    one, other = build(0), build(1)
    train(one, 2)
    ours = {"optimizer": one["optimizer"], **({"model": one["model"]} if saved_with else {})}
    theirs = {"optimizer": other["optimizer"], **({} if saved_with else {"model": other["model"]})}
    restore(theirs, save(ours), strict=False)
    for left, right in zip(one["model"].parameters(), other["model"].parameters(), strict=True):
        for key, value in one["optimizer"].state[left].items():
            assert torch.equal(value, other["optimizer"].state[right][key])


def test_state_of_another_type_than_its_parameter_keeps_its_type() -> None:
    def make() -> dict[str, Any]:
        model = nn.Linear(3, 3).to(torch.bfloat16)
        return {"model": model, "optimizer": torch.optim.Adam(model.parameters())}

    one, other = make(), make()
    for parameter in one["model"].parameters():
        one["optimizer"].state[parameter] = {
            "step": torch.tensor(1.0),
            "exp_avg": torch.rand(parameter.shape),
            "exp_avg_sq": torch.rand(parameter.shape),
        }
    restore(other, save(one))
    state = other["optimizer"].state[other["model"].weight]
    assert state["exp_avg"].dtype == torch.float32
    assert torch.equal(state["exp_avg"], one["optimizer"].state[one["model"].weight]["exp_avg"])


def test_a_gradient_scaler_goes_on() -> None:
    def make() -> torch.amp.GradScaler:
        return torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)

    one, other = make(), make()
    parameter = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([parameter], lr=0.0)
    for _ in range(3):
        one.scale(parameter.sum()).backward()
        one.step(optimizer)
        one.update()
    restore({"scaler": other}, save({"scaler": one}))
    assert other.state_dict() == one.state_dict()
    assert one.state_dict()["scale"] == 16.0


class Position:
    """A per-rank object."""

    resile_per_rank = True

    def __init__(self, place: int) -> None:
        self.place = place
        self.seen: list[Any] = []

    def state_dict(self) -> dict[str, Any]:
        return {"place": self.place, "mask": torch.full((2,), self.place)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.place = state["place"]

    def load_rank_states(self, states: list[Any]) -> None:
        self.seen = [(state["place"], state["mask"].tolist()) for state in states]


def test_objects_that_are_per_rank_get_all_ranks_states_in_order() -> None:
    parts = []
    for rank in (2, 0, 1):
        parts += save(
            {"data": Position(rank * 10)}, rank=rank, world=3, local_rank=rank, local_world=3
        )
    position = Position(0)
    restore({"data": position}, parts, rank=4)
    assert position.seen == [(0, [0, 0]), (10, [10, 10]), (20, [20, 20])]


def test_a_rank_that_was_not_there_before_keeps_its_random_streams() -> None:
    parts = save(build(0))
    torch.manual_seed(99)
    before = torch.get_rng_state()
    restore(build_quietly(), parts, rank=1)
    assert torch.equal(torch.get_rng_state(), before)


def build_quietly() -> dict[str, Any]:
    with torch.random.fork_rng():
        return build(0)


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: torch.Generator().manual_seed(seed),
        np.random.default_rng,
        random.Random,
    ],
)
def test_generators_in_the_state_go_on(make: Any) -> None:
    def draw(generator: Any) -> float:
        if isinstance(generator, torch.Generator):
            return torch.rand(1, generator=generator).item()
        return float(generator.random())

    one, other = make(1), make(2)
    draw(one)
    restore({"generator": other}, save({"generator": one}))
    assert draw(other) == draw(one)


def test_odd_tensors_come_back() -> None:
    base = torch.arange(24.0).reshape(4, 6)
    state = {
        "strided": base.t(),
        "sliced": base[:, ::2],
        "scalar": torch.tensor(3),
        "empty": torch.zeros(0, 5),
        "complex": torch.tensor([1 + 2j]),
        "wide": torch.tensor([1 + 2j], dtype=torch.complex128),
        "eight": torch.ones(3).to(torch.float8_e4m3fn),
        "bits": torch.tensor([True, False]),
        "unsigned": torch.tensor([7], dtype=torch.uint16),
        "sparse": torch.eye(3).to_sparse(),
        "expanded": torch.ones(1).expand(5),
    }
    live: dict[str, Any] = dict.fromkeys(state)
    restore(live, save(state))
    for key, value in state.items():
        back = live[key]
        assert back.dtype == value.dtype, key
        if key == "sparse":
            assert torch.equal(back.to_dense(), value.to_dense())
        else:
            assert torch.equal(back.contiguous().view(-1), value.contiguous().view(-1)), key
            assert back.shape == value.shape


def test_keys_that_would_give_the_same_name_do_not_mix() -> None:
    state = {
        "a": {"b.c": torch.ones(1)},
        "a.b": {"c": torch.zeros(1)},
        "__metadata__": torch.ones(2),
    }
    live: dict[str, Any] = {"a": {}, "a.b": {}, "__metadata__": None}
    restore(live, save(state))
    assert live["a"]["b.c"].item() == 1
    assert live["a.b"]["c"].item() == 0
    assert live["__metadata__"].tolist() == [1, 1]


def test_extra_state_of_modules_comes_back() -> None:
    class Counting(nn.Linear):
        count = 0

        def get_extra_state(self) -> Any:
            return {"count": self.count, "t": torch.tensor(self.count)}

        def set_extra_state(self, state: Any) -> None:
            self.count = state["count"] + int(state["t"])

    one, other = Counting(1, 1), Counting(1, 1)
    one.count = 4
    restore({"model": nn.Sequential(other)}, save({"model": nn.Sequential(one)}))
    assert other.count == 8
