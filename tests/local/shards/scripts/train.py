"""DDP training on leased data, with state that this script saves itself, all ranks at one step.

Every rank appends the records of each step to a log before the step counts; a step counts when it
is in the state that was saved last. The environment sets the length, the intervals and the deaths.
"""

import json
import os
import signal
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

from resile.train.data.sharded.dataset import Pace, ShardedDataset

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
ROUND = int(os.environ.get("RESILE_ROUND", "1"))
FOLDER = Path(os.environ["STATE"])
RECORDS = int(os.environ.get("RECORDS", "300"))
EVERY = int(os.environ.get("EVERY", "3"))
EPOCHS = int(os.environ.get("EPOCHS", "1"))
LOADERS = int(os.environ.get("LOADERS", "0"))
PAUSE = float(os.environ.get("PAUSE", "0"))
APART = "APART" in os.environ
DIE_AT = int(os.environ.get("DIE_AT", "-1"))


class Numbers(torch.utils.data.Dataset):
    """Records that are their own index."""

    def __len__(self):
        return RECORDS

    def __getitem__(self, index):
        return torch.tensor([float(index)])


def log(kind, **said):
    line = {"kind": kind, "round": ROUND, "rank": RANK, "world": WORLD, "pid": os.getpid(), **said}
    with open(FOLDER / f"log-{ROUND}-{RANK}.jsonl", "a") as file:
        file.write(json.dumps(line) + "\n")


def save(step):
    """One state of all ranks, put in place at once by rank 0."""
    states = [None] * WORLD
    dist.all_gather_object(states, dataset.state_dict())
    if RANK == 0:
        draft = FOLDER / "state.tmp"
        draft.write_text(json.dumps({"step": step, "round": ROUND, "states": states}))
        draft.rename(FOLDER / "state.json")


dist.init_process_group("gloo")
dataset = ShardedDataset(Numbers(), shard_size=20, seed=3, epochs=EPOCHS, name="numbers")
step, saved = 0, FOLDER / "state.json"
# Rank 0 reads for all: ranks must not diverge if the file is replaced meanwhile.
box = [json.loads(saved.read_text()) if saved.exists() and RANK == 0 else None]
dist.broadcast_object_list(box)
if box[0] is not None:
    step = box[0]["step"]
    dataset.load_rank_states(box[0]["states"])
log("begun", step=step, resumed=box[0]["round"] if box[0] else None)
model = DistributedDataParallel(torch.nn.Linear(1, 1))
pace = Pace.APART if APART else Pace.TOGETHER
# Ranks in lockstep take unevenly only if their batches are uneven.
batch_size = 2 if APART and RANK == 0 else 4
loader = dataset.loader(batch_size=batch_size, pace=pace, num_workers=LOADERS)


def train(batch):
    global step
    loss = model(batch / RECORDS).sum() * (1 if dataset.share else 0)
    loss.backward()
    step += 1
    counted = [int(value) for value in batch.flatten().tolist()][: dataset.share]
    log("step", step=step, epoch=dataset.epoch, records=counted)
    dataset.advance()
    if ROUND == 1 and RANK == WORLD - 1 and step == DIE_AT:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(PAUSE)


for _epoch in dataset.remaining_epochs():
    if APART:
        with Join([model]):
            for batch in loader:
                train(batch)
    else:
        for batch in loader:
            train(batch)
            if step % EVERY == 0:
                save(step)
log("over", step=step)
dist.barrier()
dist.destroy_process_group()
