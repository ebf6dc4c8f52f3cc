"""DDP training on a stream of three partitions, with snapshots; ends after $STEPS steps.

Every rank appends the records of each step, a partition and an offset each, to a log.
"""

import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from resile import Checkpointer, ShardedDataset

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
ROUND = int(os.environ["RESILE_ROUND"])
FOLDER = Path(os.environ["STATE"])
STEPS = int(os.environ["STEPS"])


class Log:
    """Records that contain their position."""

    partitions = 3

    def read(self, partition, start, stop):
        return [torch.tensor([partition, offset]) for offset in range(start, stop)]


def log(kind, **said):
    line = {"kind": kind, "round": ROUND, "rank": RANK, "world": WORLD, "pid": os.getpid(), **said}
    with open(FOLDER / f"log-{ROUND}-{RANK}.jsonl", "a") as file:
        file.write(json.dumps(line) + "\n")


dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(2, 1))
dataset = ShardedDataset(Log(), shard_size=6, shuffle=False, offsets=[100, 0, 7], name="log")
state = {"model": model, "data": dataset, "round": 0, "step": 0}
checkpointer = Checkpointer(None, every=3)
step = checkpointer.restore(state)
log("begun", step=step, resumed=state["round"] or None)
state["round"] = ROUND
for batch in dataset.loader(batch_size=4, num_workers=int(os.environ["LOADERS"])):
    model(batch.float()).sum().backward()
    log("step", step=step + 1, epoch=0, records=batch.tolist())
    checkpointer.step(step, state)
    step += 1
    if step == STEPS:
        break
    time.sleep(0.02)
checkpointer.close()
dist.destroy_process_group()
