"""Train a small network on scikit-learn's bundled digits, with DistributedDataParallel.

Runs under torchrun and under `resile run` alike. Rank 0 saves a checkpoint every few steps and
everybody resumes from the newest one, so a run that was disturbed ends where an undisturbed one
does: each step's batch depends on the step alone, whatever the number of workers.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from resile import report

TEST_SAMPLES = 360


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """1,797 images of 8 x 8 pixels and their labels, shuffled the same way everywhere."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    return (
        torch.tensor(images[order] / 16.0, dtype=torch.float32),
        torch.tensor(labels[order], dtype=torch.long),
    )


def batch_of(step: int, *, samples: int, size: int, rank: int, world: int) -> torch.Tensor:
    """This rank's part of the batch that belongs to ``step``."""
    order = np.random.default_rng(step).permutation(samples)[:size]
    return torch.from_numpy(order[rank::world].copy())


def load(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Resume from the newest checkpoint, if there is one; returns the step to go on with."""
    if not path.exists():
        return 0
    state = torch.load(path, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return int(state["step"])


def save(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    """Write beside, then rename: a kill in the middle leaves the previous checkpoint whole."""
    draft = path.with_suffix(f".{os.getpid()}")
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
    torch.save(state, draft)
    draft.replace(path)


def trace(path: Path, step: int, rank: int, world: int) -> None:
    """Note when a step was taken; the clock is the same for all processes of a machine."""
    with open(path, "a") as file:
        file.write(f"{time.monotonic():.4f} {step} {rank} {world}\n")


def main() -> None:
    """Train, and print the accuracy reached."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--checkpoint", type=Path, default=Path("digits.pt"))
    parser.add_argument("--save-every", type=int, default=10)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds to rest after a step")
    parser.add_argument("--trace", type=Path, help="append a line per step and rank: when, which")
    options = parser.parse_args()

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    images, labels = digits()
    samples = len(labels) - TEST_SAMPLES
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    start = load(options.checkpoint, network, optimizer)
    model = DistributedDataParallel(network)
    if rank == 0:
        print(f"training with {world} workers from step {start}", flush=True)

    for step in range(start, options.steps):
        chosen = batch_of(step, samples=samples, size=options.batch, rank=rank, world=world)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images[chosen]), labels[chosen])
        loss.backward()
        optimizer.step()
        report(step, loss=loss.item())
        if options.trace:
            trace(options.trace, step, rank, world)
        if rank == 0 and (step + 1) % options.save_every == 0:
            save(options.checkpoint, network, optimizer, step + 1)
        if rank == 0 and step % 20 == 0:
            print(f"loss = {loss.item():.4f}, step = {step}", flush=True)
        time.sleep(options.pause)

    if rank == 0:
        with torch.no_grad():
            guesses = network(images[samples:]).argmax(dim=1)
        accuracy = (guesses == labels[samples:]).float().mean().item()
        print(f"accuracy = {accuracy:.3f} after {options.steps} steps", flush=True)
        # A finished run is not to be resumed: the next one starts from the beginning.
        options.checkpoint.unlink(missing_ok=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
