"""A tiny GPT-2 with dropout, trained by the Hugging Face Trainer."""

import os

import torch
from recording import note, pause, write_result
from torch.utils.data import Dataset
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

from resile import Checkpointer
from resile.train.huggingface import make_elastic

SAMPLES = int(os.environ.get("SAMPLES", "61"))


class Sequences(Dataset):
    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        tokens = (torch.arange(12) * (index % 5 + 1) + index) % 31
        return {"input_ids": tokens, "labels": tokens}


class Recording(TrainerCallback):
    def on_step_end(self, args, state, control, **parts):
        del args, control, parts
        note("step", state.global_step)
        pause()


set_seed(0)
model = GPT2LMHeadModel(
    GPT2Config(vocab_size=31, n_positions=12, n_embd=32, n_layer=2, n_head=2, bos_token_id=0)
)
args = TrainingArguments(
    output_dir=os.environ["OUTPUT"],
    num_train_epochs=float(os.environ.get("EPOCHS", "4")),
    per_device_train_batch_size=2,
    gradient_accumulation_steps=int(os.environ.get("ACCUMULATE", "1")),
    learning_rate=1e-2,
    warmup_steps=5,
    logging_steps=5,
    save_strategy="no",
    report_to=[],
    use_cpu=True,
    ddp_backend="gloo",
    disable_tqdm=True,
)
trainer = Trainer(model=model, args=args, train_dataset=Sequences())
checkpointer = Checkpointer(os.environ.get("CHECKPOINTS") or None, every=5)
global_batch = os.environ.get("GLOBAL_BATCH")
make_elastic(trainer, checkpointer, global_batch=int(global_batch) if global_batch else None)
trainer.add_callback(Recording)
trainer.train()
note(f"resumed from {checkpointer.resumed.source.value}", checkpointer.resumed.step)
write_result(trainer.model, step=trainer.state.global_step, epoch=trainer.state.epoch)
torch.distributed.destroy_process_group()
