"""A small model trained with dropout and a scheduler, that can be moved.

Every finished step appends a line to $STEPS_FILE; the result of the training is written to $RESULT.
$API says how the migrator is imported; $KILL_AT makes rank 0 die in the middle of its save,
$FAIL_AT after a step.
"""

import json
import os
import signal
import sys
from typing import Any

import torch
import torch.distributed as dist
from recording import digest, note, pause
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

STEPS = int(os.environ["STEPS"])


def die_while_saving() -> None:
    """Make the process die when half of the file is written."""
    save = torch.save

    def half(value: object, file: object) -> None:
        save(value, file)
        file.flush()  # type: ignore[attr-defined]
        file.truncate(file.tell() // 2)  # type: ignore[attr-defined]
        os.kill(os.getpid(), signal.SIGKILL)

    torch.save = half


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
network = nn.Sequential(nn.Linear(37, 64), nn.Dropout(0.3), nn.ReLU(), nn.Linear(64, 10))
if os.environ.get("SHARDED"):
    model: nn.Module = fully_shard(
        network, mesh=dist.init_device_mesh("cpu", (dist.get_world_size(),))
    )
else:
    model = DistributedDataParallel(network)
optimizer = torch.optim.Adam(model.parameters())
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 7)
torch.manual_seed(rank)
if os.environ.get("KILL_AT") == "save" and rank == 0:
    die_while_saving()

metircs: dict[str, Any] = {"epoch": -1, "best_epoch": -1, "best_acc": 0.0}
losses: list[float] = []

if os.environ.get("API") == "resile":
    from resile import migrator
else:
    from migration import migrator  # type: ignore[import-not-found,no-redef]
migrator.register("model", model)
migrator.register("optimizer", optimizer)
migrator.register("scheduler", scheduler)
migrator.register("metircs", metircs)
migrator.register("losses", losses)
migrator.listening(0.05, linger=float(os.environ.get("LINGER", "0")))
if migrator.resume:
    migrator.load_ckpt()
    print(f"load migration ckpt from epoch {metircs['epoch']}, metrics: {metircs}", flush=True)
    note("resumed", metircs["epoch"] + 1)
else:
    note("fresh", 0)

for step in range(metircs["epoch"] + 1, STEPS):
    inputs = torch.randn(8, 37)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(inputs), torch.arange(8))
    loss.backward()
    optimizer.step()
    note("stepped", step)
    scheduler.step()
    losses.append(loss.item())
    score = float((step * 37) % 101)
    if score > metircs["best_acc"]:
        metircs["best_acc"], metircs["best_epoch"] = score, step
    metircs["epoch"] = step
    note("step", step)
    if os.environ.get("FAIL_AT") == str(step) and rank == 0:
        raise ValueError("this round fails")
    pause("0.01")
result = [digest(network), metircs, losses]
if rank == 0:
    with open(os.environ["RESULT"], "w") as file:
        json.dump(result, file)
dist.destroy_process_group()
sys.stdout.flush()
