"""Train a small network on handwritten digits, with DistributedDataParallel.

Runs under torchrun and under `resile run` alike. Four lines make it fault-tolerant: a Checkpointer,
the state it saves, `restore` before the first step and `step` after each. Each step has the same
samples at any number of workers, and every sample of an epoch is trained once, so an interrupted
run ends with the same result as an uninterrupted one.
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from resile import Checkpointer, ElasticBatchSampler, report

DATA = Path(__file__).with_name("digits.npz")
TEST_SAMPLES = 360


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """1,797 images of 8 x 8 pixels and their labels, shuffled the same way everywhere."""
    with np.load(DATA) as file:
        images, labels = file["images"], file["labels"]
    order = np.random.default_rng(0).permutation(len(labels))
    return (
        torch.tensor(images[order] / 16.0, dtype=torch.float32),
        torch.tensor(labels[order], dtype=torch.long),
    )


def batches(loader: DataLoader) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield batches, epoch after epoch; the sampler continues the restored epoch."""
    while True:
        yield from loader


def trace(path: Path, step: int, rank: int, world: int) -> None:
    """Record the time of a step; the clock is the same for all processes of a machine."""
    with open(path, "a") as file:
        file.write(f"{time.monotonic():.4f} {step} {rank} {world}\n")


def parse_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=128, help="samples of a step, of all workers")
    parser.add_argument(
        "--checkpoints", default="checkpoints-digits", help="'' for snapshots in memory alone"
    )
    parser.add_argument("--save-every", type=int, default=10, help="steps between two snapshots")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds to rest after a step")
    parser.add_argument("--trace", type=Path, help="append a line per step and rank: when, which")
    return parser.parse_args()


def main() -> None:
    """Train, and print the accuracy reached."""
    options = parse_options()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    images, labels = digits()
    data = TensorDataset(images[:-TEST_SAMPLES], labels[:-TEST_SAMPLES])
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    model = DistributedDataParallel(network)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    sampler = ElasticBatchSampler(data, global_batch=options.batch, drop_last=True)
    every = options.save_every
    checkpointer = Checkpointer(
        options.checkpoints or None, every=every, checkpoint_every=5 * every
    )
    state = {"model": model, "optimizer": optimizer, "sampler": sampler, "step": 0}
    start = checkpointer.restore(state)
    if rank == 0:
        print(f"training with {world} workers from step {start}", flush=True)
        if start >= options.steps:
            print(
                f"nothing is left to do: {start} steps were trained before; "
                f"'rm -r {options.checkpoints}' to begin anew, or ask for more --steps",
                flush=True,
            )

    loaded = batches(DataLoader(data, batch_sampler=sampler))
    for step in range(start, options.steps):
        inputs, targets = next(loaded)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        if options.trace:
            trace(options.trace, step, rank, world)
        checkpointer.step(step, state)
        report(step, loss=loss.item(), total=options.steps)
        if rank == 0 and step % 20 == 0:
            print(f"loss = {loss.item():.4f}, step = {step}", flush=True)
        time.sleep(options.pause)

    checkpointer.wait()
    dist.barrier()
    if rank == 0:
        with torch.no_grad():
            guesses = network(images[-TEST_SAMPLES:]).argmax(dim=1)
        accuracy = (guesses == labels[-TEST_SAMPLES:]).float().mean().item()
        print(f"accuracy = {accuracy:.3f} after {options.steps} steps", flush=True)
        if options.checkpoints:
            # A finished run is not resumed: the next one starts from the beginning.
            shutil.rmtree(options.checkpoints, ignore_errors=True)
    checkpointer.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
