"""The examples in the page on trainers run as they are written, with one worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.local.data.documentation import run_script, written

HUGGING_FACE = """
import torch
from transformers import Trainer, TrainingArguments

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)

    def forward(self, x, labels):
        scores = self.layer(x)
        return {"loss": torch.nn.functional.cross_entropy(scores, labels), "logits": scores}

model = Model()
dataset = [{"x": torch.randn(2), "labels": index % 2} for index in range(600)]
args = TrainingArguments(
    output_dir="out", per_device_train_batch_size=32, num_train_epochs=2, save_strategy="no",
    report_to=[], disable_tqdm=True, use_cpu=True,
)
"""
LIGHTNING = """
import functools
import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset

class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)

    def training_step(self, batch, number):
        return torch.nn.functional.cross_entropy(self.layer(batch[0]), batch[1])

    def validation_step(self, batch, number):
        pass

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

Trainer = functools.partial(
    lightning.Trainer, max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False,
)
model = Module()
dataset = TensorDataset(torch.randn(600, 2), torch.arange(600) % 2)
validation_loader = DataLoader(dataset, batch_size=32)
"""
AFTER = """
print("steps", {})
"""


def test_hugging_face(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    block = written("ecosystem.md", "make_elastic(trainer")
    said = run_script(HUGGING_FACE + block + AFTER.format("trainer.state.global_step"), tmp_path)
    assert "steps 6" in said  # of 256 samples each, three for an epoch of 600


def test_lightning(tmp_path: Path) -> None:
    pytest.importorskip("lightning")
    block = written("ecosystem.md", "ElasticCheckpoint(Checkpointer")
    said = run_script(LIGHTNING + block + AFTER.format("trainer.global_step"), tmp_path)
    assert "steps 6" in said
