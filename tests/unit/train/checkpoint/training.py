"""A small training for tests: everything a script might put into its state."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch
from torch import nn


class Tied(nn.Module):
    """An embedding whose weights are also the last layer's; a buffer and dropout besides."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 6)
        self.inner = nn.Linear(6, 6)
        self.norm = nn.BatchNorm1d(6)
        self.dropout = nn.Dropout(0.3)
        self.head = nn.Linear(6, 11, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.head(self.dropout(self.norm(self.inner(self.embed(tokens)))))
        return found


def build(seed: int = 0, **more: Any) -> dict[str, Any]:
    """A fresh state."""
    torch.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)
    model = Tied()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
    return {
        "model": model,
        "optimizer": optimizer,
        "scheduler": scheduler,
        "step": 0,
        **more,
    }


def train(state: dict[str, Any], steps: int) -> list[float]:
    """Train on random data; the losses."""
    losses = []
    for _ in range(steps):
        tokens = torch.randint(0, 11, (8 + random.randrange(3),))
        loss = state["model"](tokens).square().mean() * float(np.random.rand() + 1)
        state["optimizer"].zero_grad()
        loss.backward()
        state["optimizer"].step()
        state["scheduler"].step()
        state["step"] += 1
        losses.append(loss.item())
    return losses


def equal(left: nn.Module, right: nn.Module) -> bool:
    """Whether two models are the same to the bit."""
    ours, theirs = left.state_dict(), right.state_dict()
    return ours.keys() == theirs.keys() and all(torch.equal(ours[k], theirs[k]) for k in ours)
