"""A tiny GPT-2 with dropout, trained by the Hugging Face Trainer.

With $EVALUATES it is evaluated as often as it is saved, keeps its best model, stops early, and each
round dies in the hook and step that $DIES_IN names for it.
"""

import os
import signal

import torch
from recording import note, pause, write_result
from torch.utils.data import Dataset
from transformers import (
    EarlyStoppingCallback,
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


class Dying(TrainerCallback):
    """Kills its process in a hook, which runs after those of the Trainer's own callbacks."""

    def __init__(self) -> None:
        deaths = [one.split(":") for one in os.environ.get("DIES_IN", "").split(",") if one]
        mine = deaths[int(os.environ["RESILE_ROUND"]) - 1 :][:1]
        for hook, step in mine:
            setattr(self, hook, lambda *args, step=step, **_: self._called(args[1], int(step)))

    def _called(self, state, step: int) -> None:
        if state.global_step == step:
            os.kill(os.getpid(), signal.SIGKILL)


EVALUATES = {
    "eval_strategy": os.environ.get("EVALUATES", "no"),
    "eval_steps": 5,
    "save_strategy": os.environ.get("EVALUATES", "no"),
    "save_steps": 5,
    "load_best_model_at_end": "EVALUATES" in os.environ,
    "metric_for_best_model": "loss",
    "greater_is_better": False,
}

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
    report_to=[],
    use_cpu=True,
    ddp_backend="gloo",
    disable_tqdm=True,
    **EVALUATES,
)
trainer = Trainer(model=model, args=args, train_dataset=Sequences(), eval_dataset=Sequences())
checkpointer = Checkpointer(os.environ.get("CHECKPOINTS") or None, every=5)
global_batch = os.environ.get("GLOBAL_BATCH")
make_elastic(trainer, checkpointer, global_batch=int(global_batch) if global_batch else None)
trainer.add_callback(Recording)
if "EVALUATES" in os.environ:
    # No evaluation is ever that much better: it stops with the fifth evaluation.
    trainer.add_callback(EarlyStoppingCallback(4, early_stopping_threshold=10.0))
    trainer.add_callback(Dying())
trainer.train()
note(f"resumed from {checkpointer.resumed.source.value}", checkpointer.resumed.step)
evaluations = [
    (one["step"], one["epoch"], one["eval_loss"])
    for one in trainer.state.log_history
    if "eval_loss" in one
]
write_result(
    trainer.model,
    step=trainer.state.global_step,
    epoch=trainer.state.epoch,
    best=(trainer.state.best_global_step, trainer.state.best_metric),
    evaluations=evaluations,
)
if torch.distributed.is_initialized():
    torch.distributed.destroy_process_group()
