"""A checkpoint that does not fit is reported with the reason, and changes nothing."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import nn

from resile.checkpoint.errors import NoCheckpoint, PartDamaged
from resile.train.checkpoint.errors import StateMismatch, UnsupportedState
from resile.train.checkpoint.restore.apply_state import restore
from tests.unit.train.checkpoint.parts import MemoryPart, save, save_node
from tests.unit.train.checkpoint.training import build, equal, train


def net(*widths: int, seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(*(nn.Linear(a, b) for a, b in itertools.pairwise(widths)))


def test_all_differences_are_named_at_once() -> None:
    parts = save({"model": net(2, 3, 4), "old": 1})
    with pytest.raises(StateMismatch) as caught:
        restore({"model": net(2, 3, 5, 6), "new": 1}, parts)
    text = str(caught.value)
    assert "model.1.weight: shape [5, 3] in the state, [4, 3] in the checkpoint" in text
    assert "model.2.weight: in the state, but not in the checkpoint" in text
    assert "new: in the state, but not in the checkpoint" in text
    assert "old: in the checkpoint, but not in the state" in text
    assert "strict=False" in text


def test_another_type_of_elements_is_named() -> None:
    parts = save({"model": net(2, 2)})
    with pytest.raises(StateMismatch, match=r"model\.0\.weight: torch\.float64 in the state"):
        restore({"model": net(2, 2).double()}, parts)


@pytest.mark.parametrize(
    "target",
    [
        torch.zeros(1).expand(4),
        torch.zeros(4).as_strided((2, 2), (1, 1)).reshape(2, 2).as_strided((2, 2), (1, 1)),
    ],
    ids=["expanded", "overlapping"],
)
def test_a_tensor_that_cannot_be_filled_is_named_before_anything_is_touched(
    target: torch.Tensor,
) -> None:
    parts = save({"a": torch.ones(3), "ema": torch.ones(target.shape), "z": torch.ones(3)})
    state = {"a": torch.zeros(3), "ema": target, "z": torch.zeros(3)}
    with pytest.raises(StateMismatch, match=r"ema: several of its elements share memory"):
        restore(state, parts)
    assert state["a"].tolist() == state["z"].tolist() == [0.0] * 3


@pytest.mark.parametrize(
    "target",
    [
        torch.zeros(4, 6)[:, ::2],
        torch.zeros(3, 4).t(),
        torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last),
        torch.zeros(1).expand(1, 1, 1),
        torch.zeros(0, 3).t(),
        torch.zeros(4, 4).diagonal(),
    ],
    ids=["every other", "transposed", "channels last", "one", "none", "diagonal"],
)
def test_views_whose_elements_are_apart_are_filled(target: torch.Tensor) -> None:
    restore({"it": target}, save({"it": torch.ones(target.shape)}))
    assert torch.equal(target, torch.ones(target.shape))


def test_nothing_is_changed_if_something_does_not_fit() -> None:
    state, same = build(0), build(0)
    saved = build(1)
    train(saved, 2)
    parts = save({**saved, "more": 1})
    with pytest.raises(StateMismatch):
        restore(state, parts)
    assert equal(state["model"], same["model"])
    assert state["step"] == 0
    assert not state["optimizer"].state


def test_without_strict_what_fits_is_restored() -> None:
    one, other = net(2, 3, 4), net(2, 3, 5, seed=1)
    parts = save({"model": one, "gone": 1, "step": 7})
    live = {"model": other, "step": 0}
    restored = restore(live, parts, strict=False)
    assert torch.equal(one[0].weight, other[0].weight)
    assert live["step"] == 7
    assert len(restored.left_alone) == 3


def test_an_optimizer_of_other_parameters_is_named() -> None:
    def make(frozen: bool) -> dict[str, Any]:
        model = net(2, 2, 2)
        parameters = model[1].parameters() if frozen else model.parameters()
        return {"model": model, "optimizer": torch.optim.SGD(parameters, lr=0.1)}

    with pytest.raises(StateMismatch, match=r"optimizer\.parameters\.0\.weight: in the checkpoint"):
        restore(make(frozen=True), save(make(frozen=False)))


def test_one_tensor_for_two_saved_ones_is_refused() -> None:
    parts = save({"a": torch.ones(1), "b": torch.zeros(1)})
    both = torch.zeros(1)
    with pytest.raises(StateMismatch, match="b: one tensor with a in the state"):
        restore({"a": both, "b": both}, parts)


def test_what_an_object_says_against_its_state_is_passed_on() -> None:
    class Strict:
        def state_dict(self) -> dict[str, int]:
            return {"version": 1}

        def load_state_dict(self, _state: dict[str, int]) -> None:
            raise ValueError("version 1 is too old")

    with pytest.raises(StateMismatch, match="thing: version 1 is too old"):
        restore({"thing": Strict()}, save({"thing": Strict()}))


def test_missing_parts_are_named() -> None:
    parts = save_node({"x": 1}, workers=2)
    with pytest.raises(NoCheckpoint, match="rank-00001-of-00002 missing"):
        restore({"x": 0}, parts[:3])
    with pytest.raises(NoCheckpoint, match="every part missing"):
        restore({"x": 0}, [])


def test_parts_of_different_steps_do_not_mix() -> None:
    parts = [*save({"x": 1}, step=1)[:1], *save({"x": 1}, step=2)[1:]]
    with pytest.raises(NoCheckpoint, match="several steps"):
        restore({"x": 0}, parts)


def test_ranks_that_saved_different_states_are_found_out() -> None:
    big = torch.zeros(1 << 20)
    parts: list[MemoryPart] = []
    for rank, state in enumerate([{"a": big, "b": big.clone()}, {"a": big}]):
        parts += save(state, rank=rank, world=2, local_rank=rank, local_world=2)
    with pytest.raises(PartDamaged, match="refers to the tensor b, but no part contains it"):
        restore({"a": big, "b": big.clone()}, parts)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ([1], "must be a dictionary"),
        ({"model": nn.LazyLinear(3)}, r"model\.weight has no shape yet"),
        ({"x": torch.ones(1, device="meta")}, "x is on the meta device"),
    ],
)
def test_what_cannot_be_saved_is_named(state: Any, message: str) -> None:
    with pytest.raises(UnsupportedState, match=message):
        save(state)
