"""Detection of the end of a step."""

from __future__ import annotations

import torch
from torch import nn

from resile.train.migrate.step_detection import StepDetector


class Watched:
    """A model with some optimizers, and the number of boundaries detected."""

    def __init__(self, *, optimizers: int = 1, asked: bool = False) -> None:
        self.reached = 0
        self.model = nn.Linear(2, 2)
        self.optimizers = [torch.optim.SGD(self.model.parameters()) for _ in range(optimizers)]
        self.boundaries = StepDetector(reached=self._count, is_asked=lambda: asked)
        for one in (self.model, *self.optimizers):
            self.boundaries.watch(one)

    def _count(self) -> None:
        self.reached += 1
        self.boundaries.rewind_random()

    def forward(self) -> None:
        self.model(torch.zeros(1, 2))


def test_a_step_ends_at_the_next_training_forward() -> None:
    watched = Watched()
    watched.forward()
    assert watched.reached == 0
    watched.optimizers[0].step()
    assert watched.reached == 0
    watched.forward()
    watched.forward()
    assert watched.reached == 1


def test_a_test_between_two_steps_is_no_boundary() -> None:
    watched = Watched()
    watched.optimizers[0].step()
    watched.model.eval()
    watched.forward()
    watched.model.train()
    with torch.no_grad():
        watched.forward()
    assert watched.reached == 0
    watched.forward()
    assert watched.reached == 1


def test_with_several_optimizers_all_have_to_step() -> None:
    watched = Watched(optimizers=2)
    watched.optimizers[0].step()
    watched.forward()
    watched.optimizers[0].step()
    watched.forward()
    assert watched.reached == 0
    watched.optimizers[1].step()
    watched.forward()
    assert watched.reached == 1


def test_random_streams_go_back_to_the_end_of_the_step() -> None:
    watched = Watched(asked=True)
    watched.optimizers[0].step()
    first = torch.rand(2)
    watched.forward()
    assert torch.equal(torch.rand(2), first)


def test_nothing_is_watched_after_closing() -> None:
    watched = Watched()
    watched.boundaries.close()
    watched.optimizers[0].step()
    watched.forward()
    assert watched.reached == 0
