"""Train a small network that can be moved: on request it saves and stops; the next run resumes.

The five calls of the migrator are all that a script needs. It runs under `resile run`, torchrun,
and alone; `move.sh` in the same folder moves it once.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from resile import migrator


def batch(step: int, rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Points of the plane and whether they are in a circle; deterministic for a step and rank."""
    generator = torch.Generator().manual_seed(1000 * step + rank)
    points = torch.rand(64, 2, generator=generator) * 2 - 1
    return points, (points.norm(dim=1) < 0.7).long()


def main() -> None:
    """Train, and print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--pause", type=float, default=0.02, help="seconds to rest after a step")
    options = parser.parse_args()

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(
        nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 2))
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    metrics: dict[str, Any] = {"step": 0, "best_step": -1, "best_accuracy": 0.0}

    migrator.register("model", model)
    migrator.register("optimizer", optimizer)
    migrator.register("metrics", metrics)
    migrator.listening()
    if migrator.resume:
        migrator.load_ckpt()
        print(f"goes on: {metrics}", flush=True)

    for step in range(metrics["step"], options.steps):
        points, inside = batch(step, rank)
        guesses = model(points)
        optimizer.zero_grad()
        nn.functional.cross_entropy(guesses, inside).backward()
        optimizer.step()
        right = (guesses.argmax(dim=1) == inside).float().mean()
        dist.all_reduce(right)
        accuracy = right.item() / dist.get_world_size()
        if accuracy > metrics["best_accuracy"]:
            metrics.update(best_step=step, best_accuracy=accuracy)
        metrics["step"] = step + 1
        if rank == 0 and step % 25 == 0:
            print(f"step = {step}, accuracy = {accuracy:.3f}", flush=True)
        time.sleep(options.pause)

    if rank == 0:
        best = f"{metrics['best_accuracy']:.3f} at step {metrics['best_step']}"
        print(f"done: {metrics['step']} steps, best accuracy {best}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
