"""A save and a restore of next to nothing, before there is anything to restore.

The first time that code runs in a process it is several times slower than later: nothing of it is
in any cache, and in a forked process every page it writes to has to be copied first. A worker that
was forked ahead of time and waits has the time to go through it once.

Leaves everything as it was: random streams are read and set to what they are, the model is no
model.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import torch
from torch import nn

from resile.checkpoint import memory
from resile.checkpoint.mapping import map_memory
from resile.checkpoint.part import PartHeader, PartLayout, read_header
from resile.train.checkpoint.agreement import Agreement, Place
from resile.train.checkpoint.capture import Capture, Portion
from resile.train.checkpoint.choosing import Choice, NodeInventory, Source
from resile.train.checkpoint.restore import Restored, restore
from resile.train.checkpoint.resuming import Verdict

__all__ = ["rehearse"]

_LAYERS = 4


class _Layer(nn.Module):  # type: ignore[misc]
    """Parameters that no random stream is used for."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2, 2))
        self.bias = nn.Parameter(torch.zeros(2))


class _Part:
    """A part in memory that goes with it."""

    def __init__(self, portion: Portion) -> None:
        descriptor = memory.create()
        try:
            memory.grow(descriptor, portion.size)
            self._buffer = map_memory(descriptor, writable=True)
        finally:
            os.close(descriptor)
        portion.write(self._buffer)
        self.header: PartHeader
        self.layout: PartLayout
        self.header, self.layout = read_header(self._buffer, source="a rehearsal")

    def read(self, begin: int, end: int) -> memoryview:
        return self._buffer[begin:end]


def rehearse() -> Restored:
    """Save and restore a few small tensors; returns what came of it."""
    model = nn.Sequential(*(_Layer() for _ in range(_LAYERS)))
    state: dict[str, Any] = {"model": model, "step": 0}
    # Its constructor imports this, 820 modules, if nobody has; that is not worth it here.
    if "torch._dynamo" in sys.modules:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0, momentum=0.9)
        for parameter in model.parameters():
            optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
        state["optimizer"] = optimizer
    captured = Capture().take(state, step=1)
    _agree()
    return restore(state, [_Part(captured.replica), _Part(captured.rank)])


def _agree() -> None:
    """What workers tell each other: a type is looked into when the first of its kind is read."""
    told = [NodeInventory(), Choice(source=Source.NOWHERE), Verdict()]
    alone = Agreement(Place.from_environment(), None)
    for number, record in enumerate(told):
        alone.say(f"{number}", record)
        alone.hear(f"{number}", type(record))
