"""A warm-up save and restore of a few small tensors in a waiting worker.

The first run of code in a process is several times slower than later ones: nothing of it is in any
cache, and in a forked process every page it writes to must be copied first. A worker that was
forked ahead of time and waits has the time to run it once.

Changes nothing: random streams are read and set to what they are, and the model is a dummy.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import torch
from torch import nn

from resile.checkpoint.part import PartHeader, PartLayout, read_header
from resile.snapshots import memory
from resile.snapshots.memory import map_memory
from resile.train.checkpoint.restore.apply_state import AppliedState, restore
from resile.train.checkpoint.restore.restore_coordinator import RestoreVerdict
from resile.train.checkpoint.restore.select_source import Choice, NodeInventory, RestoreSource
from resile.train.checkpoint.round_channel import RankInfo, RoundChannel
from resile.train.checkpoint.save.capture import Capture, Portion

__all__ = ["warm_up"]

_LAYERS = 4


class _Layer(nn.Module):  # type: ignore[misc]
    """Parameters that are initialized without random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2, 2))
        self.bias = nn.Parameter(torch.zeros(2))


class _Part:
    """A part in memory that is freed with this object."""

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


def warm_up() -> AppliedState:
    """Save and restore a few small tensors; returns the result."""
    model = nn.Sequential(*(_Layer() for _ in range(_LAYERS)))
    state: dict[str, Any] = {"model": model, "step": 0}
    # Its constructor imports this, 820 modules, if it is not loaded; too expensive here.
    if "torch._dynamo" in sys.modules:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0, momentum=0.9)
        for parameter in model.parameters():
            optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
        state["optimizer"] = optimizer
    captured = Capture().take(state, step=1)
    _agree()
    return restore(state, [_Part(captured.replica), _Part(captured.rank)])


def _agree() -> None:
    """Exchange one record of each type: msgspec inspects a type when it first decodes it."""
    records = [NodeInventory(), Choice(source=RestoreSource.NOWHERE), RestoreVerdict()]
    alone = RoundChannel(RankInfo.from_environment(), None)
    for number, record in enumerate(records):
        alone.put(f"{number}", record)
        alone.get(f"{number}", type(record))
