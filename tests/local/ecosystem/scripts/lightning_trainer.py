"""A tiny network with dropout, trained and validated by Lightning."""

import os

import torch
from lightning.pytorch import Callback, LightningModule, Trainer, seed_everything
from recording import note, pause, write_result
from torch import nn
from torch.utils.data import DataLoader, Dataset

from resile import Checkpointer
from resile.train.lightning import ElasticCheckpoint, as_launched

SAMPLES = int(os.environ.get("SAMPLES", "61"))
EPOCHS = int(os.environ.get("EPOCHS", "4"))
READERS = int(os.environ.get("READERS", "0"))


class Points(Dataset):
    """A dataset with noise that differs on each read."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        point = torch.sin(torch.arange(8.0) * (index + 1))
        return point + 0.01 * torch.randn(8), point.sum(dim=0, keepdim=True)


class Network(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 1)
        )
        self.validations = 0

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        points, sums = batch
        return nn.functional.mse_loss(self.layers(points), sums)

    def validation_step(self, batch: list[torch.Tensor], _: int) -> None:
        points, sums = batch
        noisy = self.layers(points + 0.01 * torch.randn_like(points))
        self.log("validation_loss", nn.functional.mse_loss(noisy, sums), sync_dist=True)

    def on_validation_epoch_end(self) -> None:
        self.validations += 1

    def on_save_checkpoint(self, checkpoint: dict) -> None:
        checkpoint["validations"] = self.validations

    def on_load_checkpoint(self, checkpoint: dict) -> None:
        self.validations = checkpoint["validations"]

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
        warm = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, max_lr=1e-2, total_steps=self.trainer.estimated_stepping_batches + 100
        )
        return [optimizer], [{"scheduler": warm, "interval": "step"}]


class Recording(Callback):
    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        del pl_module, outputs, batch
        if (batch_idx + 1) % trainer.accumulate_grad_batches == 0:
            note("step", trainer.global_step)
            pause()


seed_everything(0)
model = Network()
checkpointer = Checkpointer(os.environ.get("CHECKPOINTS") or None, every=5)
global_batch = os.environ.get("GLOBAL_BATCH")
elastic = ElasticCheckpoint(checkpointer, global_batch=int(global_batch) if global_batch else None)
trainer = Trainer(
    accelerator="cpu",
    strategy="ddp",
    **as_launched(),
    max_epochs=EPOCHS,
    accumulate_grad_batches=int(os.environ.get("ACCUMULATE", "1")),
    val_check_interval=0.5,
    callbacks=[Recording(), elastic],
    default_root_dir=os.environ["OUTPUT"],
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    logger=False,
)
trainer.fit(
    model,
    DataLoader(Points(SAMPLES), batch_size=2, shuffle=True, num_workers=READERS),
    DataLoader(Points(6), batch_size=2),
)
note(f"resumed from {checkpointer.resumed.source.value}", checkpointer.resumed.step)
write_result(
    model, step=trainer.global_step, epoch=trainer.current_epoch, validations=model.validations
)
torch.distributed.destroy_process_group()
