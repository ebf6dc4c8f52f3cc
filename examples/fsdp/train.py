"""Teach a tiny transformer to count, sharded with FSDP2, at any number of workers.

    resile run --nproc-per-node 2 examples/fsdp/train.py --steps 60
    resile run --nproc-per-node 1 examples/fsdp/train.py --steps 120

The second command continues from the first one's checkpoint, saved in two shards and restored into
one. A step has the same samples at any number of workers.
"""

from __future__ import annotations

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

from resile import Checkpointer, ElasticBatchSampler, report

NUMBERS, LENGTH, WIDTH = 64, 16, 64


def sequences() -> torch.Tensor:
    """Rows that count up from every number in steps of one to eight."""
    starts = torch.arange(NUMBERS).repeat(8)
    strides = torch.arange(1, 9).repeat_interleave(NUMBERS)
    return (starts[:, None] + strides[:, None] * torch.arange(LENGTH)) % NUMBERS


class Transformer(nn.Module):
    """Embeddings, two blocks, and a head that predicts the next number."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(NUMBERS, WIDTH)
        self.places = nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True)
            for _ in range(2)
        )
        self.head = nn.Linear(WIDTH, NUMBERS)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Scores of every number as the successor of each position."""
        length = tokens.shape[1]
        hidden = self.tokens(tokens) + self.places(torch.arange(length, device=tokens.device))
        mask = nn.Transformer.generate_square_subsequent_mask(length, device=tokens.device)
        for block in self.blocks:
            hidden = block(hidden, src_mask=mask, is_causal=True)
        return self.head(hidden)


def sharded_model(world: int) -> Transformer:
    """Shard every block separately, and the rest together."""
    torch.manual_seed(0)
    model = Transformer()
    mesh = dist.init_device_mesh("cpu", (world,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def main() -> None:
    """Train up to ``--steps`` steps in total."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--checkpoints", default="checkpoints-fsdp")
    options = parser.parse_args()

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    data = sequences()
    model = sharded_model(world)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    sampler = ElasticBatchSampler(data, global_batch=32, drop_last=True)
    state = {"model": model, "optimizer": optimizer, "sampler": sampler, "step": 0}
    checkpointer = Checkpointer(options.checkpoints, every=10)
    start = checkpointer.restore(state)
    if rank == 0:
        print(f"training with {world} workers from step {start}", flush=True)
        if start >= options.steps:
            print(
                f"nothing is left to do: {start} steps were trained before; "
                f"'rm -r {options.checkpoints}' to begin anew, or ask for more --steps",
                flush=True,
            )

    step = start
    while step < options.steps:
        for chosen in sampler:
            rows = data[chosen]
            scores = model(rows[:, :-1])
            loss = nn.functional.cross_entropy(scores.flatten(0, 1), rows[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            checkpointer.step(step, state)
            report(step, loss=loss.item(), total=options.steps)
            if rank == 0 and (step + 1) % 10 == 0:
                print(f"loss = {loss.item():.4f} after {step + 1} steps", flush=True)
            step += 1
            if step == options.steps:
                break
    checkpointer.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
