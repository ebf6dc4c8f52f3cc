"""A small model trained with a Checkpointer, on the same data at any world size.

Every rank trains on the same batch, so the model after n steps is the same whatever happened before
them; what it came to is written to $RESULT. Every step appends a line to $STEPS_FILE.
"""

import hashlib
import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from resile import Checkpointer

STEPS, EVERY = int(os.environ["STEPS"]), int(os.environ.get("EVERY", "5"))
PAUSE = float(os.environ.get("PAUSE", "0.01"))
HURRY = Path(os.environ["STEPS_FILE"]).with_name("hurry")
"""Once it is there nobody pauses any more."""


def note(what: str, step: int) -> None:
    line = {
        "what": what,
        "time": time.monotonic(),
        "round": int(os.environ.get("RESILE_ROUND", "0")),
        "rank": dist.get_rank(),
        "world": dist.get_world_size(),
        "pid": os.getpid(),
        "agent": 0,
        "step": step,
        "restarts": int(os.environ["TORCHELASTIC_RESTART_COUNT"]),
    }
    with open(os.environ["STEPS_FILE"], "a") as file:
        file.write(json.dumps(line) + "\n")


def digest(model: nn.Module) -> str:
    found = hashlib.sha256()
    for value in model.state_dict().values():
        whole = value.full_tensor() if hasattr(value, "full_tensor") else value
        found.update(whole.numpy().tobytes())
    return found.hexdigest()


dist.init_process_group("gloo")
torch.manual_seed(0)
model: nn.Module = nn.Sequential(nn.Linear(37, 64), nn.ReLU(), nn.Linear(64, 10))
if os.environ.get("SHARDED"):
    fully_shard(model, mesh=dist.init_device_mesh("cpu", (dist.get_world_size(),)))
else:
    model = DistributedDataParallel(model)
optimizer = torch.optim.Adam(model.parameters())
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 7)
state = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "step": 0}
checkpointer = Checkpointer(os.environ.get("CHECKPOINTS") or None, every=EVERY, keep=3)
start = checkpointer.restore(state)
assert state["step"] == start
note(f"resumed from {checkpointer.resumed.source.value}", start)
for step in range(start, STEPS):
    generator = torch.Generator().manual_seed(step)
    inputs = torch.randn(8, 37, generator=generator)
    loss = nn.functional.cross_entropy(model(inputs), torch.arange(8))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    note("trained", step)
    checkpointer.step(step, state)
    note("step", step)
    if (copied := checkpointer.status().copied) is not None:
        note("copied", copied)
    if not HURRY.exists():
        time.sleep(PAUSE)
result = digest(model)
if dist.get_rank() == 0:
    with open(os.environ["RESULT"], "w") as file:
        file.write(result)
checkpointer.close()
dist.destroy_process_group()
