"""Teach a tiny GPT-2 to count, with the Hugging Face Trainer made elastic.

    resile run --nproc-per-node 2 examples/huggingface/train.py

Kill a worker while it runs (`kill -9`): training resumes from the last snapshot in memory. Start it
with another number of workers: it resumes from the checkpoint, and an update still has 32 samples.
Nothing is downloaded; data and model are generated here.
"""

from __future__ import annotations

import argparse

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

from resile import Checkpointer
from resile.train.huggingface import make_elastic

NUMBERS = 64


class Counting(Dataset):
    """Sequences that count up from a start number in equal steps."""

    def __len__(self) -> int:
        return 1024

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        start, stride = index % NUMBERS, index // NUMBERS % 8 + 1
        tokens = (start + stride * torch.arange(16)) % NUMBERS
        return {"input_ids": tokens, "labels": tokens}


def continues(model: GPT2LMHeadModel) -> list[int]:
    """The model's continuation of 3, 6, 9, 12."""
    model.eval()
    tokens = torch.tensor([[3, 6, 9, 12]], device=model.device)
    with torch.no_grad():
        for _ in range(6):
            following = model(tokens).logits[:, -1].argmax(dim=-1, keepdim=True)
            tokens = torch.cat([tokens, following], dim=1)
    return tokens[0].tolist()


def main() -> None:
    """Train, and print the model's continuation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=float, default=4)
    parser.add_argument("--checkpoints", default="checkpoints-huggingface")
    options = parser.parse_args()

    set_seed(0)
    config = GPT2Config(
        vocab_size=NUMBERS, n_positions=16, n_embd=64, n_layer=2, n_head=4, bos_token_id=0
    )
    args = TrainingArguments(
        output_dir=options.checkpoints,
        num_train_epochs=options.epochs,
        per_device_train_batch_size=8,
        learning_rate=3e-3,
        logging_steps=16,
        save_strategy="no",
        report_to=[],
        use_cpu=not torch.cuda.is_available(),  # else workers without GPUs train each for itself
        disable_tqdm=True,
    )
    trainer = Trainer(model=GPT2LMHeadModel(config), args=args, train_dataset=Counting())
    make_elastic(trainer, Checkpointer(options.checkpoints, every=10), global_batch=32)
    trainer.train()
    if trainer.is_world_process_zero():
        print(f"trained {trainer.state.global_step} steps, {trainer.state.epoch:g} epochs")
        print(f"3, 6, 9, 12 goes on: {continues(trainer.model)[4:]}", flush=True)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
