"""Train a small network to classify rings, with Lightning's Trainer made elastic.

    resile run --nproc-per-node 2 examples/lightning/train.py

Kill a worker while it runs (`kill -9`): training resumes from the last snapshot in memory. Start it
with another number of workers: it resumes from the checkpoint, and an update still has 64 samples.
Nothing is downloaded; the data is generated here.
"""

from __future__ import annotations

import argparse

import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from resile import Checkpointer
from resile.train.lightning import ElasticCheckpoint, as_launched

RINGS = 3


def rings(count: int, *, seed: int) -> TensorDataset:
    """Points of the plane, labelled with the noisy ring each lies on."""
    random = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % RINGS
    angles = 2 * torch.pi * torch.rand(count, generator=random)
    radii = 1 + labels + 0.2 * torch.randn(count, generator=random)
    points = radii[:, None] * torch.stack([angles.cos(), angles.sin()], dim=1)
    return TensorDataset(points, labels)


class RingNetwork(LightningModule):
    """A plain LightningModule; nothing in it depends on Resile."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(2, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, RINGS)
        )

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        """The loss of one batch."""
        points, labels = batch
        return nn.functional.cross_entropy(self.layers(points), labels)

    def validation_step(self, batch: list[torch.Tensor], _: int) -> None:
        """Log the share of correct predictions."""
        points, labels = batch
        right = (self.layers(points).argmax(dim=1) == labels).float().mean()
        self.log("accuracy", right, sync_dist=True)

    def on_validation_epoch_end(self) -> None:
        """Print the accuracy."""
        accuracy = self.trainer.callback_metrics.get("accuracy")
        if (
            accuracy is not None
            and self.trainer.is_global_zero
            and not self.trainer.sanity_checking
        ):
            print(f"epoch {self.current_epoch}: accuracy = {accuracy:.3f}", flush=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """The optimizer."""
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


def main() -> None:
    """Train, and print the numbers of steps and epochs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--checkpoints", default="checkpoints-lightning")
    options = parser.parse_args()

    seed_everything(0)
    elastic = ElasticCheckpoint(Checkpointer(options.checkpoints, every=10), global_batch=64)
    trainer = Trainer(
        strategy="ddp",
        **as_launched(),  # devices and num_nodes, which change with the world
        max_epochs=options.epochs,
        callbacks=[elastic],
        enable_checkpointing=False,  # the callback saves; Lightning need not as well
        enable_progress_bar=False,
        enable_model_summary=False,
        logger=False,
    )
    trainer.fit(
        RingNetwork(),
        DataLoader(rings(2048, seed=1), batch_size=16, shuffle=True),
        DataLoader(rings(512, seed=2), batch_size=128),
    )
    if trainer.is_global_zero:
        print(f"trained {trainer.global_step} steps, {trainer.current_epoch} epochs", flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
